/* src/mpi/group/barrier.h: a barrier of ranks that share memory. */
#ifndef ONESPACE_MPI_GROUP_BARRIER_H
#define ONESPACE_MPI_GROUP_BARRIER_H

#include "mpi/group/wait.h"

/* In memory that all ranks share; zeroed memory is a valid barrier. */
struct barrier {
    _Atomic uint32_t
        arrived; /* all ranks add; the last resets it before it opens the next generation */
    _Atomic uint32_t generation; /* the last adds one (release); the others wait for it (acquire) */
    /* Set by a rank that gave up, after which the count means nothing. Relaxed: a rank that does
     * not see it yet gives up by itself. */
    _Atomic uint32_t is_broken;
};

/* Writes before any rank's barrier_arrive are visible after barrier_await. barrier_arrive returns
 * the ticket for barrier_await. */
uint32_t barrier_arrive(struct barrier *barrier, int ranks);
int barrier_await(struct barrier *barrier, uint32_t ticket, struct wait *wait);

#endif
