/* src/arch/x86_64/jump_table.S: assembly: functions that jump to where a table says. */
#ifndef ONESPACE_ARCH_JUMP_TABLE_S
#define ONESPACE_ARCH_JUMP_TABLE_S

/* The function \name jumps to entry \number of the table \targets; while that is zero, it goes on in
 * \resolve. */
        .macro  ARCH_TABLE_JUMP name, targets, number, resolve
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        mov     \targets + 8 * \number(%rip), %r11
        test    %r11, %r11
        jz      1f
        jmp     *%r11
1:      mov     $\number, %r11d
        jmp     \resolve
        .cfi_endproc
        .size   \name, .-\name
        .endm

/* Where it goes on: \function(number, return address) returns where to jump to. Preserves the arguments, of which there are
 * none in vector registers. */
        .macro  ARCH_TABLE_RESOLVE name, function
\name:
        .cfi_startproc
        push    %rdi
        push    %rsi
        push    %rdx
        push    %rcx
        push    %r8
        push    %r9
        sub     $8, %rsp
        .cfi_adjust_cfa_offset 56
        mov     %r11d, %edi
        mov     56(%rsp), %rsi
        call    \function
        mov     %rax, %r11
        add     $8, %rsp
        pop     %r9
        pop     %r8
        pop     %rcx
        pop     %rdx
        pop     %rsi
        pop     %rdi
        .cfi_adjust_cfa_offset -56
        jmp     *%r11
        .cfi_endproc
        .endm

#endif
