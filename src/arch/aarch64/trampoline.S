/* src/arch/aarch64/trampoline.S: from a trampoline to the C function that stands for the replaced
 * instruction, and back to what follows it. Runs on tasks' threads, in the root's copy of the library. */
#include "arch/trampoline.h"

/* The column of .eh_frame in which libgcc has the place where a signal came: there is none for the PC
 * that it would know. */
#define PC 96
#define FRAME 176

        .text

/* Entered from a trampoline by a jump, with x16 = struct arch_patched_syscall *, in place of a system call. A system call
 * changes x0 alone, not even the flags. The trampoline has pushed x16 and x17; below the stack pointer the
 * program has nothing. Vector registers are preserved because everything that is called from here is compiled
 * without them, except where it saves them itself.
 *
 * The number is compared with the one that the search found before the instruction: where a branch has led to
 * it with another one, the call is the kernel's.
 *
 * Back it goes by x16 or x17, whichever the code was found not to need (code/patch.c). By `ret`, which may lead
 * anywhere, while `br` may lead to marked instructions alone (BTI).
 *
 * To unwinders this is a function that the instruction before `resume` has called. */
        .globl  arch_syscall_entry
        .hidden arch_syscall_entry
        .type   arch_syscall_entry, %function
arch_syscall_entry:
        .cfi_startproc simple
        .cfi_return_column PC
        .cfi_def_cfa sp, 16
        /* DW_CFA_expression: the PC is saved at DW_OP_breg16 ARCH_SYSCALL_RESUME */
        .cfi_escape 0x10, PC, 2, 0x80, ARCH_SYSCALL_RESUME
        sub     sp, sp, #FRAME
        .cfi_def_cfa_offset FRAME + 16
        str     x29, [sp]
        .cfi_offset x29, -(FRAME + 16)
        ldr     x17, [x16, #ARCH_SYSCALL_RESUME]
        str     x17, [sp, #8]           /* with x29 a frame record */
        .cfi_offset PC, -(FRAME + 8)
        mrs     x17, nzcv
        stp     x30, x17, [sp, #16]
        .cfi_offset x30, -FRAME
        stp     x0, x1, [sp, #32]       /* long arguments[6], and the rest that C may change */
        stp     x2, x3, [sp, #48]
        stp     x4, x5, [sp, #64]
        stp     x6, x7, [sp, #80]
        stp     x8, x9, [sp, #96]
        stp     x10, x11, [sp, #112]
        stp     x12, x13, [sp, #128]
        stp     x14, x15, [sp, #144]
        stp     x16, x18, [sp, #160]
        mov     x29, sp
        ldr     x17, [x16, #ARCH_SYSCALL_NR]
        cmp     x17, x8
        b.ne    .Lother
        and     x17, x16, #-ARCH_DATA_BYTES /* its page: struct arch_trampoline_data */
        ldr     x17, [x17, #ARCH_DATA_SYSCALL_HANDLER]
        mov     x0, x16
        add     x1, sp, #32
        blr     x17
.Lback:
        ldp     x30, x17, [sp, #16]
        msr     nzcv, x17
        ldr     x1, [sp, #40]
        ldp     x2, x3, [sp, #48]
        ldp     x4, x5, [sp, #64]
        ldp     x6, x7, [sp, #80]
        ldp     x8, x9, [sp, #96]
        ldp     x10, x11, [sp, #112]
        ldp     x12, x13, [sp, #128]
        ldp     x14, x15, [sp, #144]
        ldp     x16, x18, [sp, #160]
        ldr     x29, [sp]
        .cfi_remember_state
        .cfi_restore x29
        .cfi_restore x30
        ldr     x17, [x16, #ARCH_SYSCALL_SCRATCH]
        tbz     x17, #0, .Lby_16
        ldr     x17, [sp, #8]
        .cfi_register PC, x17
        ldr     x16, [sp, #FRAME]
        add     sp, sp, #FRAME + 16
        .cfi_def_cfa_offset 0
        ret     x17
        .cfi_def_cfa_offset FRAME + 16
.Lby_16:
        ldr     x16, [sp, #8]
        .cfi_register PC, x16
        ldr     x17, [sp, #FRAME + 8]
        add     sp, sp, #FRAME + 16
        .cfi_def_cfa_offset 0
        ret     x16
        .cfi_restore_state
.Lother:
        svc     #0
        b       .Lback
        .cfi_endproc
        .size   arch_syscall_entry, .-arch_syscall_entry

/* Never run: it lends its description to the trampolines, whose page no linker has written one for. A trampoline
 * lies at a multiple of 32 and has at its end the distance from its beginning to its struct arch_patched_syscall. Its first
 * instruction moves the stack pointer by 16. */
        .globl  arch_trampoline_frame
        .hidden arch_trampoline_frame
        .type   arch_trampoline_frame, %function
arch_trampoline_frame:
        .cfi_startproc simple
        .cfi_return_column PC
        /* The CFA is sp + ((pc & 31) != 0) * 16: DW_CFA_def_cfa_expression, 12 bytes: breg31 0, bregx PC 0,
         * lit31, and, lit0, ne, lit4, shl, plus */
        .cfi_escape 0x0f, 12, 0x8f, 0, 0x92, PC, 0, 0x4f, 0x1a, 0x30, 0x2e, 0x34, 0x24, 0x22
        /* The PC is saved at t + *(uint64_t *)(t + 24) + ARCH_SYSCALL_RESUME with t = pc & ~31: DW_CFA_expression
         * PC, 13 bytes: bregx PC 0, lit31, not, and, dup, plus_uconst 24, deref, plus, plus_uconst RESUME */
        .cfi_escape 0x10, PC, 13, 0x92, PC, 0, 0x4f, 0x20, 0x1a, 0x12, 0x23, ARCH_TRAMPOLINE_DISTANCE, 0x06, 0x22, 0x23, ARCH_SYSCALL_RESUME
        brk     #1
        .cfi_endproc
        .size   arch_trampoline_frame, .-arch_trampoline_frame

/* What arch_write_trampolines copies. The adrp gets the distance of the data page. */
        .section .rodata, "a", %progbits
        .p2align 3
        .globl  arch_fault_template, arch_fault_template_end
        .hidden arch_fault_template, arch_fault_template_end
/* A signal handler: x0 to x2 are its arguments, x30 the signal's return code. */
arch_fault_template:
        nop                             /* adrp x16, data */
        stp     x29, x30, [sp, #-48]!
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        ldr     x3, [x16, #ARCH_DATA_SELF]
        ldr     x16, [x16, #ARCH_DATA_FAULT_HANDLER]
        blr     x16
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
        ldp     x29, x30, [sp], #48
        cbz     x16, 1f
        br      x16
1:      ret
arch_fault_template_end:

        .section .note.GNU-stack, "", %progbits
