/* src/space/lock.c: see lock.h. */
#include "space/lock.h"

#include <signal.h>

#include "base/raw.h"
#include "registry/space.h"

static int is_my_thread(uint32_t thread)
{
    return raw(__NR_tgkill, raw(__NR_getpid), thread, 0) == 0;
}

uint64_t space_lock(struct space_slot *slot)
{
    uint64_t all = ~UINT64_C(0), signals = 0;
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &all, &signals, sizeof(all));
    uint32_t me = (uint32_t)raw(__NR_gettid), free = 0;
    /* Acquire pairs with the release in space_unlock. */
    while (!atomic_compare_exchange_weak_explicit(&slot->interpose.lock, &free, me,
                                                  memory_order_acquire, memory_order_relaxed)) {
        /* In a forked child the owner may be a thread that was not forked: take over from it. */
        if (free && (space_marked() || is_my_thread(free))) {
            free = 0;
            raw(__NR_sched_yield);
        }
    }
    return signals;
}

void space_unlock(struct space_slot *slot, uint64_t signals)
{
    atomic_store_explicit(&slot->interpose.lock, 0, memory_order_release);
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &signals, NULL, sizeof(signals));
}
