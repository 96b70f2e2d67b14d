/* tests/arch/aarch64/patched.S: code that is patched: a system call among registers that must not change. */
        .text

/* int patched_registers(uint64_t before[32], uint64_t after[32], long nr): loads x1 to x30 but x16, x18 and x29
 * with what is in `before`, sets the flags, makes the system call `nr` with the argument before[0], and stores all
 * again. x19 and x20 keep the addresses. */
        .globl  patched_registers
        .type   patched_registers, %function
patched_registers:
        .cfi_startproc
        stp     x29, x30, [sp, #-112]!
        .cfi_def_cfa_offset 112
        .cfi_offset x29, -112
        .cfi_offset x30, -104
        mov     x29, sp
        stp     x19, x20, [sp, #16]
        .cfi_offset x19, -96
        .cfi_offset x20, -88
        stp     x21, x22, [sp, #32]
        stp     x23, x24, [sp, #48]
        stp     x25, x26, [sp, #64]
        stp     x27, x28, [sp, #80]
        mov     x19, x0
        mov     x20, x1
        ldr     x0, [x19]
        ldp     x1, x2, [x19, #8]
        ldp     x3, x4, [x19, #24]
        ldp     x5, x6, [x19, #40]
        ldr     x7, [x19, #56]
        ldp     x9, x10, [x19, #72]
        ldp     x11, x12, [x19, #88]
        ldp     x13, x14, [x19, #104]
        ldr     x15, [x19, #120]
        ldp     x16, x17, [x19, #128]
        ldp     x21, x22, [x19, #168]
        ldp     x23, x24, [x19, #184]
        ldp     x25, x26, [x19, #200]
        ldp     x27, x28, [x19, #216]
        ldr     x30, [x19, #240]
        cmp     x19, x19                /* Z and C */
        .globl  patched_number
patched_number:
        mov     x8, #172                /* getpid */
        nop
        .globl  patched_call
patched_call:
        svc     #0
        str     x0, [x20]
        cset    w0, eq
        str     x8, [x20, #64]
        stp     x1, x2, [x20, #8]
        stp     x3, x4, [x20, #24]
        stp     x5, x6, [x20, #40]
        str     x7, [x20, #56]
        stp     x9, x10, [x20, #72]
        stp     x11, x12, [x20, #88]
        stp     x13, x14, [x20, #104]
        str     x15, [x20, #120]
        stp     x21, x22, [x20, #168]
        stp     x23, x24, [x20, #184]
        stp     x25, x26, [x20, #200]
        stp     x27, x28, [x20, #216]
        str     x30, [x20, #240]
        ldp     x27, x28, [sp, #80]
        ldp     x25, x26, [sp, #64]
        ldp     x23, x24, [sp, #48]
        ldp     x21, x22, [sp, #32]
        ldp     x19, x20, [sp, #16]
        ldp     x29, x30, [sp], #112
        ret
        .cfi_endproc
        .size   patched_registers, .-patched_registers

        .section .note.GNU-stack, "", %progbits
