/* src/arch/aarch64/remote_call.S: a call with the thread pointer and stack of another thread: see
 * cpu/remote_call.h. */
#include "cpu/remote_call.h"

        .text

#define SAVED 160 /* bytes: x29, x30, x19 to x28, d8 to d15 */

/* long arch_remote_call_switch(struct arch_remote_call_frame *=x0). The frame pointer stays the caller's across the
 * change of stacks, so that debuggers and profilers find the caller's frames. A signal frame to them, since
 * the stack that they come to may lie below the one that they leave. */
        .globl  arch_remote_call_switch
        .hidden arch_remote_call_switch
        .type   arch_remote_call_switch, %function
arch_remote_call_switch:
        .cfi_startproc
        .cfi_signal_frame
        stp     x29, x30, [sp, #-SAVED]!
        .cfi_def_cfa_offset SAVED
        .cfi_offset x29, -SAVED
        .cfi_offset x30, -SAVED + 8
        mov     x29, sp
        .cfi_def_cfa_register x29
        stp     x19, x20, [sp, #16]
        .cfi_offset x19, -SAVED + 16
        .cfi_offset x20, -SAVED + 24
        stp     x21, x22, [sp, #32]
        .cfi_offset x21, -SAVED + 32
        .cfi_offset x22, -SAVED + 40
        stp     x23, x24, [sp, #48]
        .cfi_offset x23, -SAVED + 48
        .cfi_offset x24, -SAVED + 56
        stp     x25, x26, [sp, #64]
        .cfi_offset x25, -SAVED + 64
        .cfi_offset x26, -SAVED + 72
        stp     x27, x28, [sp, #80]
        .cfi_offset x27, -SAVED + 80
        .cfi_offset x28, -SAVED + 88
        stp     d8, d9, [sp, #96]
        .cfi_offset b8, -SAVED + 96
        .cfi_offset b9, -SAVED + 104
        stp     d10, d11, [sp, #112]
        .cfi_offset b10, -SAVED + 112
        .cfi_offset b11, -SAVED + 120
        stp     d12, d13, [sp, #128]
        .cfi_offset b12, -SAVED + 128
        .cfi_offset b13, -SAVED + 136
        stp     d14, d15, [sp, #144]
        .cfi_offset b14, -SAVED + 144
        .cfi_offset b15, -SAVED + 152
        mov     x19, x0
        mrs     x1, fpcr
        str     w1, [x19, #ARCH_FRAME_FLOATING]
        mov     x1, sp
        str     x1, [x19, #ARCH_FRAME_OWN_STACK]
        /* In this order: a thread that announces the callee's end later sends a signal, whose handler
         * finds the call armed. */
        mov     w1, #1
        str     w1, [x19, #ARCH_FRAME_ARMED]
        ldr     x1, [x19, #ARCH_FRAME_GONE]
        ldar    w1, [x1]
        cbnz    w1, .Lgone
        ldr     x1, [x19, #ARCH_FRAME_POINTER]
        msr     tpidr_el0, x1
        ldr     x1, [x19, #ARCH_FRAME_STACK]
        mov     sp, x1
        ldr     x0, [x19, #ARCH_FRAME_FUNCTION]
        ldr     x1, [x19, #ARCH_FRAME_ARGUMENTS]
        ldr     x2, [x19, #ARCH_FRAME_BOUNDARY]
        blr     x2
        str     x0, [x19, #ARCH_FRAME_RESULT]
        ldr     x1, [x19, #ARCH_FRAME_OWN_POINTER]
        msr     tpidr_el0, x1
        ldr     x1, [x19, #ARCH_FRAME_OWN_STACK]
        mov     sp, x1
        mov     x0, xzr
.Lout:
        str     wzr, [x19, #ARCH_FRAME_ARMED]
        ldp     d14, d15, [sp, #144]
        ldp     d12, d13, [sp, #128]
        ldp     d10, d11, [sp, #112]
        ldp     d8, d9, [sp, #96]
        ldp     x27, x28, [sp, #80]
        ldp     x25, x26, [sp, #64]
        ldp     x23, x24, [sp, #48]
        ldp     x21, x22, [sp, #32]
        ldp     x19, x20, [sp, #16]
        .cfi_remember_state
        ldp     x29, x30, [sp], #SAVED
        .cfi_def_cfa sp, 0
        ret
        .cfi_restore_state
.Lgone:
        mov     x0, #-130               /* -EOWNERDEAD */
        b       .Lout
        .cfi_endproc
        .size   arch_remote_call_switch, .-arch_remote_call_switch

/* void arch_remote_call_leave(struct arch_remote_call_frame *=x0, long status=x1). Also entered from a signal handler, at
 * any instruction of the callee's. */
        .globl  arch_remote_call_leave
        .hidden arch_remote_call_leave
        .type   arch_remote_call_leave, %function
arch_remote_call_leave:
        .cfi_startproc
        .cfi_undefined x30
        mov     x19, x0
        ldr     x2, [x19, #ARCH_FRAME_OWN_POINTER]
        msr     tpidr_el0, x2
        ldr     x2, [x19, #ARCH_FRAME_OWN_STACK]
        mov     sp, x2
        mov     x29, x2
        ldr     w2, [x19, #ARCH_FRAME_FLOATING]
        msr     fpcr, x2
        mov     x0, x1
        b       .Lout
        .cfi_endproc
        .size   arch_remote_call_leave, .-arch_remote_call_leave

/* long arch_remote_call_boundary(function=x0, const intptr_t arguments[6]=x1) */
        .globl  arch_remote_call_boundary
        .hidden arch_remote_call_boundary
        .type   arch_remote_call_boundary, %function
arch_remote_call_boundary:
        .cfi_startproc
        .cfi_personality 0x1b, arch_remote_call_personality /* relative to here, four bytes */
        stp     x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov     x29, sp
        .cfi_def_cfa_register x29
        mov     x16, x0
        mov     x17, x1
        ldp     x0, x1, [x17]
        ldp     x2, x3, [x17, #16]
        ldp     x4, x5, [x17, #32]
        blr     x16
        ldp     x29, x30, [sp], #16
        .cfi_def_cfa sp, 0
        ret
        .cfi_endproc
        .size   arch_remote_call_boundary, .-arch_remote_call_boundary

        .section .note.GNU-stack, "", %progbits
