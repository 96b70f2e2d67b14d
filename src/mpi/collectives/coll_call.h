/* src/mpi/collectives/coll_call.h: one call of a collective operation, from its arguments to its
 * end.
 *
 *   wrap/collectives.c   fills in a struct coll_call
 *   coll_begin           decides, from what is equal on all ranks, whether the layer runs the call
 *   the operation        checks this rank's arguments and runs the engine: barrier_bcast.c,
 *                        gather_scatter.c, alltoall.c, reduce.c; over several nodes nodes.c,
 *                        node_exchange.c
 *   coll_end             one step of MPI's progress, and the communicator's error handler
 *
 * Once the decision is taken every rank takes part to the end. A rank whose own arguments are wrong
 * publishes a failure in place of data (coll_fail): it returns the class of its error, and the
 * ranks that need its data return MPI_ERR_OTHER. The operations of node_exchange.c are an
 * exception: there such a rank calls the MPI library, and the others wait. */
#ifndef ONESPACE_MPI_COLLECTIVES_COLL_CALL_H
#define ONESPACE_MPI_COLLECTIVES_COLL_CALL_H

#include <limits.h>

#include "mpi/collectives/engine.h"
#include "mpi/collectives/typed_buf.h"
#include "mpi/group/group.h"
#include "mpi/pmpi/pmpi.h"

struct nodes;
struct nonblocking;

/* ---- Communicators ---- */

struct communicator {
    struct engine *engine; /* if all ranks are in one space; */
    struct nodes *nodes;   /* if they are in several. Both NULL: the MPI library runs all calls */
    struct group *group;   /* if there is an engine */
    MPI_Comm comm;
    void *memory;                    /* that all ranks use, in rank 0's (group/group.h) */
    struct nonblocking *nonblocking; /* NULL: the MPI library runs nonblocking calls */
    struct communicator *next;       /* in the list of those freed, but still in use */
    struct pack_bufs *pack_bufs;     /* NULL until a call needs them */
    _Atomic uint64_t *counter;       /* of the task's operations on all communicators */
    int calls_until_decision;        /* calls that are not reductions; 0: the decision is taken */
};

/* By handle, and the entry that was found last. Any thread writes and reads that (relaxed): entries
 * are never freed, and the handle in it is compared. */
extern struct handle_table communicator_table;
extern struct handle_entry *_Atomic communicator_last;

/* NULL: no collective operation has been called on it. */
static inline struct handle_entry *communicator_entry(MPI_Comm comm)
{
    uintptr_t handle = (uintptr_t)comm;
    struct handle_entry *entry = atomic_load_explicit(&communicator_last, memory_order_relaxed);
    if (!handle) /* what a freed entry has */
        return NULL;
    if (entry && atomic_load_explicit(&entry->handle, memory_order_acquire) == handle)
        return entry;
    entry = handle_table_entry(&communicator_table, handle);
    if (entry)
        atomic_store_explicit(&communicator_last, entry, memory_order_relaxed);
    return entry;
}

/* Adds one to the task's operations. No locked instruction, which would wait until the peers have
 * this rank's flags: threads with calls on different communicators may lose a count. */
static inline void communicator_count(const struct communicator *communicator)
{
    _Atomic uint64_t *counter = communicator->counter;
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + 1, memory_order_relaxed);
}

/* Whether the MPI library runs this call; 0: coll_begin decides. The first step of each wrapper,
 * and all that a call of the library costs. Depends on what is equal on all ranks. */
static inline int communicator_is_library(MPI_Comm comm, int is_reduction)
{
    struct handle_entry *entry = communicator_entry(comm);
    if (!entry)
        return 0;
    struct communicator *communicator = atomic_load_explicit(&entry->value, memory_order_relaxed);
    if (communicator->engine || communicator->nodes)
        return 0;
    if (communicator->calls_until_decision == 0)
        return 1;
    if (is_reduction || communicator->calls_until_decision == 1)
        return 0;
    communicator->calls_until_decision--;
    return 1;
}

