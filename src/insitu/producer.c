/* src/insitu/producer.c: create a channel, publish steps, take them back, close it. */
#include "onespace/insitu.h"

#include <errno.h>
#include <stdlib.h>

#include "insitu/handle.h"
#include "insitu/table.h"
#include "insitu/wake.h"
#include "onespace.h"
#include "space/member.h"

int insitu_check_producer(const struct onespace_insitu *handle)
{
    if (!space_mine())
        return insitu_fail(-EPERM, "the caller is no member of the space");
    if (!handle || !handle->is_producer)
        return insitu_fail(-EINVAL, "this end of the channel is no producer's");
    return 0;
}

static int check_options(const char *name, const struct onespace_insitu_options *options)
{
    if (options->size != sizeof(*options) || options->policy < ONESPACE_INSITU_WAIT ||
        options->policy > ONESPACE_INSITU_COPY)
        return insitu_fail(-EINVAL,
                           "channel '%s': options that are not onespace's: begin with "
                           "ONESPACE_INSITU_OPTIONS_INIT",
                           name);
    if (options->ranks < 1 || options->ranks > ONESPACE_TASKS_MAX ||
        options->rank >= options->ranks || options->depth > ONESPACE_INSITU_DEPTH_MAX)
        return insitu_fail(-EINVAL,
                           "channel '%s': rank %u of %u, depth %u: there are 1 to %d ranks, "
                           "numbered from 0, and a depth of %d at most",
                           name, options->rank, options->ranks, options->depth, ONESPACE_TASKS_MAX,
                           ONESPACE_INSITU_DEPTH_MAX);
    if (options->depth * options->ranks > INSITU_PARTS)
        return insitu_fail(-ENOSPC,
                           "channel '%s': depth %u times %u ranks is above %d: choose a smaller "
                           "depth",
                           name, options->depth, options->ranks, INSITU_PARTS);
    return 0;
}

int onespace_insitu_create(const char *name, const struct onespace_insitu_options *options,
                           struct onespace_insitu **channel)
{
    struct onespace_insitu_options chosen = ONESPACE_INSITU_OPTIONS_INIT;
    int result = insitu_check_name("a channel", name);
    if (options)
        chosen = *options;
    if (chosen.depth == 0)
        chosen.depth = chosen.policy == ONESPACE_INSITU_COPY ? 4 : 1;
    if (result == 0)
        result = check_options(name, &chosen);
    if (result == 0)
        result = insitu_prepare();
    if (result < 0)
        return result;
    struct onespace_insitu *handle = insitu_new_handle(0);
    if (!handle)
        return -ENOMEM;
    result = insitu_make_or_join(name, &chosen, &handle->channel);
    if (result < 0) {
        free(handle);
        return result;
    }
    handle->is_producer = 1;
    handle->rank = chosen.rank;
    *channel = handle;
    return 0;
}

/* ---- Publishing ---- */

/* Stores in this order: a consumer that sees `latest` sees the state, and one that sees `complete`
 * reach `last` finds the last step when it looks once more. */
static void complete(struct insitu_channel *channel, unsigned at, uint64_t sequence)
{
    struct insitu_entry *entry = &channel->entries[at];
    if (atomic_load_explicit(&entry->wanted, memory_order_relaxed)) {
        /* Release, pairs with take_now's load of `latest`: it sees the parts. */
        atomic_store_explicit(&entry->state, insitu_state(ENTRY_COMPLETE, sequence),
                              memory_order_release);
        atomic_store(&channel->latest, at | sequence << 8);
    } else {
        atomic_store(&entry->state, insitu_state(ENTRY_FREE, sequence));
    }
    atomic_store(&channel->complete, sequence);
    insitu_ring(&channel->news);
    insitu_ring(&channel->freed);
}

int onespace_insitu_publish(struct onespace_insitu *handle)
{
    int result = insitu_check_producer(handle);
    if (result < 0)
        return result;
    struct insitu_channel *channel = handle->channel;
    if (handle->entry == NO_ENTRY)
        return insitu_fail(-ENOENT, "channel '%s': no step was begun", channel->name);
    struct insitu_entry *entry = &channel->entries[handle->entry];
    uint32_t broken = atomic_load(&channel->broken);
    if (broken)
        return insitu_fail(-EOWNERDEAD,
                           "channel '%s' has ended: task %u, which produced for it, has died",
                           channel->name, broken - 1);
    if (channel->policy == ONESPACE_INSITU_COPY && atomic_load(&entry->wanted))
        result = insitu_copy_part(handle->part);
    if (result < 0)
        return result;
    atomic_store_explicit(&channel->rank[handle->rank].published, handle->sequence,
                          memory_order_relaxed);
    unsigned at = (unsigned)handle->entry;
    handle->entry = NO_ENTRY;
    /* Acquire and release: the parts of all ranks are published by the last one's store of the
     * state. */
    if (atomic_fetch_sub_explicit(&entry->pending, 1, memory_order_acq_rel) == 1)
        complete(channel, at, handle->sequence);
    return 0;
}

