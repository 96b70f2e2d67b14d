/* src/arch/x86_64/remote_call.S: a call with the thread pointer and stack of another thread: see
 * cpu/remote_call.h. */
#include "cpu/remote_call.h"

        .text

/* Sets the thread pointer to what the frame (rbx) has at \field. Changes rax, rcx, rdi, rsi, r11. */
        .macro  SET_POINTER field
        cmpl    $0, ARCH_FRAME_BY_CALL(%rbx)
        jne     1f
        mov     \field(%rbx), %rax
        wrfsbase %rax
        jmp     2f
1:      mov     $158, %eax              /* arch_prctl(ARCH_SET_FS) */
        mov     $0x1002, %edi
        mov     \field(%rbx), %rsi
        syscall
2:
        .endm

/* long arch_remote_call_switch(struct arch_remote_call_frame *=rdi). The frame pointer stays the caller's across the
 * change of stacks, so that debuggers and profilers find the caller's frames. A signal frame to them, since
 * the stack that they come to may lie below the one that they leave. */
        .globl  arch_remote_call_switch
        .hidden arch_remote_call_switch
        .type   arch_remote_call_switch, @function
arch_remote_call_switch:
        .cfi_startproc
        .cfi_signal_frame
        push    %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        mov     %rsp, %rbp
        .cfi_def_cfa_register %rbp
        push    %rbx
        .cfi_offset %rbx, -24
        push    %r12
        .cfi_offset %r12, -32
        push    %r13
        .cfi_offset %r13, -40
        push    %r14
        .cfi_offset %r14, -48
        push    %r15
        .cfi_offset %r15, -56
        sub     $8, %rsp
        mov     %rdi, %rbx
        stmxcsr ARCH_FRAME_FLOATING(%rbx)
        fnstcw  ARCH_FRAME_CONTROL(%rbx)
        mov     %rsp, ARCH_FRAME_OWN_STACK(%rbx)
        /* In this order: a thread that announces the callee's end later sends a signal, whose handler
         * finds the call armed. */
        movl    $1, ARCH_FRAME_ARMED(%rbx)
        mov     ARCH_FRAME_GONE(%rbx), %rax
        cmpl    $0, (%rax)
        jne     .Lgone
        SET_POINTER ARCH_FRAME_POINTER
        mov     ARCH_FRAME_STACK(%rbx), %rsp
        mov     ARCH_FRAME_FUNCTION(%rbx), %rdi
        mov     ARCH_FRAME_ARGUMENTS(%rbx), %rsi
        call    *ARCH_FRAME_BOUNDARY(%rbx)
        mov     %rax, ARCH_FRAME_RESULT(%rbx)
        SET_POINTER ARCH_FRAME_OWN_POINTER
        mov     ARCH_FRAME_OWN_STACK(%rbx), %rsp
        xor     %eax, %eax
.Lout:
        movl    $0, ARCH_FRAME_ARMED(%rbx)
        add     $8, %rsp
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbx
        pop     %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_def_cfa %rbp, 16
.Lgone:
        mov     $-130, %rax             /* -EOWNERDEAD */
        jmp     .Lout
        .cfi_endproc
        .size   arch_remote_call_switch, .-arch_remote_call_switch

/* void arch_remote_call_leave(struct arch_remote_call_frame *=rdi, long status=rsi). Also entered from a signal handler, at
 * any instruction of the callee's. */
        .globl  arch_remote_call_leave
        .hidden arch_remote_call_leave
        .type   arch_remote_call_leave, @function
arch_remote_call_leave:
        .cfi_startproc
        .cfi_undefined %rip
        mov     %rdi, %rbx
        mov     %rsi, %r12
        SET_POINTER ARCH_FRAME_OWN_POINTER
        mov     ARCH_FRAME_OWN_STACK(%rbx), %rsp
        fninit
        fldcw   ARCH_FRAME_CONTROL(%rbx)
        ldmxcsr ARCH_FRAME_FLOATING(%rbx)
        cld
        mov     %r12, %rax
        jmp     .Lout
        .cfi_endproc
        .size   arch_remote_call_leave, .-arch_remote_call_leave

/* long arch_remote_call_boundary(function=rdi, const intptr_t arguments[6]=rsi) */
        .globl  arch_remote_call_boundary
        .hidden arch_remote_call_boundary
        .type   arch_remote_call_boundary, @function
arch_remote_call_boundary:
        .cfi_startproc
        .cfi_personality 0x1b, arch_remote_call_personality /* relative to here, four bytes */
        push    %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        mov     %rsp, %rbp
        .cfi_def_cfa_register %rbp
        mov     %rdi, %r11
        mov     %rsi, %r10
        mov     (%r10), %rdi
        mov     8(%r10), %rsi
        mov     16(%r10), %rdx
        mov     24(%r10), %rcx
        mov     32(%r10), %r8
        mov     40(%r10), %r9
        xor     %eax, %eax              /* no vector registers, for functions of variable arguments */
        call    *%r11
        pop     %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size   arch_remote_call_boundary, .-arch_remote_call_boundary

        .section .note.GNU-stack, "", @progbits
