/* src/insitu/reaper_hook.c: leaving a channel, and the reaper's work for members that died.
 *
 * Freestanding: the reaper runs it. The reaper never unmaps by itself, because munmap may wait for
 * the reader of a userfaultfd: a channel that the reaper frees is FREEING, of slot 0, until the
 * thread of space/member.h has unmapped its parts. A member clears `owner` of its
 * struct insitu_rank or insitu_consumer last: if it dies while it leaves, the reaper finds the
 * owner and repeats all steps. The member that finds no owner left frees the channel: it sets
 * FREEING and tests again. A member that becomes an owner reads the state afterwards (both
 * sequentially consistent), so at least one of them sees the other and gives way. */
#include "insitu/insitu.h"
#include "space/member.h"

static_assert((unsigned)ONESPACE_INSITU_CHANNELS <= UNMAPPER_JOBS - UNMAPPER_CHANNELS,
              "each channel may be posted");

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

/* The caller is a thread of the member with that slot, or of the reaper (0). No libc hears of this
 * munmap, the caller's neither. */
static void unmap_parts(struct space *space, unsigned slot, const struct insitu_channel *channel)
{
    (void)registrations_notify(space, &space->slots[slot], NOTIFY_ALL, insitu_area(channel),
                               insitu_area(channel) + INSITU_AREA_BYTES);
    raw(__NR_munmap, insitu_area(channel), INSITU_AREA_BYTES);
}

/* FREEING -> FREE. Only its caller changes the state of a channel that is FREEING. */
static void set_free(struct insitu_channel *channel)
{
    atomic_store(&channel->state, channel_use(atomic_load(&channel->state)) | CHANNEL_FREE);
}

/* LIVE -> FREEING, if the channel has no owner. Returns whether the caller must unmap the parts. */
static int start_freeing(struct insitu_channel *channel, unsigned slot)
{
    uint64_t state = atomic_load(&channel->state);
    while (channel_kind(state) == CHANNEL_LIVE && !is_used(channel)) {
        uint64_t freeing = channel_use(state) | slot << CHANNEL_SLOT_SHIFT | CHANNEL_FREEING;
        if (!atomic_compare_exchange_strong(&channel->state, &state, freeing))
            continue;
        if (!is_used(channel))
            return 1;
        atomic_store(&channel->state, state); /* test again: the new owner may have left */
    }
    return 0;
}

void insitu_channel_try_free(struct insitu_channel *channel, unsigned slot)
{
    if (!start_freeing(channel, slot))
        return;
    unmap_parts(space_registry(), slot, channel);
    set_free(channel);
}

static struct insitu_channel *channel_of(struct unmapper_job job)
{
    return &insitu_table()->channels[job.first - UNMAPPER_CHANNELS];
}

static void unmap_channel(struct space *space, struct unmapper_job job)
{
    unmap_parts(space, 0, channel_of(job));
}

static void free_channel(struct space *space, struct unmapper_job job)
{
    (void)space;
    set_free(channel_of(job));
}

/* Reaper: the channel is FREEING, of slot 0. */
static void post_unmap(struct space *space, const struct insitu_channel *channel)
{
    unsigned index = (unsigned)(channel - insitu_table()->channels);
    struct unmapper_job job = {(uint16_t)(UNMAPPER_CHANNELS + index), 1, unmap_channel,
                               free_channel};
    unmapper_post(space, job);
}

static void try_free_in_reaper(struct space *space, struct insitu_channel *channel)
{
    if (start_freeing(channel, 0))
        post_unmap(space, channel);
}

void insitu_consumer_leave(struct insitu_channel *channel, struct insitu_consumer *consumer)
{
    atomic_store(&consumer->active, 0);
    atomic_store(&consumer->holding, 0);
    atomic_store(&consumer->seen, 0);
    atomic_store(&consumer->owner, 0);
    insitu_notify(&channel->entry_event);
}

/* Steps that the rank was reclaiming: they are as if it had not begun. */
static void return_steps(struct insitu_channel *channel, unsigned rank)
{
    for (unsigned e = 0; e < INSITU_ENTRIES; e++) {
        _Atomic uint64_t *state = &channel->entries[e].state;
        uint64_t sequence = insitu_sequence_of(atomic_load(state));
        if (atomic_load(state) == insitu_reclaimed_by(rank, sequence))
            atomic_store(state, insitu_state(ENTRY_COMPLETE, sequence));
    }
}

/* The end of a rank breaks the channel, unless it has closed the channel and only waited for its
 * arrays: then all steps that consumers will still get are complete, and consumers hold its memory.
 */
static void rank_died(struct insitu_channel *channel, struct insitu_rank *rank)
{
    if (!atomic_load(&rank->closed))
        atomic_store(&channel->broken, atomic_load(&rank->owner));
    return_steps(channel, (unsigned)(rank - channel->rank));
    atomic_store(&rank->owner, 0);
    insitu_notify(&channel->step_event);
    insitu_notify(&channel->entry_event);
}

static void release_owned(struct space *space, struct insitu_channel *channel, uint32_t owner)
{
    for (unsigned i = 0; i < channel->ranks; i++)
        if (atomic_load(&channel->rank[i].owner) == owner)
            rank_died(channel, &channel->rank[i]);
    uint32_t high = atomic_load(&channel->consumers_high);
    for (unsigned i = 0; i < high; i++)
        if (atomic_load(&channel->consumers[i].owner) == owner)
            insitu_consumer_leave(channel, &channel->consumers[i]);
    try_free_in_reaper(space, channel); /* the member may have died between leaving and freeing */
}

/* Completes the creation or the freeing that the dead member had begun. */
static void finish_transition(struct space *space, struct insitu_channel *channel, unsigned slot)
{
    uint64_t state = atomic_load(&channel->state);
    if (channel_slot(state) != slot)
        return;
    if (channel_kind(state) == CHANNEL_CLAIMED) {
        for (unsigned i = 0; i < channel->ranks; i++)
            atomic_store(&channel->rank[i].owner, 0);
        atomic_store(&channel->state, channel_use(state) | CHANNEL_FREEING);
        post_unmap(space, channel);
    } else if (channel_kind(state) == CHANNEL_FREEING) {
        atomic_store(&channel->state, channel_use(state) | CHANNEL_LIVE);
        try_free_in_reaper(space, channel);
    }
}

static void member_ended(struct space *space, struct space_slot *slot)
{
    if (!atomic_load(&space->insitu))
        return;
    struct insitu_table *table = insitu_table();
    uint32_t owner = (uint32_t)atomic_load(&slot->id) + 1, high = atomic_load(&table->high);
    for (unsigned i = 0; i < high; i++) {
        uint64_t kind = channel_kind(atomic_load(&table->channels[i].state));
        if (kind == CHANNEL_CLAIMED || kind == CHANNEL_FREEING)
            finish_transition(space, &table->channels[i], slot_index(space, slot));
        if (kind != CHANNEL_FREE)
            release_owned(space, &table->channels[i], owner);
    }
    uint32_t locked = owner;
    if (atomic_compare_exchange_strong(&table->lock, &locked, 0))
        futex_wake(&table->lock, INT32_MAX);
    futex_bump(&table->names);
}

const struct member_hooks insitu_hooks = {.ended = member_ended};
