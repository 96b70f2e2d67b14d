/* src/mpi/group/wait.h: wait for another rank in shared memory, and let MPI make progress
 * meanwhile. */
#ifndef ONESPACE_MPI_GROUP_WAIT_H
#define ONESPACE_MPI_GROUP_WAIT_H

#include <stdint.h>

#include "mpi/group/group.h"

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

#endif
