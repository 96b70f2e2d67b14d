/* src/arch/x86_64/trampoline.S: from a trampoline to the C function that stands for the replaced
 * instruction, and back to what follows it. Runs on tasks' threads, in the root's copy of the library. */
#include "arch/trampoline.h"

        .text

/* Entered from a trampoline by a jump, with r11 = struct arch_patched_syscall *, in place of a system call: the
 * arguments are in the system call's registers, the stack's red zone is the caller's, and only rax,
 * rcx and r11 may change. The status flags are kept as by arch_cpuid_entry: compilers may rely on it
 * (preserves_flags in Rust's inline assembly). Vector registers are preserved because everything that is
 * called from here is compiled without them, except where it saves them itself.
 *
 * To unwinders this is a function that the instruction before `resume` has called: its frame lies
 * below the red zone, with the return address where frame pointers lead to. */
        .globl  arch_syscall_entry
        .hidden arch_syscall_entry
        .type   arch_syscall_entry, @function
arch_syscall_entry:
        .cfi_startproc simple
        .cfi_def_cfa %rsp, 0
        /* DW_CFA_expression: rip is saved at DW_OP_breg11 ARCH_SYSCALL_RESUME */
        .cfi_escape 0x10, 0x10, 2, 0x7b, ARCH_SYSCALL_RESUME
        lea     -128(%rsp), %rsp
        .cfi_def_cfa_offset 128
        pushq   ARCH_SYSCALL_RESUME(%r11)
        .cfi_def_cfa_offset 136
        .cfi_offset %rip, -136
        push    %rbp
        .cfi_def_cfa_offset 144
        .cfi_offset %rbp, -144
        mov     %rsp, %rbp
        .cfi_def_cfa_register %rbp
        push    %r11
        push    %r9                     /* long arguments[6], ascending from here: */
        push    %r8
        push    %r10
        push    %rdx
        push    %rsi
        push    %rdi
        mov     %r11, %rdi              /* struct arch_patched_syscall */
        mov     %rsp, %rsi              /* arguments */
        lahf
        seto    %al
        push    %rax
        and     $-ARCH_DATA_BYTES, %r11 /* its page: struct arch_trampoline_data */
        and     $-16, %rsp
        call    *ARCH_DATA_SYSCALL_HANDLER(%r11)
        lea     -64(%rbp), %rsp
        pop     %rcx
        xchg    %rax, %rcx              /* the flags; the result */
        add     $0x7f, %al              /* overflows if it did */
        sahf
        mov     %rcx, %rax
        pop     %rdi
        pop     %rsi
        pop     %rdx
        pop     %r10
        pop     %r8
        pop     %r9
        pop     %r11
        pop     %rbp
        .cfi_def_cfa %rsp, 136
        .cfi_restore %rbp
        pop     %rcx                    /* where to resume */
        .cfi_def_cfa_offset 128
        .cfi_register %rip, %rcx
        lea     128(%rsp), %rsp
        .cfi_def_cfa_offset 0
        jmp     *%rcx
        .cfi_endproc
        .size   arch_syscall_entry, .-arch_syscall_entry

/* Never run: it lends its description to the trampolines, whose page no linker has written one for.
 * A trampoline begins with lea distance(%rip), %r11, seven bytes that lead to a struct arch_patched_syscall. */
        .globl  arch_trampoline_frame
        .hidden arch_trampoline_frame
        .type   arch_trampoline_frame, @function
arch_trampoline_frame:
        .cfi_startproc simple
        .cfi_def_cfa %rsp, 0
        /* rip is saved at t + 7 + *(int32_t *)(t + 3) + ARCH_SYSCALL_RESUME with t = rip & -16, the
         * trampoline's beginning: DW_CFA_expression rip, 19 bytes: breg16 0, lit16, neg, and, dup,
         * plus_uconst 3, deref_size 4, const1u 32, shl, const1u 32, shra, plus,
         * plus_uconst 7 + ARCH_SYSCALL_RESUME */
        .cfi_escape 0x10, 0x10, 19, 0x80, 0, 0x40, 0x1f, 0x1a, 0x12, 0x23, 3, 0x94, 4, 0x08, 32, 0x24, 0x08, 32, 0x26, 0x22, 0x23, 7 + ARCH_SYSCALL_RESUME
        hlt
        .cfi_endproc
        .size   arch_trampoline_frame, .-arch_trampoline_frame

/* Called by a trampoline with r11 = struct arch_cpuid *; above the return address is the old r11. The
 * status flags are kept too, but not by pushf, which would keep a debugger's trap flag. */
        .globl  arch_cpuid_entry
        .hidden arch_cpuid_entry
        .type   arch_cpuid_entry, @function
arch_cpuid_entry:
        .cfi_startproc simple
        .cfi_def_cfa %rsp, 0
        .cfi_undefined %rip
        push    %r15                    /* registers[16] downwards; r11 comes from the stack */
        push    %r14
        push    %r13
        push    %r12
        pushq   40(%rsp)
        push    %r10
        push    %r9
        push    %r8
        push    %rdi
        push    %rsi
        push    %rbp
        push    %rsp
        push    %rbx
        push    %rdx
        push    %rcx
        push    %rax
        mov     %r11, %rdi
        mov     %rsp, %rsi
        lahf
        seto    %al
        push    %rax
        mov     %rsp, %rbp
        and     $-ARCH_DATA_BYTES, %r11       /* struct arch_trampoline_data */
        and     $-16, %rsp
        cld
        call    *ARCH_DATA_CPUID_HANDLER(%r11)
        mov     %rbp, %rsp
        pop     %rax
        add     $0x7f, %al              /* overflows if it did */
        sahf
        pop     %rax
        pop     %rcx
        pop     %rdx
        pop     %rbx
        lea     8(%rsp), %rsp
        pop     %rbp
        pop     %rsi
        pop     %rdi
        pop     %r8
        pop     %r9
        pop     %r10
        pop     %r11
        pop     %r12
        pop     %r13
        pop     %r14
        pop     %r15
        ret
        .cfi_endproc
        .size   arch_cpuid_entry, .-arch_cpuid_entry

        .section .note.GNU-stack, "", @progbits
