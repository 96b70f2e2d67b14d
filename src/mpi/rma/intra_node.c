/* src/mpi/rma/intra_node.c: see intra_node.h. */
#include "mpi/rma/intra_node.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { LOCK_NONE, LOCK_ASKED, LOCK_HELD };

struct near *near_new(const struct party *party, struct direct *shared, size_t mapped)
{
    struct near *near = calloc(1, sizeof(*near) + (size_t)party->ranks);
    if (!near)
        return NULL;
    near->shared = shared;
    near->mapped = mapped;
    for (int i = 0; i < party->ranks; i++)
        near->ranks += party_is_near(party, i);
    return near;
}

void near_free(struct near *near)
{
    if (near)
        munmap(near->shared, near->mapped);
    free(near);
}

static int has_part(const struct window *window, int rank)
{
    return rank >= 0 && rank < window->party->ranks && window->bases[rank] &&
           window->near->shared->rank[rank].size;
}

/* What has come back from the target was done under the lock. */
static int await_lock(struct window *window, int rank)
{
    char byte;
    if (real()->Get(&byte, 1, MPI_BYTE, rank, 0, 1, MPI_BYTE, window->handle) != MPI_SUCCESS ||
        real()->Win_flush(rank, window->handle) != MPI_SUCCESS)
        return 0;
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&window->near->locks[rank], LOCK_HELD, memory_order_relaxed);
    return 1;
}

int near_reaches(struct window *window, int rank, enum direct_use way)
{
    struct near *near = window->near;
    if (!has_part(window, rank))
        return 0;
    int lock = atomic_load_explicit(&near->locks[rank], memory_order_relaxed);
    if (lock == LOCK_NONE)
        lock = atomic_load_explicit(&near->everybody, memory_order_relaxed);
    if (lock == LOCK_HELD || (lock == LOCK_ASKED && await_lock(window, rank)) ||
        (lock == LOCK_NONE && atomic_load_explicit(&near->is_fenced, memory_order_relaxed)))
        return 1;
    if (way != DIRECT_GET)
        near_mark(window, rank);
    return 0;
}

void near_mark(struct window *window, int rank)
{
    if (has_part(window, rank))
        atomic_store_explicit(&window->use[rank].is_written, 1, memory_order_relaxed);
}

/* ---- Synchronisation ---- */

static int lock_of(int assertion)
{
    return assertion & MPI_MODE_NOCHECK ? LOCK_HELD : LOCK_ASKED;
}

void near_lock(struct near *near, int rank, int assertion)
{
    atomic_store_explicit(&near->is_fenced, 0, memory_order_relaxed);
    if (rank >= 0) /* not MPI_PROC_NULL */
        atomic_store_explicit(&near->locks[rank], lock_of(assertion), memory_order_relaxed);
}

void near_unlock(struct near *near, int rank, int ranks)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (rank >= 0 && rank < ranks)
        atomic_store_explicit(&near->locks[rank], LOCK_NONE, memory_order_relaxed);
}

void near_lock_all(struct near *near, int assertion)
{
    atomic_store_explicit(&near->is_fenced, 0, memory_order_relaxed);
    atomic_store_explicit(&near->everybody, lock_of(assertion), memory_order_relaxed);
}

void near_unlock_all(struct near *near, int ranks)
{
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&near->everybody, LOCK_NONE, memory_order_relaxed);
    for (int i = 0; i < ranks; i++)
        atomic_store_explicit(&near->locks[i], LOCK_NONE, memory_order_relaxed);
}

void near_start(struct near *near)
{
    atomic_store_explicit(&near->is_fenced, 0, memory_order_relaxed);
}

/* After MPI's: what comes from other nodes has arrived at all ranks of this one then. */
int near_fence(struct window *window, int assertion)
{
    struct near *near = window->near;
    struct barrier *barrier = &near->shared->barrier;
    struct wait wait = direct_wait(window);
    int result = real()->Win_fence(assertion, window->handle);
    int waited = barrier_await(barrier, barrier_arrive(barrier, near->ranks), &wait);
    atomic_store_explicit(&near->is_fenced, !(assertion & MPI_MODE_NOSUCCEED),
                          memory_order_relaxed);
    return result != MPI_SUCCESS ? result : window_result(window, waited);
}
