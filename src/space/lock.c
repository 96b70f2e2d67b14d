/* src/space/lock.c: see lock.h.
 *
 * A PI futex: the word is 0 or the owner's TID, with bits of the kernel's. */
#include "space/locks.h"

#include <errno.h>
#include <linux/futex.h>

#include "base/delay.h"
#include "base/raw.h"
#include "base/futex.h"

static int try_lock(_Atomic uint32_t *lock, uint32_t from, uint32_t to)
{
    /* Acquire pairs with the release in member_unlock. */
    return atomic_compare_exchange_strong_explicit(lock, &from, to, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* The kernel lends the owner our priority, and wakes us when it unlocks or ends. If it had ended
 * before, the kernel knows no such thread, or gave its TID to us: then the lock is taken over, if
 * the word has not changed meanwhile (the kernel may have set FUTEX_WAITERS: then the next round
 * does). That bit is set in doing so: threads may sleep that the kernel has queued behind us, when
 * our TID was the dead owner's, and with it we unlock through the kernel, which wakes them. */
static void lock_contended(_Atomic uint32_t *lock, uint32_t me)
{
    for (;;) {
        uint32_t before = atomic_load_explicit(lock, memory_order_relaxed);
        DELAY("lock.contended");
        long result = raw(__NR_futex, lock, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
        if (result == 0)
            return;
        int owner_died = result == -ESRCH || result == -EDEADLK;
        if (owner_died && try_lock(lock, before, me | FUTEX_WAITERS))
            return;
        spin_yield(); /* the owner is just ending, or another thread has taken over */
    }
}

uint64_t member_lock(struct space_slot *slot)
{
    uint64_t signals = signals_set_mask(SIGNAL_MASK_ALL);
    uint32_t me = (uint32_t)raw(__NR_gettid);
    if (process_in_space() && !try_lock(&slot->interpose.lock, 0, me))
        lock_contended(&slot->interpose.lock, me);
    return signals;
}

void member_unlock(struct space_slot *slot, uint64_t signals)
{
    _Atomic uint32_t *lock = &slot->interpose.lock;
    uint32_t me = atomic_load_explicit(lock, memory_order_relaxed) & FUTEX_TID_MASK;
    if (process_in_space() && !atomic_compare_exchange_strong_explicit(
                                  lock, &me, 0, memory_order_release, memory_order_relaxed))
        raw(__NR_futex, lock, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
    signals_set_mask(signals);
}
