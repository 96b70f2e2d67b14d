/* src/mpi/group/group.h: the ranks that use windows together. */
#ifndef ONESPACE_MPI_GROUP_GROUP_H
#define ONESPACE_MPI_GROUP_GROUP_H

#include <stdatomic.h>
#include <stdint.h>

/* The ranks of a communicator. Reference-counted, since windows outlive their communicator. */
struct group {
    _Atomic uint32_t
        users; /* references: any thread; dropping the last one (acquire-release) frees */
    int rank, ranks;
    int is_one_space;
    /* Whether the ranks on this node outnumber the CPUs that they may run on (cpus.h). In one space
     * all ranks have rank 0's answer. */
    int is_oversubscribed;
    uint32_t spins; /* of a wait, before it yields the CPU (wait.c) */
    int *pids;      /* by rank; 0: on another node or in another PID namespace */
    int members[];  /* task ids by rank; -1: not in this rank's space. The pids follow. */
};

/* Whether the rank is on this node. Symmetric: all ranks of a node get the same answer about one
 * another. */
static inline int group_is_intra_node(const struct group *group, int rank)
{
    return rank == group->rank || group->is_one_space || group->pids[rank];
}

/* Whether the rank's addresses are valid in this process. */
static inline int group_in_space(const struct group *group, int rank)
{
    return group->members[rank] >= 0;
}

struct group *group_hold(struct group *group);
void group_release(struct group *group);

#endif
