/* src/arch/aarch64/clone.S: making a kernel task, entering a program, returning from a signal.
 *
 * Hidden symbols: other tasks' threads call these by address, never through a dynamic linker, so
 * nothing here may go through the PLT. */
        .text

/* long arch_clone(flags=x0, stack=x1, parent_tid=x2): the two words at `stack` are the function's
 * argument and the function. */
        .globl  arch_clone
        .hidden arch_clone
        .type   arch_clone, %function
arch_clone:
        .cfi_startproc
        mov     x3, xzr                 /* thread pointer */
        mov     x4, xzr                 /* child_tid */
        mov     x8, #220
        svc     #0
        cbz     x0, .Lchild
        ret
        .cfi_endproc
        .size   arch_clone, .-arch_clone

/* long arch_clone3(struct clone_args *=x0, size=x1): the same with the two words at the end of the
 * stack that the arguments describe. */
        .globl  arch_clone3
        .hidden arch_clone3
        .type   arch_clone3, %function
arch_clone3:
        .cfi_startproc
        mov     x8, #435
        svc     #0
        cbz     x0, .Lchild
        ret
.Lchild:
        .cfi_undefined x30              /* the outermost frame: debuggers stop here */
        mov     x29, xzr
        mov     x30, xzr
        ldp     x0, x1, [sp], #16       /* argument, function */
        blr     x1
        brk     #1
        .cfi_endproc
        .size   arch_clone3, .-arch_clone3

/* void arch_enter_program(stack_pointer=x0, entry=x1). By x16, so that an entry that only indirect
 * calls may reach (BTI) can be entered. */
        .globl  arch_enter_program
        .hidden arch_enter_program
        .type   arch_enter_program, %function
arch_enter_program:
        .cfi_startproc
        .cfi_undefined x30
        mov     sp, x0
        mov     x16, x1
        mov     x0, xzr                 /* no function for the program to register with atexit */
        .irp    n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
        mov     x\n, xzr
        .endr
        br      x16
        .cfi_endproc
        .size   arch_enter_program, .-arch_enter_program

/* The very instructions of the vDSO's: unwinders know a signal frame by them. */
        .globl  arch_signal_restorer
        .hidden arch_signal_restorer
        .type   arch_signal_restorer, %function
        nop                             /* unwinders look one byte before the return address */
arch_signal_restorer:
        mov     x8, #139
        svc     #0
        .size   arch_signal_restorer, .-arch_signal_restorer

        .section .note.GNU-stack, "", %progbits
