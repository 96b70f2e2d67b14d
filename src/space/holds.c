/* src/space/holds.c: see holds.h for the protocol. Freestanding: part of it runs in the reaper. */
#include "space/member.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "base/delay.h"
#include "base/futex.h"
#include "base/page.h"
#include "onespace.h"
#include "space/remote_call.h"
#include "space/intervals.h"
#include "space/shared_mappings.h"
#include "space/locks.h"

enum { ASKED_NS = 1000000, UNMAP_WAIT_NS = 50000000 };

/* Whether the memory stays, for who has raised a cell of its row: known when the reaper has looked
 * at the row. It wakes nobody, since looking takes no longer than waking would. */
static int is_present(const struct space *space, const struct space_slot *owner)
{
    uint32_t memory;
    while ((memory = atomic_load(&owner->memory)) == MEMORY_CHECKING &&
           !(atomic_load(&space->reaper_word) & FUTEX_OWNER_DIED))
        futex_wait(&owner->memory, MEMORY_CHECKING, futex_now_ns() + ASKED_NS);
    return memory == MEMORY_PRESENT;
}

static _Atomic uint32_t *cell_of(struct space *space, const struct space_slot *owner,
                                 const struct space_slot *holder)
{
    return &space->holds[slot_index(space, owner)][slot_index(space, holder)];
}

/* `unit` is 1 or SPACE_HOLDS_COPY, `most` its counter at its largest. */
static long take(struct space *space, struct space_slot *owner, struct space_slot *holder,
                 uint32_t unit, uint32_t most)
{
    _Atomic uint32_t *cell = cell_of(space, owner, holder);
    if (!atomic_load(&owner->was_imported)) /* store once: a store costs more than all the rest */
        atomic_store(&owner->was_imported, 1);
    if (!atomic_load(&holder->has_imported))
        atomic_store(&holder->has_imported, 1);
    uint32_t count = atomic_load(cell);
    do {
        if ((count & most) == most)
            return -EOVERFLOW;
        DELAY("holds.take");
    } while (!atomic_compare_exchange_weak(cell, &count, count + unit));
    if (slot_index(space, owner) == 0 || is_present(space, owner))
        return 0;
    atomic_fetch_sub(cell, unit);
    return -EOWNERDEAD;
}

static long give(struct space *space, struct space_slot *owner, struct space_slot *holder,
                 uint32_t unit, uint32_t most)
{
    _Atomic uint32_t *cell = cell_of(space, owner, holder);
    uint32_t count = atomic_load(cell);
    do
        if ((count & most) == 0)
            return -EINVAL;
    while (!atomic_compare_exchange_weak(cell, &count, count - unit));
    DELAY("holds.give");
    if (count == unit && atomic_load(&owner->reclaim_pending))
        reaper_recheck(space);
    return 0;
}

long hold_take(struct space *space, struct space_slot *owner, struct space_slot *holder)
{
    return take(space, owner, holder, 1, SPACE_HOLDS_IMPORTS);
}

long hold_release(struct space *space, struct space_slot *owner, struct space_slot *holder)
{
    return give(space, owner, holder, 1, SPACE_HOLDS_IMPORTS);
}

long hold_take_for_copy(struct space *space, struct space_slot *owner, struct space_slot *holder)
{
    return take(space, owner, holder, SPACE_HOLDS_COPY, ~(uint32_t)SPACE_HOLDS_IMPORTS);
}

void hold_release_after_copy(struct space *space, struct space_slot *owner,
                             struct space_slot *holder)
{
    (void)give(space, owner, holder, SPACE_HOLDS_COPY, ~(uint32_t)SPACE_HOLDS_IMPORTS);
}

int hold_exists(struct space *space, const struct space_slot *owner,
                const struct space_slot *holder)
{
    return (atomic_load(cell_of(space, owner, holder)) & SPACE_HOLDS_IMPORTS) != 0;
}

void reaper_recheck(struct space *space)
{
    if (!atomic_load(&space->holds_pending))
        return;
    atomic_store(&space->holds_changed, 1);
    futex_bump(&space->events);
}

