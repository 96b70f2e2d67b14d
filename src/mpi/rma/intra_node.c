/* src/mpi/rma/intra_node.c: puts and gets within a node, on a window that spans nodes. */
#include "mpi/rma/rma.h"

#include <stdlib.h>
#include <sys/mman.h>

/* PENDING: MPI_Win_lock has returned, but MPI may not have acquired the lock yet. */
enum lock_state { LOCK_NONE, LOCK_PENDING, LOCK_HELD };

struct intra_node *intra_node_new(const struct group *group, struct rma_shared *shared,
                                  size_t mapped)
{
    struct intra_node *node = calloc(1, sizeof(*node) + (size_t)group->ranks);
    if (!node)
        return NULL;
    node->shared = shared;
    node->mapped = mapped;
    for (int i = 0; i < group->ranks; i++)
        node->ranks += group_is_intra_node(group, i);
    return node;
}

void intra_node_free(struct intra_node *node)
{
    if (node)
        munmap(node->shared, node->mapped);
    free(node);
}

static int has_part(const struct window *window, int rank)
{
    return rank >= 0 && rank < window->group->ranks && window->bases[rank] &&
           window->intra_node->shared->rank[rank].size;
}

/* The target executes a get only under the lock, so after it MPI has acquired the lock. */
static int await_lock(struct window *window, int rank)
{
    char byte;
    if (pmpi()->Get(&byte, 1, MPI_BYTE, rank, 0, 1, MPI_BYTE, window->handle) != MPI_SUCCESS ||
        pmpi()->Win_flush(rank, window->handle) != MPI_SUCCESS)
        return 0;
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&window->intra_node->locks[rank], LOCK_HELD, memory_order_relaxed);
    return 1;
}

int intra_node_can_access(struct window *window, int rank, enum rma_kind kind)
{
    struct intra_node *node = window->intra_node;
    if (!has_part(window, rank))
        return 0;
    int lock = atomic_load_explicit(&node->locks[rank], memory_order_relaxed);
    if (lock == LOCK_NONE)
        lock = atomic_load_explicit(&node->lock_all_state, memory_order_relaxed);
    if (lock == LOCK_HELD || (lock == LOCK_PENDING && await_lock(window, rank)) ||
        (lock == LOCK_NONE && atomic_load_explicit(&node->is_fenced, memory_order_relaxed)))
        return 1;
    if (kind != RMA_GET)
        intra_node_mark_untracked(window, rank);
    return 0;
}

void intra_node_mark_untracked(struct window *window, int rank)
{
    if (has_part(window, rank))
        rma_mark_untracked(window, rank);
}

/* ---- Synchronisation ---- */

static int lock_state_after(int assertion)
{
    return assertion & MPI_MODE_NOCHECK ? LOCK_HELD : LOCK_PENDING;
}

void intra_node_lock(struct intra_node *node, int rank, int assertion)
{
    atomic_store_explicit(&node->is_fenced, 0, memory_order_relaxed);
    if (rank >= 0) /* not MPI_PROC_NULL */
        atomic_store_explicit(&node->locks[rank], lock_state_after(assertion),
                              memory_order_relaxed);
}

void intra_node_unlock(struct intra_node *node, int rank, int ranks)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (rank >= 0 && rank < ranks)
        atomic_store_explicit(&node->locks[rank], LOCK_NONE, memory_order_relaxed);
}

void intra_node_lock_all(struct intra_node *node, int assertion)
{
    atomic_store_explicit(&node->is_fenced, 0, memory_order_relaxed);
    atomic_store_explicit(&node->lock_all_state, lock_state_after(assertion), memory_order_relaxed);
}

void intra_node_unlock_all(struct intra_node *node, int ranks)
{
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&node->lock_all_state, LOCK_NONE, memory_order_relaxed);
    for (int i = 0; i < ranks; i++)
        atomic_store_explicit(&node->locks[i], LOCK_NONE, memory_order_relaxed);
}

void intra_node_start(struct intra_node *node)
{
    atomic_store_explicit(&node->is_fenced, 0, memory_order_relaxed);
}

/* The barrier follows MPI's fence: then operations from other nodes are complete at all ranks of
 * this node. */
int intra_node_fence(struct window *window, int assertion)
{
    struct intra_node *node = window->intra_node;
    struct barrier *barrier = &node->shared->barrier;
    struct wait wait = window_wait(window);
    int result = pmpi()->Win_fence(assertion, window->handle);
    int waited = barrier_await(barrier, barrier_arrive(barrier, node->ranks), &wait);
    atomic_store_explicit(&node->is_fenced, !(assertion & MPI_MODE_NOSUCCEED),
                          memory_order_relaxed);
    return result != MPI_SUCCESS ? result : window_result(window, waited);
}
