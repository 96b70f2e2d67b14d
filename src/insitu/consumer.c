/* src/insitu/consumer.c: open a channel, take steps and release them. */
#include "onespace/insitu.h"

#include <errno.h>
#include <stdlib.h>

#include "insitu/insitu.h"
#include "space/member.h"

/* ---- Opening ---- */

static void release_owners(struct onespace_insitu *handle)
{
    while (handle->owner_count) {
        int id = handle->owners[--handle->owner_count];
        struct space_slot *owner = &handle->space->slots[slot_index_of_id(id)];
        (void)hold_release(handle->space, owner, handle->self);
    }
}

/* Holds the memory of all ranks: 0, or -EAGAIN if one of them has left or is leaving. */
static int hold_owners(struct onespace_insitu *handle)
{
    struct insitu_channel *channel = handle->channel;
    for (unsigned i = 0; i < channel->ranks; i++) {
        uint32_t owner = atomic_load(&channel->rank[i].owner);
        struct space_slot *slot = owner ? slot_find(handle->space, (int32_t)(owner - 1)) : NULL;
        if (!slot || hold_take(handle->space, slot, handle->self) < 0)
            return -EAGAIN;
        handle->owners[handle->owner_count++] = (int)(owner - 1);
        if (atomic_load(&channel->rank[i].owner) != owner)
            return -EAGAIN;
    }
    return 0;
}

/* Called before an entry of consumers[] is claimed, so that the reaper finds it if the member dies
 * right after. */
static void raise_consumers_high(struct insitu_channel *channel, uint32_t count)
{
    uint32_t high = atomic_load(&channel->consumers_high);
    while (high < count && !atomic_compare_exchange_weak(&channel->consumers_high, &high, count))
        ;
}

static struct insitu_consumer *claim_consumer(struct insitu_channel *channel, uint32_t me)
{
    for (unsigned i = 0; i < INSITU_MEMBERS; i++) {
        struct insitu_consumer *consumer = &channel->consumers[i];
        uint32_t no_owner = 0;
        if (atomic_load(&consumer->owner))
            continue;
        raise_consumers_high(channel, i + 1);
        if (atomic_compare_exchange_strong(&consumer->owner, &no_owner, me))
            return consumer;
    }
    return NULL;
}

/* After the store of `active` the producer keeps all steps for a consumer of every step, so none
 * after `latest` is lost. */
static void activate_consumer(struct insitu_channel *channel, struct insitu_consumer *consumer,
                              int mode)
{
    atomic_store(&consumer->active, 1u + (uint32_t)mode);
    /* In this order: `complete` is written last, and exceeds `latest` only if the steps in between
     * found no consumer. */
    uint64_t complete = atomic_load(&channel->complete);
    uint64_t latest = atomic_load(&channel->latest) >> 8;
    atomic_store(&consumer->seen, latest && latest >= complete ? latest - 1 : complete);
    insitu_notify(&channel->entry_event); /* the producer may wait for consumers or for `seen` */
}

/* `state` is the channel's as it was found. 0; -EAGAIN if it has changed since, or the channel is
 * about to end; -ENOSPC. */
static int enter_channel(struct onespace_insitu *handle, uint64_t state)
{
    struct insitu_channel *channel = handle->channel;
    handle->consumer = claim_consumer(channel, (uint32_t)atomic_load(&handle->self->id) + 1);
    if (!handle->consumer)
        return insitu_fail(-ENOSPC, "channel '%s' has %d consumers already", channel->name,
                           INSITU_MEMBERS);
    /* After the claim: see reaper_hook.c. */
    int result = atomic_load(&channel->state) == state ? hold_owners(handle) : -EAGAIN;
    if (result == 0 && insitu_channel_is_open(channel)) {
        activate_consumer(channel, handle->consumer, handle->mode);
        return 0;
    }
    release_owners(handle);
    insitu_consumer_leave(channel, handle->consumer);
    insitu_channel_try_free(channel, slot_index(handle->space, handle->self));
    return -EAGAIN;
}

