/* src/arch/x86_64/entry.S: the code that cannot be written in C.
 *
 * Local to the library: the addresses are used by other tasks' threads, never by the dynamic
 * linker, so nothing here may go through the PLT. */
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

/* A stub came here by a jump with r11 = struct arch_site *, in place of a system call: the
 * arguments are in the system call's registers, the stack's red zone is the caller's, and only rax,
 * rcx, r11 and the flags may change. Vector registers stay as they are because everything that is
 * called from here is compiled without them, except where it saves them itself. */
        .globl  arch_site_entry
        .hidden arch_site_entry
        .type   arch_site_entry, @function
arch_site_entry:
        .cfi_startproc simple
        .cfi_def_cfa %rsp, 0
        .cfi_undefined %rip
        lea     -128(%rsp), %rsp
        push    %rbp
        mov     %rsp, %rbp
        push    %r11
        push    %r9                     /* long arguments[6], ascending from here: */
        push    %r8
        push    %r10
        push    %rdx
        push    %rsi
        push    %rdi
        mov     %r11, %rdi              /* site */
        mov     %rsp, %rsi              /* arguments */
        and     $-16, %rsp
        call    steer_dispatch
        lea     -56(%rbp), %rsp
        pop     %rdi
        pop     %rsi
        pop     %rdx
        pop     %r10
        pop     %r8
        pop     %r9
        pop     %r11
        mov     16(%r11), %rcx          /* site->resume */
        pop     %rbp
        lea     128(%rsp), %rsp
        jmp     *%rcx
        .cfi_endproc
        .size   arch_site_entry, .-arch_site_entry

/* A stub came here with r11 = struct arch_cpuid_site *, the old r11 on the stack, above it a free word
 * and the interrupted code's red zone. */
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
        pushq   32(%rsp)
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
        mov     8(%r11), %rax           /* site->resume */
        mov     %rax, 136(%rsp)         /* the free word, above 16 registers and the old r11 */
        mov     %r11, %rdi
        mov     %rsp, %rsi
        mov     %rsp, %rbp
        and     $-16, %rsp
        cld
        call    arch_cpuid_answer
        mov     %rbp, %rsp
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
        lea     8(%rsp), %rsp           /* the old r11 */
        ret     $128
        .cfi_endproc
        .size   arch_cpuid_entry, .-arch_cpuid_entry

/* int arch_guarded_copy(to=rdi, from=rsi, size=rdx): leaves the vector registers alone. */
        .globl  arch_guarded_copy
        .hidden arch_guarded_copy
        .type   arch_guarded_copy, @function
arch_guarded_copy:
        .cfi_startproc
        mov     %rdx, %rcx
        cld
        rep movsb
        xor     %eax, %eax
        ret
        .cfi_endproc
        .size   arch_guarded_copy, .-arch_guarded_copy

/* int arch_guarded_copy_wide(to=rdi, from=rsi, size=rdx). With AVX a loop over 128 bytes, whose stores stay
 * in the cache at every size; the string copy for short ones and without AVX. The last 128 bytes are
 * loaded first and stored last, so that the loop needs no remainder. */
        .globl  arch_guarded_copy_wide
        .hidden arch_guarded_copy_wide
        .type   arch_guarded_copy_wide, @function
arch_guarded_copy_wide:
        .cfi_startproc
        cmp     $128, %rdx
        jb      .Lstring
        cmpb    $0, arch_has_avx(%rip)
        je      .Lstring
        vmovdqu -128(%rsi,%rdx), %ymm4
        vmovdqu -96(%rsi,%rdx), %ymm5
        vmovdqu -64(%rsi,%rdx), %ymm6
        vmovdqu -32(%rsi,%rdx), %ymm7
        lea     -128(%rdi,%rdx), %rcx   /* where the last 128 bytes go */
        mov     %rdi, %r8
        and     $31, %r8                /* align the stores: the first 32 bytes overlap the loop's */
        jz      .Laligned
        vmovdqu (%rsi), %ymm0
        mov     $32, %r9d
        sub     %r8, %r9
        vmovdqu %ymm0, (%rdi)
        add     %r9, %rdi
        add     %r9, %rsi
.Laligned:
        cmp     %rcx, %rdi
        jae     .Llast
        .p2align 4
.Lloop:
        vmovdqu (%rsi), %ymm0
        vmovdqu 32(%rsi), %ymm1
        vmovdqu 64(%rsi), %ymm2
        vmovdqu 96(%rsi), %ymm3
        sub     $-128, %rsi
        vmovdqa %ymm0, (%rdi)
        vmovdqa %ymm1, 32(%rdi)
        vmovdqa %ymm2, 64(%rdi)
        vmovdqa %ymm3, 96(%rdi)
        sub     $-128, %rdi
        cmp     %rcx, %rdi
        jb      .Lloop
.Llast:
        vmovdqu %ymm4, (%rcx)
        vmovdqu %ymm5, 32(%rcx)
        vmovdqu %ymm6, 64(%rcx)
        vmovdqu %ymm7, 96(%rcx)
        vzeroupper
        xor     %eax, %eax
        ret
.Lstring:
        mov     %rdx, %rcx
        cld
        rep movsb
        xor     %eax, %eax
        ret
        .cfi_endproc
        .size   arch_guarded_copy_wide, .-arch_guarded_copy_wide
        .globl  arch_guarded_copy_end
        .hidden arch_guarded_copy_end
arch_guarded_copy_end:

/* Where a fault in either copy goes on. */
        .globl  arch_guarded_copy_failed
        .hidden arch_guarded_copy_failed
        .type   arch_guarded_copy_failed, @function
arch_guarded_copy_wide_failed:
        .cfi_startproc
        cmpb    $0, arch_has_avx(%rip)
        je      arch_guarded_copy_failed
        vzeroupper
arch_guarded_copy_failed:
        mov     $-1, %eax
        ret
        .cfi_endproc
        .size   arch_guarded_copy_failed, .-arch_guarded_copy_failed
        .globl  arch_guarded_copy_wide_failed
        .hidden arch_guarded_copy_wide_failed

        .section .note.GNU-stack, "", @progbits
