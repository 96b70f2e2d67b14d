/* src/space/slots.c: slots and ids.
 *
 * A slot's id grows by the number of slots each time it is used, so slot = id mod slots: an id
 * finds its slot without a search, and a stale id finds nothing. Freestanding. */
#include "space/member.h"

#include "base/futex.h"
#include "space/intervals.h"

struct space_slot *slot_find(struct space *space, int32_t id)
{
    if (id < 0)
        return NULL;
    struct space_slot *slot = &space->slots[slot_index_of_id(id)];
    uint32_t state = space_state(slot);
    if (state == SLOT_FREE || state == SLOT_CLAIMED || state == SLOT_ABORTING)
        return NULL;
    return atomic_load_explicit(&slot->id, memory_order_relaxed) == id ? slot : NULL;
}

static void clear_slot(struct space_slot *slot)
{
    /* `state` stays CLAIMED; words that other members may still read are set one by one. */
    atomic_store(&slot->ended, 0);
    atomic_store(&slot->memory, MEMORY_NONE);
    atomic_store(&slot->reclaim_pending, 0);
    atomic_store(&slot->pid, 0);
    atomic_store(&slot->orphan, 0);
    atomic_store(&slot->leaving, 0);
    atomic_store(&slot->exited, 0);
    slot->sweeps = 0;
    atomic_store(&slot->child_result, 0);
    atomic_store(&slot->child_stage, 0);
    atomic_store(&slot->loaded, 0);
    atomic_store(&slot->has_exported, 0);
    atomic_store(&slot->has_spawned, 0);
    atomic_store(&slot->has_imported, 0);
    atomic_store(&slot->was_imported, 0);
    atomic_store(&slot->has_shared, 0);
    atomic_store(&slot->was_called, 0);
    atomic_store(&slot->called_exit, 0);
    atomic_store(&slot->robust.at, 0);
    atomic_store(&slot->returned, 0);
    atomic_store(&slot->group, 0);
    slot->number = slot->ntasks = -1;
    slot->status = 0;
    slot->guard_key = slot->guard_rights = 0;
    slot->user_us = slot->system_us = 0;
    intervals_clear(slot);
    char *from = (char *)&slot->stats;
    for (size_t i = 0; i < sizeof(slot->stats) + sizeof(slot->interpose); i++)
        from[i] = 0;
}

/* Before there is a claim: should the claimer die, the reaper looks for it up to there. */
static void raise_highest(struct space *space, uint32_t index)
{
    uint32_t highest = atomic_load(&space->highest);
    while (highest < index && !atomic_compare_exchange_weak(&space->highest, &highest, index))
        ;
}

/* Low slots are reused first, so that a space that runs one task after another touches few pages.
 */
static struct space_slot *claim_slot(struct space *space, uint32_t claimed)
{
    uint32_t first = atomic_load(&space->free_hint);
    for (unsigned tries = 0; tries < LAYOUT_SLOTS; tries++) {
        unsigned index = (first + tries) % LAYOUT_SLOTS;
        struct space_slot *slot = &space->slots[index];
        uint32_t expected = SLOT_FREE;
        if (index == 0 || space_state(slot) != SLOT_FREE)
            continue;
        raise_highest(space, index);
        if (!atomic_compare_exchange_strong(&slot->state, &expected, claimed))
            continue;
        atomic_store(&space->free_hint,
                     (index + 1) % LAYOUT_SLOTS); /* a hint: races are harmless */
        return slot;
    }
    return NULL;
}

struct space_slot *slot_claim(struct space *space, int32_t spawner)
{
    /* Should the spawner die between here and STARTING, the reaper finds the slot by the index of
     * the spawner's slot in it. */
    struct space_slot *slot = claim_slot(space, SLOT_CLAIMED | slot_index_of_id(spawner) << 8);
    if (!slot)
        return NULL;
    uint32_t index = slot_index(space, slot);
    int32_t last = atomic_load(&slot->id);
    slot->spawner = spawner;
    atomic_store(&slot->id,
                 last ? (int32_t)(((uint32_t)last + LAYOUT_SLOTS) & INT32_MAX) : (int32_t)index);
    clear_slot(slot);
    slot->started_ns = futex_now_ns();
    return slot;
}

void slot_free(struct space *space, struct space_slot *slot)
{
    uint32_t index = slot_index(space, slot), hint = atomic_load(&space->free_hint);
    atomic_store(&slot->state, SLOT_FREE);
    while (index < hint && !atomic_compare_exchange_weak(&space->free_hint, &hint, index))
        ;
}

void slot_free_if_done(struct space_slot *slot)
{
    uint32_t expected = SLOT_COLLECTED;
    if (atomic_load(&slot->memory) != MEMORY_NONE ||
        !atomic_compare_exchange_strong(&slot->state, &expected, SLOT_ABORTING))
        return;
    slot_free(space_registry(), slot);
}

static uint64_t microseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

void slot_set_cpu_times(struct space_slot *slot, const struct rusage *usage)
{
    slot->user_us = microseconds(usage->ru_utime);
    slot->system_us = microseconds(usage->ru_stime);
}
