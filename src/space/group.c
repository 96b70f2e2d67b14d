/* src/space/group.c: see group.h. Freestanding: runs in the reaper and in children, too. */
#include "space/group.h"

#include <errno.h>

#include "base/futex.h"

enum { LOAD_TIMEOUT_MS = 2000 };

static void begin_group(struct space *space, uint32_t ntasks)
{
    atomic_store(&space->barrier, 0);
    atomic_store(&space->group_ended, 0);
    atomic_store(&space->group_loaded, 0);
    atomic_store(&space->group_ntasks, ntasks);
    for (unsigned i = 0; i < LAYOUT_SLOTS / 32; i++)
        atomic_store(&space->group_numbers[i], 0);
}

/* Whether no member of the present group is left. Looks at the slots: a counter would stay wrong if
 * a spawner were killed between changing a slot and the counter. */
static int is_gone(struct space *space, const struct space_slot *joining)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        const struct space_slot *slot = &space->slots[i];
        uint32_t state = space_state(slot);
        if (slot != joining && (state == SLOT_CLAIMED || slot_is_alive(state)) && slot->number >= 0)
            return 0;
    }
    return 1;
}

void group_join(struct space *space, const struct space_slot *slot)
{
    uint32_t number = (uint32_t)slot->number, ntasks = (uint32_t)slot->ntasks;
    uint32_t bit = 1u << number % 32;
    _Atomic uint32_t *word = &space->group_numbers[number / 32 % (LAYOUT_SLOTS / 32)];
    if ((ntasks != atomic_load(&space->group_ntasks) || (atomic_load(word) & bit)) &&
        is_gone(space, slot))
        begin_group(space, ntasks);
    atomic_fetch_or(word, bit);
}

void group_leave(struct space *space)
{
    atomic_fetch_add(&space->group_ended, 1);
    futex_wake((char *)&space->barrier + 4, INT32_MAX);
    futex_wake(&space->group_loaded, INT32_MAX);
}

/* Loading libraries takes the address space's lock hundreds of times. A rank that has finished and
 * spins on its peers would keep the lock's holders off the CPU, so all sleep here until the last
 * one has finished. Correctness does not depend on it: the wait ends early when a member ends or
 * the time is up. */
void group_await_loaded(struct space *space, const struct space_slot *self)
{
    uint64_t deadline = futex_deadline(LOAD_TIMEOUT_MS);
    uint32_t ntasks = (uint32_t)self->ntasks;
    uint32_t loaded = atomic_fetch_add(&space->group_loaded, 1) + 1;
    if (loaded >= ntasks)
        futex_wake(&space->group_loaded, INT32_MAX);
    while (loaded < ntasks && !atomic_load(&space->group_ended)) {
        if (futex_wait(&space->group_loaded, loaded, deadline) == -ETIMEDOUT)
            return;
        loaded = atomic_load(&space->group_loaded);
    }
}