/* Called once by each call. Collective when it makes the engine, which all ranks do in the same
 * call:
 *
 * - on MPI_COMM_WORLD, and on all communicators with COLLECTIVES_AT_ONCE, in the first call
 * - on other communicators in the first reduction, because the library's sums may have other bits,
 *   or in call CALLS_BEFORE_SET_UP, because by then the set-up costs little in comparison
 *
 * NULL with *error set: out of memory, or MPI failed. NULL without an error: the MPI library runs
 * the call. */
struct communicator *communicator_get(MPI_Comm comm, int is_reduction, int *error);
/* NULL: out of memory. */
struct pack_bufs *communicator_pack_bufs(struct communicator *communicator);
/* Report to the user why `rank` has no result. Return the error class. */
int report_failed_peer(int rank, int peer); /* the peer's arguments are wrong */
int report_mismatch(int rank, int peer);    /* the peer calls another operation */

/* ---- Calls ---- */

enum { COLL_ALL_RANKS = ENGINE_ALL_RANKS }; /* in place of a root */

enum coll_operation {
    COLL_BARRIER,
    COLL_BCAST,
    COLL_GATHER,
    COLL_GATHERV,
    COLL_SCATTER,
    COLL_SCATTERV,
    COLL_ALLGATHER,
    COLL_ALLGATHERV,
    COLL_ALLTOALL,
    COLL_ALLTOALLV,
    COLL_ALLTOALLW,
    COLL_REDUCE, /* from here on reductions */
    COLL_ALLREDUCE,
    COLL_REDUCE_SCATTER,
    COLL_REDUCE_SCATTER_BLOCK,
    COLL_SCAN,
    COLL_EXSCAN,
};

struct coll_call {
    /* The arguments. MPI_Bcast has a recvbuf only. Count and datatype of a reduction are recvbuf's.
     */
    enum coll_operation operation;
    MPI_Comm comm;
    struct coll_buf sendbuf, recvbuf;
    MPI_Op op;
    int root;           /* as coll_root returns it; or COLL_ALL_RANKS */
    int is_within_node; /* a node's part of a call over several nodes: not counted itself */
    /* Set by coll_begin. */
    int rank, size;
    struct communicator *communicator;
    int error; /* MPI_SUCCESS, or this rank's first error */
    /* The part that a rank sends to itself; NULL: the data is in place. */
    const struct engine_part *own_part;
};

/* A root that the program passes. A negative one is neither a rank nor COLL_ALL_RANKS. */
static inline int coll_root(int root)
{
    return root < 0 ? INT_MAX : root;
}
static inline int coll_is_reduction(enum coll_operation operation)
{
    return operation >= COLL_REDUCE;
}
/* Whether the operation has a count for each rank. */
static inline int coll_has_counts(enum coll_operation operation)
{
    return operation == COLL_GATHERV || operation == COLL_SCATTERV ||
           operation == COLL_ALLGATHERV || operation == COLL_ALLTOALLV ||
           operation == COLL_ALLTOALLW || operation == COLL_REDUCE_SCATTER;
}
static inline int coll_receives(const struct coll_call *call)
{
    return call->root == COLL_ALL_RANKS || call->root == call->rank;
}
static inline void coll_set_error(struct coll_call *call, int error)
{
    if (call->error == MPI_SUCCESS)
        call->error = error;
}

/* 1 with *result; or 0: this rank calls the MPI library. All ranks do, except over several nodes if
 * this rank's arguments are wrong (node_exchange.c). */
int coll_barrier(struct coll_call *call, int *result);
int coll_bcast(struct coll_call *call, int *result);
int coll_gather(struct coll_call *call, int *result); /* the all- variants too */
int coll_scatter(struct coll_call *call, int *result);
int coll_alltoall(struct coll_call *call, int *result);
int coll_reduce(struct coll_call *call, int *result); /* MPI_Allreduce too */
int coll_reduce_scatter(struct coll_call *call, int *result);
int coll_scan(struct coll_call *call, int *result);

