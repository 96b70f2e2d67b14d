/* src/mpi/rma/sync.c: synchronises windows whose parts all ranks can address. */
#include "mpi/rma/rma.h"

#include <stdlib.h>

/* ---- Fence and flush ---- */

enum { PROGRESS_EVERY_FLUSHES = 64 };

int window_progress(struct window *window)
{
    atomic_store_explicit(&window->has_read, 0, memory_order_relaxed);
    return progress_after_operation();
}

int win_fence(struct window *window, int assertion)
{
    struct barrier *barrier = &window->rma_shared->barrier;
    struct wait wait = window_wait(window);
    int result = barrier_await(barrier, barrier_arrive(barrier, window->group->ranks), &wait);
    if (assertion & MPI_MODE_NOSUCCEED)
        atomic_fetch_and_explicit(&window->epochs, ~WINDOW_EPOCH_FENCE, memory_order_relaxed);
    else
        atomic_fetch_or_explicit(&window->epochs, WINDOW_EPOCH_FENCE, memory_order_relaxed);
    return result == MPI_SUCCESS ? window_progress(window) : result;
}

int win_flush(struct window *window, int rank)
{
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    return rank < 0 || rank >= window->group->ranks ? MPI_ERR_RANK : win_flush_all(window);
}

int win_flush_all(struct window *window)
{
    if (atomic_load_explicit(&window->epochs, memory_order_relaxed) &
        (WINDOW_EPOCH_LOCKS | WINDOW_EPOCH_UNCHECKED))
        return win_sync(window);
    return MPI_ERR_RMA_SYNC;
}

/* Stores are visible to other ranks anyway; this only orders them. A program may flush in a loop
 * until another rank has done something, and that rank may be sending to this one. So every
 * PROGRESS_EVERY_FLUSHES flushes MPI makes progress. */
int win_sync(struct window *window)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&window->has_read, memory_order_relaxed))
        return window_progress(window);
    /* Not an atomic increment, which costs as much as the fence: concurrent updates may lose a
     * count. */
    uint32_t flushes = atomic_load_explicit(&window->flushes, memory_order_relaxed) + 1;
    atomic_store_explicit(&window->flushes, flushes, memory_order_relaxed);
    return flushes % PROGRESS_EVERY_FLUSHES == 0 ? progress_step() : MPI_SUCCESS;
}

/* ---- Locks ---- */

/* One lock per part, and one word for all parts, so that MPI_Win_lock_all is one step whatever the
 * number of ranks:
 *
 *   MPI_Win_lock_all           lock_all_word, low half + 1, while the high half is 0
 *   MPI_Win_lock, exclusive    lock_all_word, high half + 1, while the low half is 0; then
 *                              part 0 -> LOCK_EXCLUSIVE
 *   MPI_Win_lock, shared       part + 1, while it is not LOCK_EXCLUSIVE
 *
 * Deadlock-free: a rank that owns `lock_all_word` and waits for a part waits for holders of that
 * part, and these never need `lock_all_word` to proceed. Locks are acquire, unlocks are release. */

#define LOCK_EXCLUSIVE UINT32_MAX
#define ONE_EXCLUSIVE  (UINT64_C(1) << 32)

/* Values of window->locked and window->locked_all. */
enum { HOLDS_NONE, HOLDS_SHARED, HOLDS_EXCLUSIVE, HOLDS_UNCHECKED };

/* Adds `step` to the word once the half under the mask `against` is zero. */
static int lock_all_word_enter(struct window *window, uint64_t step, uint64_t against)
{
    _Atomic uint64_t *word = &window->rma_shared->lock_all_word;
    struct wait wait = window_wait(window);
    int result = MPI_SUCCESS;
    for (;;) {
        uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
        if (!(seen & against) &&
            atomic_compare_exchange_weak_explicit(word, &seen, seen + step, memory_order_acquire,
                                                  memory_order_relaxed))
            return MPI_SUCCESS;
        if ((seen & against) && (result = wait_round(&wait)) != MPI_SUCCESS)
            return result;
    }
}