static int try_open(const char *name, int mode, struct onespace_insitu **opened)
{
    uint64_t state;
    struct insitu_channel *channel = insitu_channel_find(name, &state);
    if (!channel || atomic_load(&channel->joined) != channel->ranks)
        return -EAGAIN;
    struct onespace_insitu *handle = insitu_handle_new(channel->ranks);
    if (!handle)
        return -ENOMEM;
    handle->channel = channel;
    handle->mode = mode;
    int result = enter_channel(handle, state);
    if (result == 0)
        *opened = handle;
    else
        free(handle);
    return result;
}

int onespace_insitu_open(const char *name, int mode, int timeout_ms,
                         struct onespace_insitu **channel)
{
    int result = insitu_check_name("a channel", name);
    if (result == 0 && mode != ONESPACE_INSITU_LATEST && mode != ONESPACE_INSITU_EVERY)
        result = insitu_fail(-EINVAL, "channel '%s': there is no mode %d", name, mode);
    if (result == 0)
        result = insitu_map_table();
    if (result < 0)
        return result;
    uint64_t deadline = futex_deadline(timeout_ms);
    struct insitu_table *table = insitu_table();
    for (;;) {
        /* Acquire, pairs with futex_bump after a channel was created or a member of one has died.
         */
        uint32_t seen = atomic_load_explicit(&table->names, memory_order_acquire);
        result = try_open(name, mode, channel);
        if (result != -EAGAIN)
            return result;
        if (timeout_ms == 0 || futex_now_ns() >= deadline)
            return -ETIMEDOUT;
        result = insitu_sleep(&table->names, seen, deadline);
        if (result < 0)
            return result;
    }
}

/* ---- Taking ---- */

static void set_holding(struct onespace_insitu *handle, unsigned entry, int is_held)
{
    uint32_t bits = atomic_load_explicit(&handle->consumer->holding, memory_order_relaxed);
    uint32_t bit = 1u << entry;
    atomic_store(&handle->consumer->holding, is_held ? bits | bit : bits & ~bit);
}

/* Prefetches the lines that onespace_insitu_get reads, to overlap them with the store of the bit.
 */
static void prefetch(const struct insitu_channel *channel, unsigned entry)
{
    const struct insitu_part *part = insitu_part(channel, entry, 0);
    __builtin_prefetch(&channel->entries[entry]);
    __builtin_prefetch(part);
    __builtin_prefetch(&part->arrays[0].name);
    __builtin_prefetch(&part->arrays[0].address);
}

/* Holds the step in that entry unless it was reclaimed. Returns whether it is held. */
static int try_hold(struct onespace_insitu *handle, unsigned entry, uint64_t sequence)
{
    struct insitu_channel *channel = handle->channel;
    prefetch(channel, entry);
    set_holding(handle, entry, 1);
    if (atomic_load(&channel->entries[entry].state) == insitu_state(ENTRY_COMPLETE, sequence)) {
        handle->held[entry] = sequence;
        atomic_store(&handle->consumer->seen, sequence);
        return 1;
    }
    set_holding(handle, entry, 0);
    insitu_notify(&channel->entry_event);
    return 0;
}

/* Returns the entry of the oldest complete step that a consumer of every step has not seen, or
 * NO_ENTRY. */
static int next_entry(const struct onespace_insitu *handle, uint64_t seen, uint64_t *sequence)
{
    const struct insitu_channel *channel = handle->channel;
    int found = NO_ENTRY;
    *sequence = UINT64_MAX;
    for (unsigned e = 0; e < channel->depth; e++) {
        uint64_t state = atomic_load(&channel->entries[e].state);
        uint64_t number = insitu_sequence_of(state);
        if (insitu_kind_of(state) == ENTRY_COMPLETE && number > seen && number < *sequence) {
            *sequence = number;
            found = (int)e;
        }
    }
    return found;
}

