/* src/agent/mpi_jumps.S: a jump under the name of each MPI function that the MPI layer wraps.
 *
 * Each jumps to its entry in mpi_targets; while that is zero, it calls mpi_resolve(index, return address)
 * first. Zeroes need no relocation, and no page of their own in programs that never get here. */
#include "arch/jump_table.S"
#include "mpi/names/functions.h"

        .text
        .set    index, 0

        .macro  mpi_jump name
        ARCH_TABLE_JUMP \name, mpi_targets, index, resolve
        .set    index, index + 1
        .endm

        ARCH_TABLE_RESOLVE resolve, mpi_resolve

/* In the order of the names in src/agent/mpi.c. */
#define JUMPS(name) mpi_jump MPI_##name; mpi_jump PMPI_##name;
#define JUMP(name) mpi_jump name;
MPI_LOADING(JUMPS) MPI_LOADING_LARGE(JUMPS) MPI_COLLECTIVES(JUMPS) MPI_COLLECTIVES_LARGE(JUMPS) MPI_NONBLOCKING(JUMPS) MPI_WAITING(JUMPS) MPI_WAITING_LARGE(JUMPS) MPI_FORWARDED(JUMPS) MPI_FORWARDED_LARGE(JUMPS) MPI_ONESPACE(JUMP) MPI_FORTRAN(JUMP) MPI_INTERNAL(JUMP)

        .section .note.GNU-stack, "", @progbits
