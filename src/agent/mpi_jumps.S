/* src/agent/mpi_jumps.S: a jump under the name of each MPI function that the MPI layer wraps.
 *
 * Each jumps to its entry in mpi_targets; while that is zero, it calls mpi_resolve(index, return address)
 * first. Zeroes need no relocation, and no page of their own in programs that never get here. */
#include "mpi/names/functions.h"

        .text
        .set    index, 0

        .macro  mpi_jump name
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        mov     mpi_targets + 8 * index(%rip), %r11
        test    %r11, %r11
        jz      1f
        jmp     *%r11
1:      mov     $index, %r11d
        jmp     resolve
        .cfi_endproc
        .size   \name, .-\name
        .set    index, index + 1
        .endm

/* Preserves the arguments; MPI has none in vector registers. */
resolve:
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
        mov     56(%rsp), %rsi  /* the return address */
        call    mpi_resolve
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

/* In the order of the names in src/agent/mpi.c. */
#define JUMPS(name) mpi_jump MPI_##name; mpi_jump PMPI_##name;
#define JUMP(name) mpi_jump name;
MPI_MAKERS(JUMPS) MPI_MAKERS_LARGE(JUMPS) MPI_COLLECTIVES(JUMPS) MPI_COLLECTIVES_LARGE(JUMPS) MPI_USERS(JUMPS) MPI_USERS_LARGE(JUMPS) MPI_OWN(JUMP) MPI_FORTRAN(JUMP) MPI_INTERNAL(JUMP)

        .section .note.GNU-stack, "", @progbits
