/* src/mpi/rma/sync.c: synchronises windows whose parts all ranks can address. */
#include "mpi/rma/rma.h"

#include <stdlib.h>

#include "base/futex.h"

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
 * number of ranks. A word counts shared holders in its low half and exclusive ones in its high
 * half:
 *
 *                     shared                     exclusive
 *   lock_all_word     MPI_Win_lock_all           MPI_Win_lock, exclusive, of whichever part
 *   lock of a part    MPI_Win_lock, shared       MPI_Win_lock, exclusive, one at a time
 *
 * Holders of one kind exclude those of the other. An exclusive lock takes both words, in this
 * order. Deadlock-free: a rank that owns `lock_all_word` and waits for a part waits for holders of
 * that part, and these never need `lock_all_word` to proceed.
 *
 * Ranks that take turns at one kind may hold it at any moment, so that the other kind would never
 * find it free. A rank that waits therefore sets its kind's bit, and others let it pass: they
 * wait, too, but no longer than PATIENCE_NS, because a holder of this kind may not release its
 * lock before one of them has got it. Locks are acquire, unlocks are release; the bit guards
 * nothing. tests/models/window_lock.pml checks it. */

#define SHARED_WAITS      (UINT64_C(1) << 31)
#define SHARED_HOLDERS    (SHARED_WAITS - 1)
#define ONE_EXCLUSIVE     (UINT64_C(1) << 32)
#define EXCLUSIVE_WAITS   (UINT64_C(1) << 63)
#define EXCLUSIVE_HOLDERS (EXCLUSIVE_WAITS - ONE_EXCLUSIVE)
#define PATIENCE_NS       UINT64_C(1000000)

struct lock_kind {
    uint64_t step;        /* one holder */
    uint64_t against;     /* the holders that exclude it */
    uint64_t waits;       /* its bit */
    uint64_t others_wait; /* the other kind's bit */
};

static const struct lock_kind lock_shared = {1, EXCLUSIVE_HOLDERS, SHARED_WAITS, EXCLUSIVE_WAITS};
static const struct lock_kind lock_some_part = {ONE_EXCLUSIVE, SHARED_HOLDERS, EXCLUSIVE_WAITS,
                                                SHARED_WAITS};
static const struct lock_kind lock_exclusive = {ONE_EXCLUSIVE, SHARED_HOLDERS | EXCLUSIVE_HOLDERS,
                                                EXCLUSIVE_WAITS, SHARED_WAITS};

/* Values of window->locked and window->locked_all. */
enum { HOLDS_NONE, HOLDS_SHARED, HOLDS_EXCLUSIVE, HOLDS_UNCHECKED };

static int lock_enter(struct window *window, _Atomic uint64_t *word, const struct lock_kind *kind)
{
    struct wait wait = window_wait(window);
    uint64_t let_pass_until = 0;
    int has_waited = 0, result = MPI_SUCCESS;
    for (;;) {
        uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
        int is_free = !(seen & kind->against), lets_pass = 0;
        if (is_free && (seen & kind->others_wait) && !has_waited) {
            uint64_t now = futex_now_ns();
            let_pass_until = let_pass_until ? let_pass_until : now + PATIENCE_NS;
            lets_pass = now < let_pass_until;
        }
        if (is_free && !lets_pass) {
            uint64_t entered = (seen & ~kind->waits) + kind->step;
            if (atomic_compare_exchange_weak_explicit(word, &seen, entered, memory_order_acquire,
                                                      memory_order_relaxed))
                return MPI_SUCCESS;
            continue;
        }
        if (!is_free) {
            has_waited = 1;
            if (!(seen & kind->waits)) /* if it fails, the next round tries again */
                (void)atomic_compare_exchange_weak_explicit(
                    word, &seen, seen | kind->waits, memory_order_relaxed, memory_order_relaxed);
        }
        if ((result = wait_round(&wait)) != MPI_SUCCESS)
            return result;
    }
}

static void lock_leave(_Atomic uint64_t *word, const struct lock_kind *kind)
{
    atomic_fetch_sub_explicit(word, kind->step, memory_order_release);
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
    struct rma_shared *shared = window->rma_shared;
    _Atomic uint64_t *part = &shared->rank[rank].lock;
    int exclusive = type == MPI_LOCK_EXCLUSIVE, result = MPI_SUCCESS;
    if (assertion & MPI_MODE_NOCHECK) {
        window->locked[rank] = HOLDS_UNCHECKED;
        epoch_open(window, 1);
        return result;
    }
    if (exclusive)
        result = lock_enter(window, &shared->lock_all_word, &lock_some_part);
    if (result != MPI_SUCCESS)
        return result;
    result = lock_enter(window, part, exclusive ? &lock_exclusive : &lock_shared);
    if (result == MPI_SUCCESS) {
        window->locked[rank] = exclusive ? HOLDS_EXCLUSIVE : HOLDS_SHARED;
        epoch_open(window, 1);
    } else if (exclusive) {
        lock_leave(&shared->lock_all_word, &lock_some_part);
    }
    return result;
}

int win_unlock(struct window *window, int rank)
{
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (rank < 0 || rank >= window->group->ranks)
        return MPI_ERR_RANK;
    struct rma_shared *shared = window->rma_shared;
    _Atomic uint64_t *part = &shared->rank[rank].lock;
    int held = window->locked[rank];
    window->locked[rank] = HOLDS_NONE;
    if (held == HOLDS_SHARED) {
        lock_leave(part, &lock_shared);
    } else if (held == HOLDS_EXCLUSIVE) {
        lock_leave(part, &lock_exclusive);
        lock_leave(&shared->lock_all_word, &lock_some_part);
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
        result = lock_enter(window, &window->rma_shared->lock_all_word, &lock_shared);
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
        lock_leave(&window->rma_shared->lock_all_word, &lock_shared);
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