/* ---- Beginning and end ---- */

enum coll_path {
    COLL_LIBRARY,  /* the MPI library runs the call, on all ranks */
    COLL_SPACE,    /* the layer does, within one space */
    COLL_NODES,    /* nodes_run decides */
    COLL_FINISHED, /* call->error is set: continue with coll_end */
};
/* Depends on the communicator alone, but for COLL_FINISHED. */
enum coll_path coll_begin(struct coll_call *call);
/* This rank's arguments are wrong, which no other rank knows. In place of the operation. */
void coll_fail(struct coll_call *call, int error);
/* Returns 1. */
int coll_end(struct coll_call *call, int *result);

/* nodes.c: runs a call for which coll_begin has returned COLL_NODES. 1: the operation is done, or
 * call->error is set. 0: this rank calls the MPI library, as above. */
int nodes_run(struct coll_call *call);

/* In place of an error class: the MPI library runs the call, on all ranks. */
enum { COLL_DECLINED = -1 };
/* Runs the call on the path that coll_begin chooses. in_space returns MPI_SUCCESS, COLL_DECLINED,
 * or the class of this rank's error before anything was exchanged. Returns 0 if this rank calls the
 * MPI library, as above. Inlined, so that in_space is called directly. */
static inline int coll_run(struct coll_call *call, int *result, int (*in_space)(struct coll_call *))
{
    enum coll_path path = coll_begin(call);
    if (path == COLL_LIBRARY || (path == COLL_NODES && !nodes_run(call)))
        return 0;
    if (path == COLL_SPACE) {
        int error = in_space(call);
        if (error == COLL_DECLINED)
            return 0;
        if (error != MPI_SUCCESS)
            coll_fail(call, error);
    }
    return coll_end(call, result);
}

/* ---- Nonblocking operations (nonblocking.c) ---- */

/* Whether this process's MPI library can wait for requests of the layer's. The ranks agree on it:
 * their answers may differ. */
int nonblocking_is_possible(void);

/* Bytes of zeroed shared memory that each rank needs, a multiple of SHARED_BLOCK_ALIGN. */
size_t nonblocking_memory(void);
/* `memory`: all ranks', rank i's at i * nonblocking_memory. The caller keeps the group's other
 * ranks held. NULL: out of memory. */
struct nonblocking *nonblocking_new(const struct group *group, void *memory);
/* Whether this rank's operations are complete, and no other rank needs its operands any more: only
 * then may it be freed. */
int nonblocking_is_unused(const struct nonblocking *nonblocking);
void nonblocking_free(struct nonblocking *nonblocking);

/* Starts the operation of `call`, whose root, buffers and op are set. 1 with *request and *result;
 * or 0: the MPI library runs the call, on all ranks. Decides by what MPI requires to be equal. */
int nonblocking_start(struct coll_call *call, MPI_Request *request, int *result);
/* Makes progress of all operations. Returns 0. */
int nonblocking_progress(void);

/* ---- Arguments ----
 * Functions that check return MPI_SUCCESS or the class of the MPI library's error. */

/* Whether the MPI library accepts equal send and receive buffers: Open MPI does, except in
 * MPI_Reduce and MPI_Allreduce. Ask only about buffers that are equal: the first answer costs an
 * operation of the library. */
static inline int coll_may_alias(void)
{
    return pmpi_is_open_mpi() || !pmpi_refuses_aliases();
}
/* Where MPI does not allow MPI_IN_PLACE. */
static inline int coll_in_place_error(void)
{
    return pmpi_is_open_mpi() ? MPI_ERR_ARG : MPI_ERR_BUFFER;
}

/* Which types must be committed: in Open MPI those of data that is sent, in MPICH all except in a
 * broadcast of no items. */
