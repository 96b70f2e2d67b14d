/* src/mpi/collectives/nodes.h: operations on communicators whose ranks are in several spaces, on
 * several nodes: the layer runs them within each node, and the MPI library carries messages between
 * the nodes.
 *
 * The ranks of a node are a communicator of their own, and so are the first ranks of all nodes, the
 * leaders. Leaders exchange contiguous bytes in node order: node by node, and within a node rank by
 * rank. Only little data goes this way: for much data the library is best, because all ranks' links
 * carry it at once.
 *
 * Every call begins with an agreement (nodes_agree), unless the operation or the distribution of
 * ranks over nodes decides it. The data of most operations travels with it. */
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
_Static_assert((int)NODES_BCAST_MAX_BYTES <= NODES_GATHER_MAX_BYTES, "buffers have that size");
_Static_assert((int)NODES_REDUCE_MAX_BYTES <= NODES_GATHER_MAX_BYTES, "buffers have that size");

/* How a call is done. If ranks decide differently, the smallest value counts. */
enum nodes_decision {
    NODES_ERROR,    /* not at all: the arguments of `rank` are wrong */
    NODES_MISMATCH, /* not at all: `rank` and `peer` pass different sizes */
    NODES_LIBRARY,  /* by the MPI library */
    NODES_LAYER,  /* by the layer, with the data in the leaders' messages or after the agreement */
    NODES_INLINE, /* by the layer, with the data in the records */
    NODES_LOAD,   /* a leader's to its node: nodes_payload.load comes now */
};

/* Every rank contributes a record to each agreement. Operations that need space for the data of
 * each rank use all of it; broadcasts and reductions only the first NODES_SHORT_BYTES, which fit a
 * slot of the engine. */
enum { NODES_SHORT_BYTES = 64, NODES_LONG_BYTES = 256 };
struct nodes_record {
    uint16_t decision, is_root;
    uint32_t bytes;
    int32_t rank, peer;
    _Alignas(16) char data[NODES_LONG_BYTES - 16];
};
_Static_assert(sizeof(struct nodes_record) == NODES_LONG_BYTES, "");
enum {
    NODES_HEAD_BYTES = offsetof(struct nodes_record, data),
    SHORT_DATA_MAX_BYTES = NODES_SHORT_BYTES - NODES_HEAD_BYTES,
    LONG_DATA_MAX_BYTES = NODES_LONG_BYTES - NODES_HEAD_BYTES,
};

/* How data that is too long for the records travels in the leaders' messages. */
struct nodes_payload {
    /* Collective within each node whose ranks' decision is NODES_LAYER. The leader puts the node's
     * data at its buffers[0] and sets *bytes. Returns MPI_SUCCESS or an error class. */
    int (*load)(void *context, size_t *bytes);
    /* Combines the data of lower and of higher nodes in one of the two, and sets the size of the
     * other to 0. NULL: only one node has data. */
    int (*combine)(void *context, struct engine_part *lower, struct engine_part *higher);
    /* A rank of a node that gets the data receives it. */
    void (*store)(void *context, const struct engine_part *data);
    int root; /* the rank whose node gets the data; or COLL_ALL_RANKS */
};

/* The part of an operation in its agreement. */
struct nodes_operation {
    /* Combines two records whose decisions are NODES_LAYER or NODES_INLINE: `lower` is that of
     * lower ranks, `higher` becomes the result. The data is valid with NODES_INLINE. */
    void (*merge)(void *context, const struct nodes_record *lower, struct nodes_record *higher);
    const struct nodes_payload *payload; /* NULL: after NODES_LAYER the caller moves the data */
    void *context;
    int is_long; /* the records */
};

struct nodes {
    MPI_Comm node_comm, leader_comm; /* leader_comm: MPI_COMM_NULL if this rank is no leader */
    struct engine *engine;           /* of node_comm; NULL: this rank is alone */
    int rank, ranks, count;          /* count: of nodes */
    int largest;                     /* ranks of the largest node */
    int ranks_are_in_node_order;
    char *buffers[2]; /* of a leader: NODES_GATHER_MAX_BYTES each, behind NODES_HEAD_BYTES */
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

/* Returns the decision of all ranks, and leaves the combined record, with data after NODES_INLINE.
 * `error`: of this rank's arguments. After NODES_ERROR call->error is set on all ranks. */
enum nodes_decision nodes_agree(struct coll_call *call, const struct nodes_operation *operation,
                                int error, struct nodes_record *record);
/* 1: the two pass different sizes; `higher` becomes NODES_MISMATCH. */
int nodes_sizes_differ(const struct nodes_record *lower, struct nodes_record *higher);
/* nodes_operation.merge for records in which each rank's data has a place of its own, and the rest
 * is zero. */
void nodes_merge_disjoint(void *context, const struct nodes_record *lower,
                          struct nodes_record *higher);
/* For `bytes` bytes in records that hold max_bytes. 0 bytes: the library. */
static inline enum nodes_decision nodes_decide(size_t bytes, size_t max_bytes)
{
    return bytes == 0 ? NODES_LIBRARY : bytes <= max_bytes ? NODES_INLINE : NODES_LAYER;
}

#endif
