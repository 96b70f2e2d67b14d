/* tests/arch/registers.S: see registers.h. */
        .text
        .globl  run_with_registers
        .type   run_with_registers, @function
run_with_registers:
        push    %rbx
        push    %rbp
        push    %r12
        push    %r13
        push    %r14
        push    %r15
        pushfq
        push    %rdi
        mov     8(%rdi), %rcx
        mov     16(%rdi), %rdx
        mov     24(%rdi), %rbx
        mov     40(%rdi), %rbp
        mov     48(%rdi), %rsi
        mov     64(%rdi), %r8
        mov     72(%rdi), %r9
        mov     80(%rdi), %r10
        mov     88(%rdi), %r11
        mov     96(%rdi), %r12
        mov     104(%rdi), %r13
        mov     112(%rdi), %r14
        mov     120(%rdi), %r15
        mov     (%rdi), %rax
        push    136(%rdi)               /* the code */
        push    128(%rdi)               /* its flags */
        mov     56(%rdi), %rdi
        popfq
        call    *(%rsp)
        xchg    %rdi, 8(%rsp)           /* the structure */
        mov     %rax, (%rdi)
        pushfq
        pop     %rax
        btr     $8, %rax                /* TF, which single steps set */
        mov     %rax, 128(%rdi)
        push    %rax
        popfq
        mov     %rcx, 8(%rdi)
        mov     %rdx, 16(%rdi)
        mov     %rbx, 24(%rdi)
        mov     %rbp, 40(%rdi)
        mov     %rsi, 48(%rdi)
        mov     %r8, 64(%rdi)
        mov     %r9, 72(%rdi)
        mov     %r10, 80(%rdi)
        mov     %r11, 88(%rdi)
        mov     %r12, 96(%rdi)
        mov     %r13, 104(%rdi)
        mov     %r14, 112(%rdi)
        mov     %r15, 120(%rdi)
        mov     8(%rsp), %rax
        mov     %rax, 56(%rdi)
        lea     16(%rsp), %rsp
        popfq
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .size   run_with_registers, .-run_with_registers
        .section .note.GNU-stack, "", @progbits
