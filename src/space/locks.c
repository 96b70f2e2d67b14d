/* src/space/locks.c: see locks.h. */
#include "space/locks.h"

#include <errno.h>
#include <linux/futex.h>

#include "base/delay.h"
#include "base/futex.h"
#include "base/raw.h"

/* ---- The member lock: a PI futex, 0 or the owner's TID with bits of the kernel's ---- */

static int try_lock(_Atomic uint32_t *lock, uint32_t from, uint32_t to)
{
    /* Acquire pairs with the release in member_unlock. */
    return atomic_compare_exchange_strong_explicit(lock, &from, to, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* The kernel lends the owner our priority, and wakes us when the owner unlocks or ends. If the
 * owner had ended before, the kernel finds no such thread, or has given its TID to us: then we take
 * the lock over, unless the word has changed (the kernel may have set FUTEX_WAITERS; the next round
 * succeeds). We set FUTEX_WAITERS ourselves, because the kernel may have queued threads behind us
 * while our TID was the dead owner's: with that bit we unlock through the kernel, which wakes them.
 */
static void lock_contended(_Atomic uint32_t *lock, uint32_t tid)
{
    for (;;) {
        uint32_t before = atomic_load_explicit(lock, memory_order_relaxed);
        /* The owner may have unlocked; where a filter denies the call, this is the only way on. */
        if (before == 0 && try_lock(lock, 0, tid))
            return;
        DELAY("lock.contended");
        long result = raw(__NR_futex, lock, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
        if (result == 0)
            return;
        int owner_died = result == -ESRCH || result == -EDEADLK;
        if (owner_died && try_lock(lock, before, tid | FUTEX_WAITERS))
            return;
        spin_yield(); /* the owner is exiting, or another thread has taken the lock over */
    }
}

uint64_t member_lock(struct space_slot *slot)
{
    uint64_t signals = signals_set_mask(SIGNAL_MASK_ALL);
    uint32_t tid = (uint32_t)raw(__NR_gettid);
    if (process_in_space() && !try_lock(&slot->interpose.lock, 0, tid))
        lock_contended(&slot->interpose.lock, tid);
    return signals;
}

void member_unlock(struct space_slot *slot, uint64_t signals)
{
    _Atomic uint32_t *lock = &slot->interpose.lock;
    uint32_t tid = atomic_load_explicit(lock, memory_order_relaxed) & FUTEX_TID_MASK;
    if (process_in_space() && !atomic_compare_exchange_strong_explicit(
                                  lock, &tid, 0, memory_order_release, memory_order_relaxed))
        raw(__NR_futex, lock, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
    signals_set_mask(signals);
}

/* ---- The map throttle ----
 *
 * `map_throttle` is a futex: 0, or the TID of its holder, with FUTEX_WAITERS if a thread may sleep.
 * Members write it. All accesses are relaxed, because it protects no memory. */

enum { THROTTLE_CHECK_MS = 50, THROTTLE_MAX_WAIT_MS = 1000 };

static int exchange(_Atomic uint32_t *word, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(word, &from, to, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Returns `tid` when the caller holds the throttle, or 0. A former sleeper acquires it with
 * FUTEX_WAITERS set; others may still sleep. */
static uint32_t throttle_wait(_Atomic uint32_t *word, uint32_t tid)
{
    uint64_t deadline = futex_deadline(THROTTLE_MAX_WAIT_MS);
    for (;;) {
        uint32_t seen = atomic_load_explicit(word, memory_order_relaxed);
        uint32_t contended = seen | FUTEX_WAITERS, holder = seen & FUTEX_TID_MASK;
        if (!holder) {
            if (exchange(word, seen, tid | FUTEX_WAITERS))
                return tid;
            continue;
        }
        if (holder == tid) /* the caller is a handler that interrupted its own thread's change */
            return 0;
        if (seen != contended && !exchange(word, seen, contended))
            continue;
        if (futex_wait(word, contended, futex_deadline(THROTTLE_CHECK_MS)) != -ETIMEDOUT)
            continue;
        int can_steal = futex_now_ns() >= deadline || raw(__NR_kill, holder, 0) == -ESRCH;
        if (can_steal && exchange(word, contended, tid | FUTEX_WAITERS))
            return tid;
    }
}

uint32_t map_throttle_begin(struct space *space)
{
    if (!atomic_load_explicit(&space->oversubscribed, memory_order_relaxed) || !process_in_space())
        return 0;
    uint32_t tid = (uint32_t)raw(__NR_gettid);
    return exchange(&space->map_throttle, 0, tid) ? tid : throttle_wait(&space->map_throttle, tid);
}

void map_throttle_end(struct space *space, uint32_t owner)
{
    _Atomic uint32_t *word = &space->map_throttle;
    if (owner && !exchange(word, owner, 0) && exchange(word, owner | FUTEX_WAITERS, 0))
        futex_wake(word, 1);
}
