/* src/arch/aarch64/copy.S: copies that may fault: see copy.h. */
        .text

/* What is left of less than 16 bytes: to=x0, from=x1, size=x2. Changes x3. */
        .macro  COPY_REST
        tbz     x2, #3, 1f
        ldr     x3, [x1], #8
        str     x3, [x0], #8
1:      tbz     x2, #2, 2f
        ldr     w3, [x1], #4
        str     w3, [x0], #4
2:      tbz     x2, #1, 3f
        ldrh    w3, [x1], #2
        strh    w3, [x0], #2
3:      tbz     x2, #0, 4f
        ldrb    w3, [x1]
        strb    w3, [x0]
4:      mov     w0, wzr
        ret
        .endm

/* int arch_guarded_copy(to=x0, from=x1, size=x2): leaves the vector registers alone. */
        .globl  arch_guarded_copy
        .hidden arch_guarded_copy
        .type   arch_guarded_copy, %function
arch_guarded_copy:
        .cfi_startproc
        subs    x5, x2, #16
        b.lo    .Lrest
.Lpairs:
        ldp     x3, x4, [x1], #16
        stp     x3, x4, [x0], #16
        subs    x5, x5, #16
        b.hs    .Lpairs
.Lrest:
        COPY_REST
        .cfi_endproc
        .size   arch_guarded_copy, .-arch_guarded_copy

/* int arch_guarded_copy_wide(to=x0, from=x1, size=x2). 64 bytes at a time. */
        .globl  arch_guarded_copy_wide
        .hidden arch_guarded_copy_wide
        .type   arch_guarded_copy_wide, %function
arch_guarded_copy_wide:
        .cfi_startproc
        subs    x5, x2, #64
        b.lo    .Lsmall
.Lwide:
        ldp     q0, q1, [x1]
        ldp     q2, q3, [x1, #32]
        add     x1, x1, #64
        stp     q0, q1, [x0]
        stp     q2, q3, [x0, #32]
        add     x0, x0, #64
        subs    x5, x5, #64
        b.hs    .Lwide
.Lsmall:
        tbz     x2, #5, .Lsixteen
        ldp     q0, q1, [x1], #32
        stp     q0, q1, [x0], #32
.Lsixteen:
        tbz     x2, #4, .Lwide_rest
        ldr     q0, [x1], #16
        str     q0, [x0], #16
.Lwide_rest:
        COPY_REST
        .cfi_endproc
        .size   arch_guarded_copy_wide, .-arch_guarded_copy_wide
        .globl  arch_guarded_copy_end
        .hidden arch_guarded_copy_end
arch_guarded_copy_end:

/* Where arch_fault_recover resumes after a fault in either copy: neither has a frame. */
        .globl  arch_guarded_copy_failed
        .hidden arch_guarded_copy_failed
        .type   arch_guarded_copy_failed, %function
arch_guarded_copy_failed:
        mov     w0, #-1
        ret
        .size   arch_guarded_copy_failed, .-arch_guarded_copy_failed

        .section .note.GNU-stack, "", %progbits
