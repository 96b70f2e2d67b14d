/* src/space/turns.c: see turns.h. */
#include "space/turns.h"

#include "base/futex.h"

/* What `map_turn` holds. All accesses are relaxed: no other memory is handed over by it. Members
 * write it; a futex. */
enum { FREE, TAKEN, AWAITED /* taken, and somebody may sleep */ };
enum { PATIENCE_MS = 20 };

static uint32_t exchange(_Atomic uint32_t *turn, uint32_t value)
{
    return atomic_exchange_explicit(turn, value, memory_order_relaxed);
}

int turn_begin(struct space *space)
{
    _Atomic uint32_t *turn = &space->map_turn;
    uint32_t expected = FREE;
    if (!atomic_load_explicit(&space->oversubscribed, memory_order_relaxed) || !space_marked())
        return 0;
    if (atomic_compare_exchange_strong_explicit(turn, &expected, TAKEN, memory_order_relaxed,
                                                memory_order_relaxed))
        return 1;
    uint64_t deadline = futex_deadline(PATIENCE_MS);
    while (exchange(turn, AWAITED) != FREE)
        if (futex_wait(turn, AWAITED, deadline) == -ETIMEDOUT)
            break; /* takes the turn over: the next one does not wait for the old holder */
    return 1;
}

void turn_end(struct space *space, int begun)
{
    if (begun && exchange(&space->map_turn, FREE) == AWAITED)
        futex_wake(&space->map_turn, 1);
}