enum buf_use { BUF_SENT, BUF_RECEIVED, BUF_EMPTY_BCAST };
/* Checks a buffer of one block, and sets *buf. */
int buf_check(const struct coll_buf *desc, enum buf_use use, struct typed_buf *buf);
/* Checks a buffer of `ranks` blocks, and sets *type, which MPI_Alltoallw does not use. */
int buf_check_blocks(const struct coll_buf *desc, int ranks, enum buf_use use,
                     struct item_layout *type);
/* The block of a rank. */
int buf_block(const struct coll_buf *desc, const struct item_layout *type, int rank,
              struct typed_buf *block);
/* Whether `one` is, at the same address, this rank's block of `blocks`: aliases that MPICH rejects.
 */
int buf_is_own_block(const struct coll_call *call, const struct coll_buf *one,
                     const struct coll_buf *blocks, const struct item_layout *type);

/* Each checks the arguments of its operation, also of that with counts. recvtype is set if this
 * rank receives, sendtype and own, the block that it sends to itself, if it is scatter's root; what
 * is not set may be NULL. In place the data of MPI_Alltoall and MPI_Gather's root is recvbuf's. */
int gather_check(const struct coll_call *call, struct typed_buf *sendblock,
                 struct item_layout *recvtype);
int scatter_check(const struct coll_call *call, struct item_layout *sendtype, struct typed_buf *own,
                  struct typed_buf *recvblock);
int alltoall_check(const struct coll_call *call, struct item_layout *sendtype,
                   struct item_layout *recvtype);

/* How a reduction combines items. */
struct reduce_operation {
    struct item_layout type;
    reduce_function *loop; /* NULL: MPI_Reduce_local does it */
    int commutes;
};
int reduce_operation_find(const struct coll_call *call, struct reduce_operation *operation);
/* Whether a rank of a reduction receives, and whether its buffers may be the same. */
struct reduce_rules {
    int receives, must_differ;
    int error; /* for MPI_IN_PLACE and equal buffers */
};
struct reduce_rules reduce_rules_of(const struct coll_call *call);
/* has_layout: the address may be MPI_BOTTOM. */
int reduce_check_bufs(const struct coll_call *call, const struct reduce_rules *rules,
                      int has_layout);

/* ---- Data ---- */

/* Memory to which short data of a derived type is packed, so that the sender need not wait for its
 * readers; NULL: the data is offered where it is. */
char *coll_pack_buf(const struct coll_call *call, int has_layout, size_t bytes);
/* Copies the part that `source` sent; from this rank itself call->own_part. */
void coll_receive(struct coll_call *call, const struct typed_buf *buf, int source,
                  const struct engine_part *part);
void coll_report_sizes(int rank, int source, size_t sent, size_t expected);

/* Contexts of engine_receive functions. */
struct recv_ctx {
    struct coll_call *call;
    const struct typed_buf *buf;
};
engine_receive recv_into; /* context: struct recv_ctx */
struct recv_each_ctx {
    struct coll_call *call;
    const struct coll_buf *recvbuf;
    struct item_layout type;
};
engine_receive recv_each; /* each rank's data to its block; context: struct recv_each_ctx */

/* The parts that this rank sends to each. */
enum { SEND_PARTS_INLINE = 64 };
struct send_ctx {
    struct engine_offer offer;
    struct engine_part inline_parts[SEND_PARTS_INLINE], *parts;
    void *copy;
};
/* MPI_SUCCESS; or an error class, and nothing to end. is_copied: the rank receives where it sends.
 */
int send_begin(const struct coll_call *call, const struct coll_buf *sendbuf,
               const struct item_layout *type, int is_copied, struct send_ctx *send);
void send_end(struct send_ctx *send);

void coll_exchange(struct coll_call *call, enum engine_kind kind, int from, int to,
                   const struct engine_offer *offer, engine_receive *receive, void *context);

#endif
