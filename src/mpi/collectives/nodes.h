/* src/mpi/collectives/nodes.h: operations on communicators whose ranks are in several spaces, on
 * several nodes: the layer runs them within each node, and the MPI library between the nodes.
 *
 * The ranks of a node are a communicator of their own, and so are the first ranks of all nodes, the
 * leaders. Leaders exchange contiguous bytes in node order: node by node, and within a node rank by
 * rank. Only little data goes this way: for much data the library is best, because all ranks' links
 * carry it at once.
 *
 * Every call begins with an agreement (nodes_agree), unless the operation or the distribution of
 * ranks over nodes decides it. */
#ifndef ONESPACE_MPI_COLLECTIVES_NODES_H
#define ONESPACE_MPI_COLLECTIVES_NODES_H

#include "mpi/collectives/coll_call.h"

/* Collective. NULL: no two ranks share a space, or all do, or a space has no memory for an engine;
 * or, with *error set, MPI failed. */
struct nodes *nodes_new(MPI_Comm comm, const struct group *group, int *error);
/* Collective. NULL: nothing happens. */
void nodes_free(struct nodes *nodes);

/* For COLL_NODES. 1: the operation is done, or call->error is set. 0: the MPI library runs the
 * call, on all ranks. */
void nodes_barrier(struct coll_call *call);
int nodes_bcast(struct coll_call *call);
int nodes_gather(struct coll_call *call); /* the all- variants too */
int nodes_scatter(struct coll_call *call);
int nodes_alltoall(struct coll_call *call);
int nodes_reduce(struct coll_call *call); /* MPI_Allreduce too */
int nodes_scan(struct coll_call *call);

/* ---- For nodes_*.c ---- */

enum {
    NODES_BCAST_MAX_BYTES = 64 << 10,
    NODES_REDUCE_MAX_BYTES = 16 << 10,
    NODES_GATHER_MAX_BYTES = 64 << 10, /* that a leader passes on */
};

/* How a call is done. If ranks decide differently, the smallest value counts. */
enum nodes_decision {
    NODES_ERROR,    /* not at all: the arguments of `rank` are wrong */
    NODES_MISMATCH, /* not at all: `rank` and `peer` pass different sizes */
    NODES_LIBRARY,  /* by the MPI library */
    NODES_LAYER,
    NODES_INLINE, /* by the layer, with the data in the records */
};

/* Every rank contributes a record to each agreement. Operations that need room for the data of each
 * rank use all of it; broadcasts and reductions only the first NODES_SHORT_BYTES, which fit a slot
 * of the engine. */
enum { NODES_SHORT_BYTES = 64, NODES_LONG_BYTES = 256 };
struct nodes_record {
    uint16_t decision, is_root;
    uint32_t bytes;
    int32_t rank, peer;
    _Alignas(16) char data[NODES_LONG_BYTES - 16];
};
_Static_assert(sizeof(struct nodes_record) == NODES_LONG_BYTES, "");
enum {
    SHORT_DATA_MAX_BYTES = NODES_SHORT_BYTES - offsetof(struct nodes_record, data),
    LONG_DATA_MAX_BYTES = NODES_LONG_BYTES - offsetof(struct nodes_record, data),
};

/* Combines two records whose decisions are NODES_LAYER or NODES_INLINE: `lower` is that of lower
 * ranks, `higher` becomes the result. */
struct nodes_merge {
    void (*combine)(void *context, const struct nodes_record *lower, struct nodes_record *higher);
    void *context;
    int is_long; /* the records */
};

struct nodes {
    MPI_Comm node_comm, leader_comm; /* leader_comm: MPI_COMM_NULL if this rank is no leader */
    struct engine *engine;           /* of node_comm; NULL: this rank is alone */
    MPI_Op merge_op;                 /* of a leader: combines records */
    MPI_Datatype record_types[2];    /* of a leader: short and long ones */
    int rank, ranks, count;          /* count: of nodes */
    int largest;                     /* ranks of the largest node */
    int ranks_are_in_node_order;
    char *buffers[2]; /* of a leader: NODES_GATHER_MAX_BYTES each */
    int *node_starts; /* the position in node order of each node's first rank, and the end */
    int *node_order;  /* the ranks in node order */
    /* For the call in progress: where the block of each position begins, and the arguments of the
     * leaders' call.
     */
    int *block_starts, *counts, *displs;
    struct {
        int node, local_rank;
    } location[]; /* by rank */
};

static inline int nodes_is_leader(const struct nodes *nodes)
{
    return nodes->leader_comm != MPI_COMM_NULL;
}
/* The caller's node. */
static inline int nodes_own(const struct nodes *nodes)
{
    return nodes->location[nodes->rank].node;
}
/* The position of a rank in node order. */
static inline int nodes_position(const struct nodes *nodes, int rank)
{
    return nodes->node_starts[nodes->location[rank].node] + nodes->location[rank].local_rank;
}
static inline int nodes_size(const struct nodes *nodes, int node)
{
    return nodes->node_starts[node + 1] - nodes->node_starts[node];
}

/* Returns the decision of all ranks, and leaves the combined record. `error`: of this rank's
 * arguments. After NODES_ERROR call->error is set on all ranks. */
enum nodes_decision nodes_agree(struct coll_call *call, const struct nodes_merge *merge, int error,
                                struct nodes_record *record);
/* 1: the two pass different sizes; `higher` becomes NODES_MISMATCH. */
int nodes_sizes_differ(const struct nodes_record *lower, struct nodes_record *higher);
/* nodes_merge.combine for records in which each rank's data has a place of its own, and the rest is
 * zero. */
void nodes_merge_disjoint(void *context, const struct nodes_record *lower,
                          struct nodes_record *higher);
/* For `bytes` bytes in records that hold max_bytes. 0 bytes: the library. */
static inline enum nodes_decision nodes_decide(size_t bytes, size_t max_bytes)
{
    return bytes == 0 ? NODES_LIBRARY : bytes <= max_bytes ? NODES_INLINE : NODES_LAYER;
}
/* Within a node, from a local rank. MPI_SUCCESS or an error class. */
int nodes_bcast_within(const struct nodes *nodes, void *buf, MPI_Count count, MPI_Datatype datatype,
                       int local_root);

#endif