static void lock_all_word_leave(struct window *window, uint64_t step)
{
    atomic_fetch_sub_explicit(&window->rma_shared->lock_all_word, step, memory_order_release);
}

static int part_lock_enter(struct window *window, int rank, int exclusive)
{
    _Atomic uint32_t *word = &window->rma_shared->rank[rank].lock;
    struct wait wait = window_wait(window);
    int result = MPI_SUCCESS;
    for (;;) {
        uint32_t seen = atomic_load_explicit(word, memory_order_relaxed);
        int is_free = exclusive ? seen == 0 : seen != LOCK_EXCLUSIVE;
        if (is_free && atomic_compare_exchange_weak_explicit(
                           word, &seen, exclusive ? LOCK_EXCLUSIVE : seen + 1, memory_order_acquire,
                           memory_order_relaxed))
            return MPI_SUCCESS;
        if (!is_free && (result = wait_round(&wait)) != MPI_SUCCESS)
            return result;
    }
}

int win_lock(struct window *window, int type, int rank, int assertion)
{
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (rank < 0 || rank >= window->group->ranks)
        return MPI_ERR_RANK;
    if (type != MPI_LOCK_EXCLUSIVE && type != MPI_LOCK_SHARED)
        return MPI_ERR_LOCKTYPE;
    if (window->locked[rank] || window->locked_all)
        return MPI_ERR_RMA_SYNC;
    int exclusive = type == MPI_LOCK_EXCLUSIVE, result = MPI_SUCCESS;
    if (assertion & MPI_MODE_NOCHECK) {
        window->locked[rank] = HOLDS_UNCHECKED;
        epoch_open(window, 1);
        return result;
    }
    if (exclusive)
        result = lock_all_word_enter(window, ONE_EXCLUSIVE, UINT32_MAX);
    if (result != MPI_SUCCESS)
        return result;
    result = part_lock_enter(window, rank, exclusive);
    if (result == MPI_SUCCESS) {
        window->locked[rank] = exclusive ? HOLDS_EXCLUSIVE : HOLDS_SHARED;
        epoch_open(window, 1);
    } else if (exclusive) {
        lock_all_word_leave(window, ONE_EXCLUSIVE);
    }
    return result;
}

int win_unlock(struct window *window, int rank)
{
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (rank < 0 || rank >= window->group->ranks)
        return MPI_ERR_RANK;
    _Atomic uint32_t *word = &window->rma_shared->rank[rank].lock;
    int held = window->locked[rank];
    window->locked[rank] = HOLDS_NONE;
    if (held == HOLDS_SHARED) {
        atomic_fetch_sub_explicit(word, 1, memory_order_release);
    } else if (held == HOLDS_EXCLUSIVE) {
        atomic_store_explicit(word, 0, memory_order_release);
        lock_all_word_leave(window, ONE_EXCLUSIVE);
    }
    if (held == HOLDS_NONE)
        return MPI_ERR_RMA_SYNC;
    epoch_close(window, 1);
    return window_progress(window);
}

int win_lock_all(struct window *window, int assertion)
{
    if (window->locked_all)
        return MPI_ERR_RMA_SYNC;
    int unchecked = (assertion & MPI_MODE_NOCHECK) != 0, result = MPI_SUCCESS;
    if (!unchecked)
        result = lock_all_word_enter(window, 1, ~(uint64_t)UINT32_MAX);
    if (result == MPI_SUCCESS) {
        window->locked_all = unchecked ? HOLDS_UNCHECKED : HOLDS_SHARED;
        epoch_open(window, 1);
    }
    return result;
}

int win_unlock_all(struct window *window)
{
    int held = window->locked_all;
    window->locked_all = HOLDS_NONE;
    if (held == HOLDS_SHARED)
        lock_all_word_leave(window, 1);
    if (held == HOLDS_NONE)
        return MPI_ERR_RMA_SYNC;
    epoch_close(window, 1);
    return window_progress(window);
}

/* ---- Post, start, complete, wait ---- */

/* posted[target][origin] counts the exposure epochs that target has opened for origin; origin's
 * start waits until there is one more than it has used. completed counts, at the target, the access
 * epochs that origins have ended; the target's wait needs one more from each rank of its group.
 * Counts suffice because an origin cannot complete again before the target has posted again. */

