/* src/space/holds.c: see holds.h for the protocol. Freestanding: part of it runs in the reaper. */
#include "space/holds.h"

#include <errno.h>

#include "base/futex.h"
#include "onespace.h"
#include "space/exports.h"
#include "space/slots.h"

long holds_take(struct space *space, struct space_slot *owner, struct space_slot *holder)
{
    _Atomic uint16_t *cell =
        &space->holds[space_slot_index(space, owner)][space_slot_index(space, holder)];
    if (atomic_load(cell) == UINT16_MAX)
        return -EOVERFLOW;
    if (!atomic_load(&owner->was_imported)) /* store once: a store costs more than all the rest */
        atomic_store(&owner->was_imported, 1);
    if (!atomic_load(&holder->has_imported))
        atomic_store(&holder->has_imported, 1);
    atomic_fetch_add(cell, 1);
    if (space_slot_index(space, owner) == 0 || atomic_load(&owner->memory) == MEMORY_PRESENT)
        return 0;
    atomic_fetch_sub(cell, 1);
    return -EOWNERDEAD;
}

long holds_give(struct space *space, struct space_slot *owner, struct space_slot *holder)
{
    _Atomic uint16_t *cell =
        &space->holds[space_slot_index(space, owner)][space_slot_index(space, holder)];
    uint16_t count = atomic_load(cell);
    do
        if (count == 0)
            return -EINVAL;
    while (!atomic_compare_exchange_weak(cell, &count, (uint16_t)(count - 1)));
    if (count == 1 && atomic_load(&space->holds_pending)) {
        atomic_store(&space->holds_changed, 1);
        futex_bump(&space->events);
    }
    return 0;
}

void holds_drop(struct space *space, struct space_slot *holder)
{
    if (!atomic_load(&holder->has_imported))
        return;
    unsigned index = space_slot_index(space, holder);
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t owner = 0; owner <= highest; owner++)
        if (atomic_load(&space->holds[owner][index]))
            atomic_store(&space->holds[owner][index], 0);
    atomic_store(&space->holds_changed, 1);
}

static int is_held(struct space *space, struct space_slot *owner)
{
    if (!atomic_load(&owner->was_imported))
        return 0;
    atomic_store(&space->holds_pending, 1);
    unsigned index = space_slot_index(space, owner);
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t holder = 0; holder <= highest; holder++)
        if (atomic_load(&space->holds[index][holder]))
            return 1;
    return 0;
}

static void unmap_out_of_range(struct space_slot *slot)
{
    for (unsigned i = 0; i < SPACE_OUT_OF_RANGE_MAX; i++) {
        struct space_out_of_range *entry = &slot->interpose.out_of_range[i], old = *entry;
        entry->end = 0; /* first: once unmapped, the addresses may be another member's */
        if (old.end)
            raw(__NR_munmap, old.start, old.end - old.start);
    }
}

/* PRESENT -> GOING, or back to PRESENT if the memory is held. */
static void try_reclaim(struct space *space, struct space_slot *owner)
{
    atomic_store(&owner->memory, MEMORY_GOING);
    if (is_held(space, owner)) {
        atomic_store(&owner->memory, MEMORY_PRESENT);
        return;
    }
    if (owner->flags & ONESPACE_SPAWN_HOLD)
        exports_drop(space, owner);
    unmap_out_of_range(owner);
}

/* Unmaps the ranges of the owners whose memory is GOING, adjacent ones in one call. */
static void unmap_ranges(struct space *space, struct space_slot *const *owners, unsigned count)
{
    unsigned next;
    for (unsigned first = 0; first < count; first = next) {
        next = first + 1;
        if (atomic_load(&owners[first]->memory) != MEMORY_GOING)
            continue;
        while (next < count && owners[next] == owners[next - 1] + 1 &&
               atomic_load(&owners[next]->memory) == MEMORY_GOING)
            next++;
        raw(__NR_munmap, layout_range(space_slot_index(space, owners[first])),
            (next - first) * LAYOUT_RANGE);
    }
}

void holds_wanted(struct space *space, struct space_slot *const *owners, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        try_reclaim(space, owners[i]);
    unmap_ranges(space, owners, count);
    for (unsigned i = 0; i < count; i++) {
        if (atomic_load(&owners[i]->memory) != MEMORY_GOING)
            continue;
        atomic_store(&owners[i]->memory, MEMORY_NONE);
        if (space_state(owners[i]) == SLOT_BROKEN)
            space_free_slot(space, owners[i]);
        else
            space_release_slot(owners[i]);
    }
}

void holds_reclaim(struct space *space)
{
    if (!atomic_load(&space->holds_pending) || !atomic_exchange(&space->holds_changed, 0))
        return;
    atomic_store(&space->holds_pending, 0);
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *slot = &space->slots[i];
        uint32_t state = space_state(slot);
        int gone = state == SLOT_LEFT || state == SLOT_ENDED || state == SLOT_COLLECTED;
        if (gone && atomic_load(&slot->memory) == MEMORY_PRESENT)
            holds_wanted(space, &slot, 1);
    }
}
