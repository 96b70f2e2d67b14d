/* src/insitu/wake.h: wait for a change that somebody else makes, and tell of one.
 *
 * Who waits sets `wanted`, looks at its condition once more and sleeps while `rings` is what it was
 * before. Who changes something looks at `wanted` afterwards, and rings. All sequentially
 * consistent: at least one sees the other. `wanted` of a sleeper that died costs one needless ring.
 * Freestanding. */
#ifndef ONESPACE_INSITU_WAKE_H
#define ONESPACE_INSITU_WAKE_H

#include "base/futex.h"
#include "insitu/channel.h"

enum {
    INSITU_SLICE_MS = 1000, /* longest sleep before it is asked whether the reaper lives */
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
 * `may_nap`: between spinning and sleeping it looks again after naps, each a quarter of the time
 * waited so far, for some ms. Nobody need wake it then, which costs the other side more than a step
 * of a small simulation may; what it waits for is seen that much later at most. */
struct insitu_wait {
    int timeout_ms, may_nap;
    unsigned spins;
    uint64_t began, deadline; /* from the first spin on: who need not wait does not ask the time */
    uint32_t rings;           /* before the condition was looked at last */
    int is_armed, is_over;
};

static inline struct insitu_wait insitu_wait_begin(int timeout_ms)
{
    return (struct insitu_wait){.timeout_ms = timeout_ms};
}

/* 0: look at the condition again. -ETIMEDOUT; -EOWNERDEAD: the reaper was killed. */
int insitu_wait_more(struct insitu_wait *wait, struct insitu_bell *bell);

#endif