/* Takes and holds a step that is available now. Returns its entry or NO_ENTRY. */
static int take_available(struct onespace_insitu *handle)
{
    struct insitu_channel *channel = handle->channel;
    uint64_t latest = atomic_load(&channel->latest), sequence = latest >> 8;
    uint64_t seen = atomic_load_explicit(&handle->consumer->seen, memory_order_relaxed);
    int entry = (int)(latest & 0xff);
    if (sequence <= seen)
        return NO_ENTRY;
    if (handle->mode == ONESPACE_INSITU_EVERY && sequence != seen + 1)
        entry = next_entry(handle, seen, &sequence);
    return entry != NO_ENTRY && try_hold(handle, (unsigned)entry, sequence) ? entry : NO_ENTRY;
}

/* Returns 0, or the error if no further step will come. Called before the last attempt to take one.
 */
static int check_ended(const struct insitu_channel *channel)
{
    int result = insitu_check_broken(channel);
    if (result == 0 && atomic_load(&channel->complete) >= atomic_load(&channel->last))
        return -ENODATA;
    return result;
}

int onespace_insitu_take(struct onespace_insitu *handle, struct onespace_insitu_step *step,
                         int timeout_ms)
{
    int result = insitu_check_end(handle, 0), entry;
    if (result < 0)
        return result;
    struct insitu_channel *channel = handle->channel;
    struct insitu_wait wait = insitu_wait_init(timeout_ms);
    wait.may_nap = 1;
    uint64_t seen = atomic_load_explicit(&handle->consumer->seen, memory_order_relaxed);
    for (;;) {
        int ended = check_ended(channel);
        if (ended == -EOWNERDEAD)
            return ended;
        entry = take_available(handle);
        if (entry != NO_ENTRY)
            break;
        result = ended;
        if (result == 0)
            result = insitu_wait_step(&wait, &channel->step_event);
        if (result == -ENODATA)
            return insitu_fail(result, "channel '%s' is closed: there is no further step",
                               channel->name);
        if (result < 0)
            return result;
    }
    uint64_t sequence = handle->held[entry];
    *step = (struct onespace_insitu_step){
        .step = atomic_load_explicit(&channel->entries[entry].step, memory_order_relaxed),
        .ticket = (uint64_t)entry | sequence << 8,
        .passed = sequence - seen - 1,
        .ranks = channel->ranks,
    };
    return 0;
}

static int is_held(const struct onespace_insitu *handle, const struct onespace_insitu_step *step)
{
    uint64_t entry = step ? step->ticket & 0xff : INSITU_ENTRIES;
    return entry < INSITU_ENTRIES && step->ticket >> 8 && handle->held[entry] == step->ticket >> 8;
}

struct insitu_part *insitu_held_part(struct onespace_insitu *handle,
                                     const struct onespace_insitu_step *step, unsigned rank)
{
    if (insitu_check_end(handle, 0) < 0)
        return NULL;
    if (!is_held(handle, step)) {
        insitu_fail(-EINVAL, "channel '%s': this step is not held, or no longer: take one first",
                    handle->channel->name);
        return NULL;
    }
    if (rank >= handle->channel->ranks) {
        insitu_fail(-EINVAL, "channel '%s': there is no rank %u: it has %u", handle->channel->name,
                    rank, handle->channel->ranks);
        return NULL;
    }
    return insitu_part(handle->channel, step->ticket & 0xff, rank);
}

int onespace_insitu_release(struct onespace_insitu *handle, const struct onespace_insitu_step *step)
{
    int result = insitu_check_end(handle, 0);
    if (result < 0)
        return result;
    if (!is_held(handle, step))
        return insitu_fail(-EINVAL,
                           "channel '%s': step %llu is not held: it was released before, or never "
                           "taken by this handle",
                           handle->channel->name, step ? (unsigned long long)step->step : 0);
    unsigned entry = step->ticket & 0xff;
    handle->held[entry] = 0;
    set_holding(handle, entry, 0);
    insitu_notify(&handle->channel->entry_event);
    return 0;
}

int insitu_close_consumer(struct onespace_insitu *handle)
{
    struct insitu_channel *channel = handle->channel;
    insitu_consumer_leave(channel, handle->consumer);
    release_owners(handle);
    insitu_channel_try_free(channel, slot_index(handle->space, handle->self));
    free(handle);
    return 0;
}
