/* src/mpi/rma/intra_node.h: a window whose ranks are on several nodes.
 *
 * MPI serves it, but for MPI_Put and MPI_Get to parts that lie on this node: they are loads and
 * stores, as in a window of one node (direct.h). MPI knows nothing of these, so they have to stand
 * on what MPI does know:
 *
 *   lock, lock_all  MPI takes it, perhaps only when it is used. The first put or get fetches a byte
 *                   through MPI and flushes: then it is held.
 *   fence           MPI's, then a barrier of this node's ranks, since MPI's need not be one.
 *   start           MPI may return before the target has posted; all goes through MPI.
 *   flush, unlock   what was stored comes before what MPI tells others from then on.
 *
 * All accumulating calls go through MPI: what one node does by its own atomics the others' could
 * not be atomic with. */
#ifndef ONESPACE_MPI_RMA_INTRA_NODE_H
#define ONESPACE_MPI_RMA_INTRA_NODE_H

#include "mpi/rma/count.h"

struct near {
    struct direct *shared; /* what the ranks of this node share */
    size_t mapped;         /* bytes of it */
    int ranks;             /* of this node */
    /* Where this process is between its synchronisation calls, which write these; puts and gets of
     * any thread read them. Relaxed: the program itself orders such calls. */
    _Atomic int is_fenced;           /* puts and gets may follow the last MPI_Win_fence */
    _Atomic unsigned char everybody; /* MPI_Win_lock_all: enum in intra_node.c */
    _Atomic unsigned char locks[]; /* by rank; a put that finds out that the lock is held writes */
};

/* Of a window whose parts on this node this process has at window->bases; NULL: no memory. Takes
 * `shared` over. */
struct near *near_new(const struct party *party, struct direct *shared, size_t mapped);
void near_free(struct near *near);

/* Whether a put or get to the rank can be loads and stores now; it may wait for the lock. If not,
 * it has to go through MPI. */
int near_reaches(struct window *window, int rank, enum direct_use way);
/* Something goes to the rank through MPI: MPI_Win_sync covers it too. */
void near_mark(struct window *window, int rank);

/* After the MPI functions of that name have succeeded. */
void near_lock(struct near *near, int rank, int assertion);
void near_lock_all(struct near *near, int assertion);
void near_start(struct near *near);
/* Before. */
void near_unlock(struct near *near, int rank, int ranks);
void near_unlock_all(struct near *near, int ranks);
/* Instead. */
int near_fence(struct window *window, int assertion);

#endif
