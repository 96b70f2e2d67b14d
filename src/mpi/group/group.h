/* src/mpi/group/group.h: the ranks that use windows together. */
#ifndef ONESPACE_MPI_GROUP_GROUP_H
#define ONESPACE_MPI_GROUP_GROUP_H

#include <stdatomic.h>
#include <stdint.h>

/* Who takes part; counted, since windows outlive their communicator. */
struct party {
    _Atomic uint32_t users; /* any thread; the last one (acquire-release) frees */
    int rank, ranks;
    int is_one_space;
    uint32_t spins; /* of a wait, before the processor is given to others (wait.c) */
    int *pids;      /* by rank; 0: the rank runs elsewhere, where its pid says nothing */
    int members[];  /* ids of the tasks by rank; -1: not of this rank's space. Then the pids */
};

/* Whether the rank runs on this node. All ranks of a node say the same of one another. */
static inline int party_is_near(const struct party *party, int rank)
{
    return rank == party->rank || party->is_one_space || party->pids[rank];
}

/* Whether its addresses are valid here. */
static inline int party_in_space(const struct party *party, int rank)
{
    return party->members[rank] >= 0;
}

void party_release(struct party *party);

#endif
