/* src/arch/x86_64/trampoline.S: from a trampoline to the C function that stands for the replaced
 * instruction, and back to what follows it. Runs on tasks' threads, in the root's copy of the library. */
#include "arch/trampoline_offsets.h"

/* Where the caller goes on stands in the record, not on the stack: the value of rip (16) is what is
 * found ARCH_CALL_RESUME behind r11 (breg11, deref), or behind what was saved from it at -8(%rbp)
 * (breg6, deref, plus, deref). So debuggers see through. */
#define RIP_FROM_R11       .cfi_escape 0x16, 16, 3, 0x7b, ARCH_CALL_RESUME, 0x06
#define RIP_FROM_SAVED_R11 .cfi_escape 0x16, 16, 6, 0x76, 0x78, 0x06, 0x23, ARCH_CALL_RESUME, 0x06

        .text

/* A trampoline came here by a jump with r11 = struct arch_call *, in place of a system call: the
 * arguments are in the system call's registers, the stack's red zone is the caller's, and only rax,
 * rcx, r11 and the flags may change. Vector registers stay as they are because everything that is
 * called from here is compiled without them, except where it saves them itself. */
        .globl  arch_call_entry
        .hidden arch_call_entry
        .type   arch_call_entry, @function
arch_call_entry:
        .cfi_startproc simple
        .cfi_def_cfa %rsp, 0
        RIP_FROM_R11
        lea     -128(%rsp), %rsp
        .cfi_def_cfa_offset 128
        push    %rbp
        .cfi_def_cfa_offset 136
        .cfi_offset %rbp, -136
        mov     %rsp, %rbp
        .cfi_def_cfa_register %rbp
        push    %r11
        RIP_FROM_SAVED_R11
        push    %r9                     /* long arguments[6], ascending from here: */
        push    %r8
        push    %r10
        push    %rdx
        push    %rsi
        push    %rdi
        mov     %r11, %rdi              /* struct arch_call */
        mov     %rsp, %rsi              /* arguments */
        and     $-ARCH_DATA_BYTES, %r11       /* its page: struct arch_trampoline_data */
        and     $-16, %rsp
        call    *ARCH_DATA_CALL_HANDLER(%r11)
        lea     -56(%rbp), %rsp
        pop     %rdi
        pop     %rsi
        pop     %rdx
        pop     %r10
        pop     %r8
        pop     %r9
        pop     %r11
        mov     ARCH_CALL_RESUME(%r11), %rcx
        RIP_FROM_R11
        pop     %rbp
        .cfi_def_cfa %rsp, 128
        .cfi_same_value %rbp
        lea     128(%rsp), %rsp
        .cfi_def_cfa_offset 0
        jmp     *%rcx
        .cfi_endproc
        .size   arch_call_entry, .-arch_call_entry

/* A trampoline called with r11 = struct arch_cpuid *; above the return address is the old r11. The status
 * flags are kept too, but not by pushf, which would keep a debugger's trap flag. */
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
