/* src/space/lock.c: see lock.h. */
#include "space/lock.h"

#include "base/signals.h"
#include "base/spin.h"

static int is_my_thread(uint32_t thread)
{
    return raw(__NR_tgkill, raw(__NR_getpid), thread, 0) == 0;
}

uint64_t space_lock(struct space_slot *slot)
{
    uint64_t signals = signals_set_mask(SIGNALS_ALL);
    uint32_t me = (uint32_t)raw(__NR_gettid), free = 0;
    /* Acquire pairs with the release in space_unlock. */
    while (!atomic_compare_exchange_weak_explicit(&slot->interpose.lock, &free, me,
                                                  memory_order_acquire, memory_order_relaxed)) {
        /* In a forked child the owner may be a thread that was not forked: take the lock over. */
        if (free && (space_marked() || is_my_thread(free))) {
            free = 0;
            spin_yield();
        }
    }
    return signals;
}

void space_unlock(struct space_slot *slot, uint64_t signals)
{
    atomic_store_explicit(&slot->interpose.lock, 0, memory_order_release);
    signals_set_mask(signals);
}
