/* src/insitu/wake.h: wait for a change that another member makes, and wake those who wait.
 *
 * A waiter sets `wanted`, tests its condition once more and sleeps while `rings` is unchanged. Who
 * changes something reads `wanted` afterwards, and rings if it is set. All sequentially consistent:
 * at least one sees the other. A sleeper that died with `wanted` set costs one needless ring.
 * Freestanding. */
#ifndef ONESPACE_INSITU_WAKE_H
#define ONESPACE_INSITU_WAKE_H

#include "base/futex.h"
#include "insitu/channel.h"

enum {
    INSITU_SLICE_MS = 1000, /* longest sleep between two tests whether the reaper lives */
};

static inline void insitu_ring(struct insitu_bell *bell)
{
    if (!atomic_load(&bell->wanted))
        return;
    atomic_store(&bell->wanted, 0);
    atomic_fetch_add(&bell->rings, 1);
    futex_wake(&bell->rings, INT32_MAX);
}

/* A wait in progress: begun once, then insitu_wait_more as long as the condition does not hold.
 * `may_nap`: between spinning and sleeping it polls for some ms, with naps in between that last a
 * quarter of the time waited so far. Nobody has to wake it then: a wake-up may cost the other side
 * more than a step of a small simulation. The change is seen later by that quarter at most. */
struct insitu_wait {
    int timeout_ms, may_nap;
    struct spin spin;
    uint64_t deadline; /* set at the first spin: who does not have to wait reads no clock */
    uint32_t rings;    /* before the condition was tested last */
    int is_armed, is_over;
};

static inline struct insitu_wait insitu_wait_begin(int timeout_ms)
{
    return (struct insitu_wait){.timeout_ms = timeout_ms};
}

/* 0: test the condition again. -ETIMEDOUT; -EOWNERDEAD: the reaper was killed. */
int insitu_wait_more(struct insitu_wait *wait, struct insitu_bell *bell);

#endif
