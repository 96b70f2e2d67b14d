/* src/arch/aarch64/jump_table.S: assembly: functions that jump to where a table says. */
#ifndef ONESPACE_ARCH_JUMP_TABLE_S
#define ONESPACE_ARCH_JUMP_TABLE_S

/* The function \name jumps to entry \number of the table \targets; while that is zero, it goes on in
 * \resolve. Load-acquire, pairs with the release store of the entry: a branch orders no loads behind it, and what the
 * target reads may be as new as the entry (a library that was loaded to find it). */
        .macro  ARCH_TABLE_JUMP name, targets, number, resolve
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
        adrp    x16, \targets + 8 * \number
        add     x16, x16, #:lo12:(\targets + 8 * \number)
        ldar    x16, [x16]
        cbz     x16, 1f
        br      x16
1:      mov     w16, #\number
        b       \resolve
        .cfi_endproc
        .size   \name, .-\name
        .endm

/* Where it goes on: \function(number, return address) returns where to jump to. Preserves the arguments, of which there are
 * none in vector registers. */
        .macro  ARCH_TABLE_RESOLVE name, function
\name:
        .cfi_startproc
        stp     x29, x30, [sp, #-80]!
        .cfi_adjust_cfa_offset 80
        .cfi_offset x29, -80
        .cfi_offset x30, -72
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        mov     w0, w16
        mov     x1, x30
        bl      \function
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldp     x29, x30, [sp], #80
        .cfi_adjust_cfa_offset -80
        br      x16
        .cfi_endproc
        .endm

#endif