/* Opens an epoch with the group's ranks, translated to ranks of the window. */
static int group_epoch_begin(struct window *window, struct window_epoch *epoch, MPI_Group group)
{
    int count, result = pmpi()->Group_size(group, &count);
    if (result != MPI_SUCCESS || epoch->ranks)
        return result != MPI_SUCCESS ? result : MPI_ERR_RMA_SYNC;
    int *ranks = malloc(((size_t)count * 2 + 1) * sizeof(int));
    if (!ranks)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < count; i++)
        ranks[count + i] = i;
    result = pmpi()->Group_translate_ranks(group, count, ranks + count, window->mpi_group, ranks);
    for (int i = 0; result == MPI_SUCCESS && i < count; i++)
        if (ranks[i] < 0) /* MPI_UNDEFINED: not one of the window's */
            result = MPI_ERR_GROUP;
    if (result != MPI_SUCCESS) {
        free(ranks);
        return result;
    }
    *epoch = (struct window_epoch){ranks, count};
    return result;
}

static void group_epoch_end(struct window_epoch *epoch)
{
    free(epoch->ranks);
    *epoch = (struct window_epoch){NULL, 0};
}

int win_post(struct window *window, MPI_Group group)
{
    int result = group_epoch_begin(window, &window->exposure, group);
    for (int i = 0; result == MPI_SUCCESS && i < window->exposure.count; i++)
        atomic_fetch_add_explicit(
            rma_posted(window->rma_shared, window->group->rank, window->exposure.ranks[i]), 1,
            memory_order_release);
    return result;
}

int win_start(struct window *window, MPI_Group group)
{
    int result = group_epoch_begin(window, &window->access, group);
    struct wait wait = window_wait(window);
    for (int i = 0; result == MPI_SUCCESS && i < window->access.count; i++) {
        int target = window->access.ranks[i];
        _Atomic uint32_t *posted = rma_posted(window->rma_shared, target, window->group->rank);
        while (result == MPI_SUCCESS &&
               atomic_load_explicit(posted, memory_order_acquire) == window->starts[target])
            result = wait_round(&wait);
        window->starts[target]++;
        atomic_store_explicit(&window->started[target], 1, memory_order_relaxed);
    }
    if (window->access.ranks && result == MPI_SUCCESS)
        epoch_open(window, WINDOW_EPOCH_START);
    return result == MPI_SUCCESS ? window_progress(window) : result;
}

int win_complete(struct window *window)
{
    if (!window->access.ranks)
        return MPI_ERR_RMA_SYNC;
    for (int i = 0; i < window->access.count; i++) {
        int target = window->access.ranks[i];
        atomic_store_explicit(&window->started[target], 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&window->rma_shared->rank[target].completed, 1,
                                  memory_order_release);
    }
    if (atomic_load_explicit(&window->epochs, memory_order_relaxed) & WINDOW_EPOCH_START)
        epoch_close(window, WINDOW_EPOCH_START);
    group_epoch_end(&window->access);
    return MPI_SUCCESS;
}

static int exposure_is_complete(const struct window *window)
{
    uint32_t completed = atomic_load_explicit(
        &window->rma_shared->rank[window->group->rank].completed, memory_order_acquire);
    return completed - window->completes == (uint32_t)window->exposure.count;
}

int win_test(struct window *window, int *flag)
{
    if (!window->exposure.ranks)
        return MPI_ERR_RMA_SYNC;
    *flag = exposure_is_complete(window);
    if (*flag) {
        window->completes += (uint32_t)window->exposure.count;
        group_epoch_end(&window->exposure);
        return window_progress(window);
    }
    return progress_step(); /* for a program that loops over MPI_Win_test */
}

int win_wait(struct window *window)
{
    struct wait wait = window_wait(window);
    int done = 0, result = win_test(window, &done);
    while (result == MPI_SUCCESS && !done) {
        result = wait_round(&wait);
        if (result == MPI_SUCCESS && exposure_is_complete(window))
            result = win_test(window, &done);
    }
    return result;
}
