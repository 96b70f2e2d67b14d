/* src/space/map_throttle.c: see turns.h. */
#include "space/locks.h"

#include <errno.h>
#include <linux/futex.h>

#include "base/futex.h"

/* What `map_throttle` holds: 0, or the TID of the thread that has the turn, with FUTEX_WAITERS if
 * somebody may sleep. All accesses are relaxed: no other memory is handed over by it. Members write
 * it; a futex. */
enum { LOOK_MS = 50, PATIENCE_MS = 1000 };

static int change(_Atomic uint32_t *turn, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(turn, &from, to, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* `me`: the turn is the caller's; or 0. Who has waited may leave others asleep, and takes it as one
 * that is awaited. */
static uint32_t await(_Atomic uint32_t *turn, uint32_t me)
{
    uint64_t deadline = futex_deadline(PATIENCE_MS);
    for (;;) {
        uint32_t seen = atomic_load_explicit(turn, memory_order_relaxed);
        uint32_t awaited = seen | FUTEX_WAITERS, owner = seen & FUTEX_TID_MASK;
        if (!owner) {
            if (change(turn, seen, me | FUTEX_WAITERS))
                return me;
            continue;
        }
        if (owner == me) /* the caller is a handler that interrupted its thread's change */
            return 0;
        if (seen != awaited && !change(turn, seen, awaited))
            continue;
        if (futex_wait(turn, awaited, futex_deadline(LOOK_MS)) != -ETIMEDOUT)
            continue;
        int is_over = futex_now_ns() >= deadline || raw(__NR_kill, owner, 0) == -ESRCH;
        if (is_over && change(turn, awaited, me | FUTEX_WAITERS))
            return me;
    }
}

uint32_t map_throttle_begin(struct space *space)
{
    if (!atomic_load_explicit(&space->oversubscribed, memory_order_relaxed) || !process_in_space())
        return 0;
    uint32_t me = (uint32_t)raw(__NR_gettid);
    return change(&space->map_throttle, 0, me) ? me : await(&space->map_throttle, me);
}

void map_throttle_end(struct space *space, uint32_t begun)
{
    _Atomic uint32_t *turn = &space->map_throttle;
    if (begun && !change(turn, begun, 0) && change(turn, begun | FUTEX_WAITERS, 0))
        futex_wake(turn, 1);
}
