/* src/mpi/collectives/nodes_parts.h: what the operations on several nodes have in common.
 *
 * Among the leaders data is bytes in the order of the spaces, within a space in that of its ranks:
 * the node order. Which operations take this way may depend only on what is equal on all ranks: the
 * bytes of a rank's data, by the rule that signatures match, and where ranks are. */
#ifndef ONESPACE_MPI_COLLECTIVES_NODES_PARTS_H
#define ONESPACE_MPI_COLLECTIVES_NODES_PARTS_H

#include "mpi/collectives/exchange.h"

enum {
    BROADCAST_MAX = 64 << 10, /* bytes of data */
    REDUCE_MAX = 16 << 10,
    MOVE_MAX = 64 << 10, /* of what a leader passes on */
};

struct nodes {
    MPI_Comm here, leaders; /* leaders: MPI_COMM_NULL if this rank is none */
    int rank, ranks, spaces;
    int most_here;   /* ranks of the largest space */
    int is_in_order; /* the node order is that of the ranks */
    char *rooms[2];  /* of a leader: MOVE_MAX bytes each */
    int *by_space;   /* the first place in node order of each space, and behind the last */
    int *by_place;   /* the ranks in node order */
    /* Of the call in progress: where each place's bytes begin, and what leaders exchange. */
    int *starts, *counts, *displacements;
    struct {
        int leader; /* among the leaders */
        int place;  /* within its space */
    } of[];         /* by rank */
};

static inline int nodes_is_leader(const struct nodes *nodes)
{
    return nodes->leaders != MPI_COMM_NULL;
}
/* Of this rank's space, among the leaders. */
static inline int nodes_own(const struct nodes *nodes)
{
    return nodes->of[nodes->rank].leader;
}
/* A rank's place in node order. */
static inline int nodes_place(const struct nodes *nodes, int rank)
{
    return nodes->by_space[nodes->of[rank].leader] + nodes->of[rank].place;
}
/* How many ranks a space has. */
static inline int nodes_size(const struct nodes *nodes, int space)
{
    return nodes->by_space[space + 1] - nodes->by_space[space];
}

/* Within a space, from the rank at that place. */
int nodes_broadcast_here(const struct nodes *nodes, const struct one *data, int place);

#endif
