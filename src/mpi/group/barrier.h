/* src/mpi/group/barrier.h: a barrier of ranks that share memory. */
#ifndef ONESPACE_MPI_GROUP_BARRIER_H
#define ONESPACE_MPI_GROUP_BARRIER_H

#include "mpi/group/wait.h"

/* A barrier of all ranks in memory that they share; zeroed memory is a ready one. */
struct barrier {
    _Atomic uint32_t arrived;    /* all ranks add; the last sets 0 before it opens the next */
    _Atomic uint32_t generation; /* the last adds one (release); the others wait for it (acquire) */
    /* A rank that gave up sets it: relaxed, and whoever does not see it yet gives up by itself. The
     * count cannot be trusted any more. */
    _Atomic uint32_t is_broken;
};

/* What others did before they arrived is seen after barrier_await. The result of barrier_arrive is
 * what barrier_await waits to pass. */
uint32_t barrier_arrive(struct barrier *barrier, int ranks);
int barrier_await(struct barrier *barrier, uint32_t ticket, struct wait *wait);

#endif
