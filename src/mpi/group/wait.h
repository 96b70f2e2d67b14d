/* src/mpi/group/wait.h: wait for another rank in shared memory, and let MPI make progress
 * meanwhile. */
#ifndef ONESPACE_MPI_GROUP_WAIT_H
#define ONESPACE_MPI_GROUP_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

#include "mpi/group/agreement.h"

/* One wait. Fill with WAIT_INIT. */
struct wait {
    const struct party *party;
    uint32_t rounds;
    uint64_t look_at; /* ns: when to look next whether all ranks are alive; 0: not set yet */
    uint64_t pause;   /* ns, from there to the next one */
    /* The others may be waiting for a device, and the kernel's threads that serve it for this
     * processor: sleeps soon. To give it to others of this program only is not enough. */
    int is_for_io;
};
#define WAIT_INIT(party_)                                                                          \
    {                                                                                              \
        (party_), 0, 0, 0, 0                                                                       \
    }

/* Spends a moment. MPI_SUCCESS, or an error class when a rank has ended, for which there would be
 * waiting for ever; a message was printed then. */
int wait_round(struct wait *wait);

/* How long ranks spin: long when each can have a processor, since giving it away may cost a time
 * slice of somebody else's; short when they keep one another from running. */
uint32_t wait_spins(int ranks);

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