void hold_release_all(struct space *space, struct space_slot *holder)
{
    if (!atomic_load(&holder->has_imported))
        return;
    unsigned index = slot_index(space, holder);
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t owner = 0; owner <= highest; owner++)
        if (atomic_load(&space->holds[owner][index]))
            atomic_store(&space->holds[owner][index], 0);
    atomic_store(&space->holds_changed, 1);
}

static int is_imported(struct space *space, unsigned owner)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t holder = 0; holder <= highest; holder++)
        if (atomic_load(&space->holds[owner][holder]))
            return 1;
    return 0;
}

/* Whether threads of others are in its context. Callers that come now find that it is gone. */
static int is_lent(unsigned owner)
{
    const struct call_member *member = &call_table()->members[owner];
    for (unsigned i = 0; i < CALL_LENDERS; i++)
        if (call_kind(atomic_load(&member->lenders[i].state)) == LENDER_LENT)
            return 1;
    return 0;
}

static int is_held(struct space *space, struct space_slot *owner)
{
    int was_imported = atomic_load(&owner->was_imported) != 0;
    int was_called = atomic_load(&owner->was_called) && atomic_load(&space->calls);
    if (!was_imported && !was_called)
        return 0;
    atomic_store(&space->holds_pending, 1);
    atomic_store(&owner->reclaim_pending, 1);
    DELAY("holds.look");
    unsigned index = slot_index(space, owner);
    return (was_imported && is_imported(space, index)) || (was_called && is_lent(index));
}

enum { PIECE = 64 * 1024 };

/* The largest power of two below `size`: of the ranges, which are multiples of 4 GiB, no huge page
 * is then cut. */
static size_t first_part(size_t size)
{
    return (size_t)1 << (63 - __builtin_clzll(size - 1));
}

long memory_unmap(uintptr_t start, size_t size)
{
    long result = raw(__NR_munmap, start, size);
    if (result == 0)
        return 0;
    if (size <= PIECE) {
        raw(__NR_madvise, start, size, MADV_DONTNEED); /* its pages, if it may be */
        return result;
    }
    size_t part = first_part(size);
    long low = memory_unmap(start, part), high = memory_unmap(start + part, size - part);
    return low ? low : high;
}

/* A mapping of huge pages reaches to the end of the last one, whatever size was asked for. Only if
 * there is such a mapping does munmap refuse the size: the first that it accepts is the mapping's.
 * On x86-64 huge pages have 2 MiB or 1 GiB, on aarch64 64 KiB to 16 GiB. */
static void unmap_entry(uintptr_t start, uintptr_t end)
{
    long result = raw(__NR_munmap, start, end - start);
    for (uint64_t huge = LAYOUT_MIB / 16; result == -EINVAL && huge <= 16 * LAYOUT_GIB; huge *= 2)
        result = raw(__NR_munmap, start, round_up(end, huge) - start);
    if (result != 0)
        memory_unmap(start, end - start);
}

/* Of each entry the word first: once unmapped, the addresses may be another member's. A task that
 * was killed right after it had mapped over another's memory may not have cut the other's table. */
static void unmap_out_of_range(struct space *space, struct space_slot *slot)
{
    uint32_t used = intervals_used(slot, INTERVALS_OUT_OF_RANGE);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = atomic_exchange(intervals_word(slot, INTERVALS_OUT_OF_RANGE, i), 0);
        if (!interval_is_certain(word))
            continue;
        intervals_remove_from_others(space, slot, interval_start(word), interval_end(word));
        unmap_entry(interval_start(word), interval_end(word));
    }
}

/* What the task has marked of others' memory. Its own is about to be unmapped. */
static void unmark_dontfork(struct space *space, struct space_slot *slot)
{
    uint32_t used = intervals_used(slot, INTERVALS_DONTFORK);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = atomic_exchange(intervals_word(slot, INTERVALS_DONTFORK, i), 0);
        if (word && layout_slot_of(interval_start(word)) != slot_index(space, slot))
            (void)intervals_unmark_dontfork(space, slot, interval_start(word), interval_end(word));
    }
}

/* The kernel keeps contexts with the memory of all. Waits for what they have in flight, so that the
 * turn to change the map must not be held. What the program has destroyed by a call that is not
 * interposed fails. */
