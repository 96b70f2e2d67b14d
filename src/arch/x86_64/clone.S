/* src/arch/x86_64/clone.S: making a kernel task, entering a program, returning from a signal.
 *
 * Hidden symbols: other tasks' threads call these by address, never through a dynamic linker, so
 * nothing here may go through the PLT. */
        .text

/* long arch_clone(flags=rdi, stack=rsi, parent_tid=rdx): the two words at `stack` are the function's
 * argument and the function. */
        .globl  arch_clone
        .hidden arch_clone
        .type   arch_clone, @function
arch_clone:
        .cfi_startproc
        xor     %r10d, %r10d            /* child_tid */
        xor     %r8d, %r8d              /* thread pointer */
        mov     $56, %eax
        syscall
        test    %eax, %eax
        jz      .Lchild
        ret
        .cfi_endproc
        .size   arch_clone, .-arch_clone

/* long arch_clone3(struct clone_args *=rdi, size=rsi): the same with the two words at the end of the
 * stack that the arguments describe. */
        .globl  arch_clone3
        .hidden arch_clone3
        .type   arch_clone3, @function
arch_clone3:
        .cfi_startproc
        mov     $435, %eax
        syscall
        test    %eax, %eax
        jz      .Lchild
        ret
.Lchild:
        .cfi_undefined %rip             /* the outermost frame: debuggers stop here */
        xor     %ebp, %ebp
        pop     %rdi                    /* argument */
        pop     %rax                    /* function; rsp is 16-byte aligned again */
        call    *%rax
        hlt
        .cfi_endproc
        .size   arch_clone3, .-arch_clone3

/* void arch_enter_program(stack_pointer=rdi, entry=rsi) */
        .globl  arch_enter_program
        .hidden arch_enter_program
        .type   arch_enter_program, @function
arch_enter_program:
        .cfi_startproc
        .cfi_undefined %rip
        mov     %rdi, %rsp
        mov     %rsi, %rax
        xor     %edx, %edx              /* no function for the program to register with atexit */
        xor     %ebx, %ebx
        xor     %ecx, %ecx
        xor     %esi, %esi
        xor     %edi, %edi
        xor     %ebp, %ebp
        xor     %r8d, %r8d
        xor     %r9d, %r9d
        xor     %r10d, %r10d
        xor     %r11d, %r11d
        xor     %r12d, %r12d
        xor     %r13d, %r13d
        xor     %r14d, %r14d
        xor     %r15d, %r15d
        cld
        jmp     *%rax
        .cfi_endproc
        .size   arch_enter_program, .-arch_enter_program

        .globl  arch_signal_restorer
        .hidden arch_signal_restorer
        .type   arch_signal_restorer, @function
        nop                             /* unwinders look one byte before the return address */
arch_signal_restorer:
        mov     $15, %eax
        syscall
        .size   arch_signal_restorer, .-arch_signal_restorer

        .section .note.GNU-stack, "", @progbits
