/* src/arch/x86_64/copy.S: copies that may fault: see copy.h. */
        .text

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

/* Where arch_fault_recover resumes after a fault in either copy. */
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

/* Set by arch_detect. */
        .bss
        .globl  arch_has_avx
        .hidden arch_has_avx
        .type   arch_has_avx, @object
        .size   arch_has_avx, 1
arch_has_avx:
        .zero   1

        .section .note.GNU-stack, "", @progbits
