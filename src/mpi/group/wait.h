/* src/mpi/group/wait.h: waits for another rank in shared memory, while MPI makes progress. */
#ifndef ONESPACE_MPI_GROUP_WAIT_H
#define ONESPACE_MPI_GROUP_WAIT_H

#include <stdint.h>

#include "mpi/group/group.h"

/* One wait. Fill with WAIT_INIT. */
struct wait {
    const struct group *group;
    uint32_t rounds;
    uint64_t look_at; /* ns: when to check next that all ranks are alive; 0: not set yet */
    uint64_t pause;   /* ns, from that check to the next one */
    /* The others may be waiting for a device, whose kernel threads need this CPU. So the wait soon
     * sleeps: yielding would give the CPU to ranks of this program only. */
    int is_for_io;
};
#define WAIT_INIT(group_)                                                                          \
    {                                                                                              \
        (group_), 0, 0, 0, 0                                                                       \
    }

/* One round of a wait: spins, yields or sleeps. MPI_SUCCESS, or an error class after a message when
 * a rank of the group has ended: the wait might never end. */
int wait_round(struct wait *wait);

/* How many rounds ranks spin before they yield: many when each can have a CPU, since yielding may
 * cost a time slice; few when the CPUs are oversubscribed. */
uint32_t wait_spins(int is_oversubscribed);

#endif