/* ---- Taking back ---- */

/* 1: the step is no consumer's any more, and none will find it; 0: not yet; or -errno. */
static int take_back(struct insitu_channel *channel, uint64_t sequence)
{
    for (unsigned e = 0; e < channel->depth; e++) {
        uint64_t state = atomic_load(&channel->entries[e].state);
        if (state >> 8 != sequence || (state & 0xff) == ENTRY_FREE)
            continue;
        uint32_t broken = atomic_load(&channel->broken);
        if ((state & 0xff) == ENTRY_OPEN && broken)
            return insitu_fail(-EOWNERDEAD,
                               "channel '%s' has ended: task %u, which produced for it, has died",
                               channel->name, broken - 1);
        return (state & 0xff) == ENTRY_COMPLETE && insitu_reclaim(channel, e, sequence, 1);
    }
    return 1; /* another rank was first, or the entry has a later step */
}

int onespace_insitu_reclaim(struct onespace_insitu *handle, int timeout_ms)
{
    int result = insitu_check_producer(handle);
    if (result < 0)
        return result;
    struct insitu_channel *channel = handle->channel;
    if (handle->entry != NO_ENTRY)
        return insitu_fail(-EALREADY, "channel '%s': step %llu is not published yet", channel->name,
                           (unsigned long long)handle->number);
    if (handle->sequence == 0)
        return insitu_fail(-ENOENT, "channel '%s': no step was published", channel->name);
    struct insitu_wait wait = insitu_wait_begin(timeout_ms);
    while ((result = take_back(channel, handle->sequence)) == 0) {
        result = insitu_wait_more(&wait, &channel->freed);
        if (result < 0)
            return result;
    }
    return result < 0 ? result : 0;
}

/* ---- Closing ---- */

/* Announces that this rank begins no further step. */
static void announce_end(struct onespace_insitu *handle)
{
    struct insitu_channel *channel = handle->channel;
    struct insitu_rank *rank = &channel->rank[handle->rank];
    uint64_t published = atomic_load(&rank->published), last = atomic_load(&channel->last);
    if (handle->entry != NO_ENTRY && channel->ranks == 1)
        atomic_store(&channel->entries[handle->entry].state, ENTRY_FREE);
    handle->entry = NO_ENTRY;
    while (published < last && !atomic_compare_exchange_weak(&channel->last, &last, published))
        ;
    atomic_store(&rank->closed, 1);
    handle->closing = 1;
    insitu_ring(&channel->news);
    insitu_ring(&channel->freed);
}

/* Whether all steps with this rank's arrays were reclaimed. */
static int all_reclaimed(struct onespace_insitu *handle)
{
    struct insitu_channel *channel = handle->channel;
    uint64_t last = atomic_load(&channel->last);
    int is_broken = atomic_load(&channel->broken) != 0;
    for (unsigned e = 0; e < channel->depth; e++) {
        uint64_t state = atomic_load(&channel->entries[e].state), kind = state & 0xff;
        if (kind == ENTRY_FREE || state >> 8 > last || (kind == ENTRY_OPEN && is_broken))
            continue;
        if (kind != ENTRY_COMPLETE || !insitu_reclaim(channel, e, state >> 8, 1))
            return 0;
    }
    return 1;
}

static void free_copies(struct onespace_insitu *handle)
{
    for (unsigned e = 0; e < handle->channel->depth; e++)
        insitu_free_copy(insitu_part(handle->channel, e, handle->rank));
}

int insitu_close_producer(struct onespace_insitu *handle, int timeout_ms)
{
    struct insitu_channel *channel = handle->channel;
    struct insitu_wait wait = insitu_wait_begin(timeout_ms);
    if (!handle->closing)
        announce_end(handle);
    while (!all_reclaimed(handle)) {
        int result = insitu_wait_more(&wait, &channel->freed);
        if (result < 0)
            return result;
    }
    if (channel->policy == ONESPACE_INSITU_COPY)
        free_copies(handle);
    atomic_store(&channel->rank[handle->rank].owner, 0);
    insitu_ring(&channel->news);
    insitu_try_free(channel, slot_index(handle->space, handle->self));
    free(handle);
    return 0;
}