static void destroy_contexts(struct space_slot *slot)
{
    uint32_t used = intervals_used(slot, INTERVALS_AIO);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = atomic_exchange(intervals_word(slot, INTERVALS_AIO, i), 0);
        for (uintptr_t at = interval_start(word); at < interval_end(word); at += ARCH_PAGE)
            raw(__NR_io_destroy, at);
    }
}

/* PRESENT -> ASKED -> GOING, or back to PRESENT if the memory is held. */
static void try_reclaim(struct space *space, struct space_slot *owner)
{
    atomic_store(&owner->memory, MEMORY_CHECKING);
    int held = is_held(space, owner);
    atomic_store(&owner->memory, held ? MEMORY_PRESENT : MEMORY_UNMAPPING);
    if (held)
        return;
    if ((owner->flags & ONESPACE_SPAWN_HOLD) || atomic_load(&owner->was_called))
        exports_remove_all(space, owner);
    /* Threads of callers ran in its context until they had noticed its end. */
    if (atomic_load(&owner->was_called))
        hold_release_all(space, owner);
}

/* By the unmapper. Adjacent ranges go in one call. A mapping that cannot be unmapped makes that
 * fail for all of them: then each by itself. */
static void unmap_run(struct space *space, struct unmapper_run run)
{
    for (unsigned i = run.first; i < run.first + run.count; i++)
        destroy_contexts(&space->slots[i]);
    uint32_t begun = map_throttle_begin(space);
    for (unsigned i = run.first; i < run.first + run.count; i++) {
        unmark_dontfork(space, &space->slots[i]);
        unmap_out_of_range(space, &space->slots[i]);
        shared_mappings_release_all(space, &space->slots[i]);
    }
    int all = raw(__NR_munmap, layout_range(run.first), run.count * LAYOUT_RANGE) == 0;
    for (unsigned i = run.first; i < run.first + run.count; i++)
        if (!all && memory_unmap(layout_range(i), LAYOUT_RANGE) != 0)
            atomic_store(&space->slots[i].memory, MEMORY_STUCK);
    map_throttle_end(space, begun);
}

/* Whether it is BROKEN is read before the memory is NONE: from then on a collector may free it. */
static void finish(struct space *space, struct space_slot *owner)
{
    int is_broken = space_state(owner) == SLOT_ABORTING;
    if (atomic_load(&owner->memory) == MEMORY_STUCK)
        return;
    atomic_store(&owner->memory, MEMORY_NONE);
    if (is_broken)
        slot_free(space, owner);
    else
        slot_free_if_done(owner);
}

/* Frees the slots whose memory the unmapper has unmapped. */
static void finish_run(struct space *space, struct unmapper_run run)
{
    for (unsigned i = run.first; i < run.first + run.count; i++)
        finish(space, &space->slots[i]);
}

static int is_going(const struct space_slot *owner)
{
    return atomic_load(&owner->memory) == MEMORY_UNMAPPING;
}

void memory_release(struct space *space, struct space_slot *const *owners, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        try_reclaim(space, owners[i]);
    for (unsigned first = 0, next; first < count; first = next) {
        next = first + 1;
        if (!is_going(owners[first]))
            continue;
        while (next < count && owners[next] == owners[next - 1] + 1 && is_going(owners[next]))
            next++;
        struct unmapper_run run = {(uint16_t)slot_index(space, owners[first]),
                                   (uint16_t)(next - first), unmap_run, finish_run};
        unmapper_post(space, run);
    }
    /* So that memory is usually gone when a waiter learns of the end. */
    unmapper_wait(UNMAP_WAIT_NS);
    unmapper_finish(space);
}

void memory_reclaim(struct space *space)
{
    unmapper_finish(space);
    if (!atomic_load(&space->holds_pending) || !atomic_exchange(&space->holds_changed, 0))
        return;
    atomic_store(&space->holds_pending, 0);
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *slot = &space->slots[i];
        uint32_t state = space_state(slot);
        int gone = state >= SLOT_LEFT && state <= SLOT_ABORTING;
        if (gone && atomic_load(&slot->memory) == MEMORY_PRESENT)
            memory_release(space, &slot, 1);
    }
}
