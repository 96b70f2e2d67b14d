/* src/mpi/collectives/nodes.h: short collective operations on communicators whose ranks are in
 * several spaces, on several nodes. The MPI library runs all others. */
#ifndef ONESPACE_MPI_COLLECTIVES_NODES_H
#define ONESPACE_MPI_COLLECTIVES_NODES_H

#include "mpi/collectives/coll_call.h"

enum { NODES_BUFFER_BYTES = 1 << 20, NODES_PER_LEADER_MAX = 8 };

struct nodes {
    MPI_Comm node_comm;     /* the ranks of this node */
    MPI_Comm leader_comm;   /* the first ranks of all nodes; MPI_COMM_NULL on others */
    MPI_Comm messages_comm; /* all ranks, for messages between leaders */
    struct engine *engine;  /* of node_comm; NULL: this rank is alone */
    int rank, ranks;
    int node, count;          /* this rank's node; of how many */
    int local;                /* its number among the ranks of its node */
    int ranks_min, ranks_max; /* of one node */
    int *members;             /* all ranks, node by node */
    struct {
        int node, local;
    } * places;  /* by rank: its node, and its number there */
    int *starts; /* index in `members` of each node's first rank; count + 1 entries */
    int ranks_are_in_node_order;
    char *buffers[2]; /* of the first rank of a node, for sums (nodes.c) */
    /* NODES_BUFFER_BYTES each, for messages of node_exchange.c and data without gaps. */
    char *sent, *received, *packed;
};

/* Collective. NULL: no two ranks share a space, or all do, or a rank has no memory; or, with *error
 * set, MPI failed. */
struct nodes *nodes_new(MPI_Comm comm, const struct group *group, int *error);
/* Collective. NULL: nothing happens. */
void nodes_free(struct nodes *nodes);
/* node_exchange.c: runs a call that combines nothing. 0: this rank calls the MPI library. All ranks
 * do, unless this rank's arguments are wrong. */
int nodes_exchange(struct coll_call *call);

#endif
