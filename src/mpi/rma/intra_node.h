/* src/mpi/rma/intra_node.h: puts and gets within a node, on a window that spans nodes.
 *
 * MPI serves the window, except that MPI_Put and MPI_Get to parts on this node are loads and
 * stores, as in a window of one node (direct.h). MPI does not know of these, so their order relies
 * on MPI's own synchronisation:
 *
 *   lock, lock_all  MPI may acquire the lock lazily. The first put or get fetches a byte
 *                   through MPI and flushes: after that the lock is held.
 *   fence           MPI's fence, then a barrier of this node's ranks, since MPI's need not be
 *                   one.
 *   start           MPI may return before the target has posted: everything goes through MPI.
 *   flush, unlock   a memory fence orders the stores before what MPI tells others afterwards.
 *
 * All accumulating calls go through MPI: atomics of this node would not be atomic with respect to
 * those of others. */
#ifndef ONESPACE_MPI_RMA_INTRA_NODE_H
#define ONESPACE_MPI_RMA_INTRA_NODE_H

#include "mpi/rma/count.h"

struct intra_node {
    struct direct *shared; /* what the ranks of this node share */
    size_t mapped;         /* bytes of it */
    int ranks;             /* of this node */
    /* The state of synchronisation: synchronisation calls of this process write it; puts and gets
     * of any thread read it. Relaxed: the program itself orders such calls. */
    _Atomic int is_fenced;           /* an epoch of MPI_Win_fence is open */
    _Atomic unsigned char everybody; /* MPI_Win_lock_all: enum lock_state */
    /* enum lock_state by rank; also written by a put or get that waits for the lock. */
    _Atomic unsigned char locks[];
};

/* For a window whose parts on this node are at window->bases. Takes ownership of `shared`, which is
 * mapped. NULL: out of memory. */
struct intra_node *intra_node_new(const struct group *group, struct direct *shared, size_t mapped);
void intra_node_free(struct intra_node *node);

/* Whether a put or get to the rank can be loads and stores now; may wait for the lock. If not, it
 * has to go through MPI. */
int intra_node_reaches(struct window *window, int rank, enum direct_use way);
/* An operation goes to the rank through MPI: the next MPI_Win_sync must flush that part, too. */
void intra_node_mark(struct window *window, int rank);

/* To be called after the MPI functions of these names have succeeded. */
void intra_node_lock(struct intra_node *node, int rank, int assertion);
void intra_node_lock_all(struct intra_node *node, int assertion);
void intra_node_start(struct intra_node *node);
/* To be called before them. */
void intra_node_unlock(struct intra_node *node, int rank, int ranks);
void intra_node_unlock_all(struct intra_node *node, int ranks);
/* To be called instead of it. */
int intra_node_fence(struct window *window, int assertion);

#endif
