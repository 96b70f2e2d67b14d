/* src/base/spin.h: busy waiting for a bounded time. Freestanding.
 *
 * A waiter spins as long as spin_pause or spin_pause_ns returns 1, looking at its condition between
 * two calls, and sleeps when it returns 0. */
#ifndef ONESPACE_BASE_SPIN_H
#define ONESPACE_BASE_SPIN_H

#include "arch/entry.h"
#include "base/futex.h"

struct spin {
    unsigned count; /* pauses so far */
    uint64_t began; /* CLOCK_MONOTONIC, ns: the first call of spin_pause_ns */
};

/* Pauses the CPU once. 0, without a pause: that was done `limit` times already. */
static inline int spin_pause(struct spin *spin, unsigned limit)
{
    if (spin->count >= limit)
        return 0;
    spin->count++;
    arch_pause();
    return 1;
}

/* The same for `ns` since the first call. Reads the clock at every 32nd call only. */
static inline int spin_pause_ns(struct spin *spin, uint64_t ns)
{
    enum { PAUSES_PER_READING = 32 };
    if (spin->count == 0)
        spin->began = futex_now_ns();
    else if (spin->count % PAUSES_PER_READING == 0 && futex_now_ns() >= spin->began + ns)
        return 0;
    spin->count++;
    arch_pause();
    return 1;
}

/* Lets another thread run: for a lock that is held for moments only, by a thread that may have been
 * preempted. */
static inline void spin_yield(void)
{
    raw(__NR_sched_yield);
}

#endif
