/* src/insitu/ends.c: leaving a channel, and what the reaper does for members that died.
 *
 * Freestanding: the reaper runs it. The reaper never unmaps by itself, because munmap may wait for
 * the reader of a userfaultfd: a channel that the reaper frees is FREEING, of slot 0, until the
 * thread of space/member.h has unmapped its parts. A place (struct insitu_rank, struct
 * insitu_consumer) is given back last of all: if a member dies while it leaves, the reaper finds
 * the place and does all of it again. A channel is freed by the member that finds no place taken:
 * it sets FREEING and looks again. A member that takes a place reads the state afterwards (both
 * sequentially consistent), so at least one of them sees the other and gives way. */
#include "insitu/ends.h"

#include "insitu/handle.h"
#include "insitu/wake.h"
#include "space/member.h"

static_assert((unsigned)ONESPACE_INSITU_CHANNELS <= UNMAPPER_RUNS - UNMAPPER_CHANNELS,
              "each channel may be posted");

static uint64_t kind_of(uint64_t state)
{
    return state & CHANNEL_KIND_MASK;
}

static uint64_t use_of(uint64_t state)
{
    return state >> CHANNEL_USE_SHIFT << CHANNEL_USE_SHIFT;
}

static uint32_t slot_of(uint64_t state)
{
    return (uint32_t)state >> CHANNEL_SLOT_SHIFT;
}

static int is_used(const struct insitu_channel *channel)
{
    for (unsigned i = 0; i < channel->ranks; i++)
        if (atomic_load(&channel->rank[i].owner))
            return 1;
    uint32_t high = atomic_load(&channel->consumers_high);
    for (unsigned i = 0; i < high; i++)
        if (atomic_load(&channel->consumers[i].owner))
            return 1;
    return 0;
}

static void unmap_parts(const struct insitu_channel *channel)
{
    raw(__NR_munmap, insitu_area(channel), INSITU_AREA_BYTES);
}

/* FREEING -> FREE. Only its caller changes the state of a channel that is FREEING. */
static void set_free(struct insitu_channel *channel)
{
    atomic_store(&channel->state, use_of(atomic_load(&channel->state)) | CHANNEL_FREE);
}

/* LIVE -> FREEING, if no place is taken. Whether the caller is to unmap the parts. */
static int start_freeing(struct insitu_channel *channel, unsigned slot)
{
    uint64_t state = atomic_load(&channel->state);
    while (kind_of(state) == CHANNEL_LIVE && !is_used(channel)) {
        uint64_t freeing = use_of(state) | slot << CHANNEL_SLOT_SHIFT | CHANNEL_FREEING;
        if (!atomic_compare_exchange_strong(&channel->state, &state, freeing))
            continue;
        if (!is_used(channel))
            return 1;
        atomic_store(&channel->state, state); /* and look again: who came may have left */
    }
    return 0;
}

void insitu_try_free(struct insitu_channel *channel, unsigned slot)
{
    if (!start_freeing(channel, slot))
        return;
    unmap_parts(channel);
    set_free(channel);
}

static struct insitu_channel *channel_of(struct unmapper_run run)
{
    return &insitu_table()->channels[run.first - UNMAPPER_CHANNELS];
}

static void unmap_run(struct space *space, struct unmapper_run run)
{
    (void)space;
    unmap_parts(channel_of(run));
}

static void finish_run(struct space *space, struct unmapper_run run)
{
    (void)space;
    set_free(channel_of(run));
}

/* Reaper: the channel is FREEING, of slot 0. */
static void post(struct space *space, const struct insitu_channel *channel)
{
    unsigned index = (unsigned)(channel - insitu_table()->channels);
    struct unmapper_run run = {(uint16_t)(UNMAPPER_CHANNELS + index), 1, unmap_run, finish_run};
    unmapper_post(space, run);
}

static void try_free_by_reaper(struct space *space, struct insitu_channel *channel)
{
    if (start_freeing(channel, 0))
        post(space, channel);
}

void insitu_leave_consumer(struct insitu_channel *channel, struct insitu_consumer *place)
{
    atomic_store(&place->active, 0);
    atomic_store(&place->holding, 0);
    atomic_store(&place->seen, 0);
    atomic_store(&place->owner, 0);
    insitu_ring(&channel->freed);
}

/* The end of a rank breaks the channel, unless it has closed the channel and only waited for its
 * arrays: the steps that consumers are still to get are complete then, and consumers hold its
 * memory. */
static void leave_rank(struct insitu_channel *channel, struct insitu_rank *rank)
{
    if (!atomic_load(&rank->closed))
        atomic_store(&channel->broken, atomic_load(&rank->owner));
    atomic_store(&rank->owner, 0);
    insitu_ring(&channel->news);
    insitu_ring(&channel->freed);
}

static void drop_places(struct space *space, struct insitu_channel *channel, uint32_t owner)
{
    for (unsigned i = 0; i < channel->ranks; i++)
        if (atomic_load(&channel->rank[i].owner) == owner)
            leave_rank(channel, &channel->rank[i]);
    uint32_t high = atomic_load(&channel->consumers_high);
    for (unsigned i = 0; i < high; i++)
        if (atomic_load(&channel->consumers[i].owner) == owner)
            insitu_leave_consumer(channel, &channel->consumers[i]);
    try_free_by_reaper(space, channel); /* it may have died between leaving and freeing, too */
}

/* Completes what the dead member was making or freeing. */
static void finish(struct space *space, struct insitu_channel *channel, unsigned slot)
{
    uint64_t state = atomic_load(&channel->state);
    if (slot_of(state) != slot)
        return;
    if (kind_of(state) == CHANNEL_CLAIMED) {
        for (unsigned i = 0; i < channel->ranks; i++)
            atomic_store(&channel->rank[i].owner, 0);
        atomic_store(&channel->state, use_of(state) | CHANNEL_FREEING);
        post(space, channel);
    } else if (kind_of(state) == CHANNEL_FREEING) {
        atomic_store(&channel->state, use_of(state) | CHANNEL_LIVE);
        try_free_by_reaper(space, channel);
    }
}

static void drop(struct space *space, struct space_slot *slot)
{
    if (!atomic_load(&space->insitu))
        return;
    struct insitu_table *table = insitu_table();
    uint32_t owner = (uint32_t)atomic_load(&slot->id) + 1, high = atomic_load(&table->high);
    for (unsigned i = 0; i < high; i++) {
        uint64_t kind = kind_of(atomic_load(&table->channels[i].state));
        if (kind == CHANNEL_CLAIMED || kind == CHANNEL_FREEING)
            finish(space, &table->channels[i], slot_index(space, slot));
        if (kind != CHANNEL_FREE)
            drop_places(space, &table->channels[i], owner);
    }
    uint32_t locked = owner;
    if (atomic_compare_exchange_strong(&table->lock, &locked, 0))
        futex_wake(&table->lock, INT32_MAX);
    futex_bump(&table->names);
}

const struct member_hooks insitu_hooks = {.ended = drop};
