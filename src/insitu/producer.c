/* src/insitu/producer.c: create a channel, begin and publish steps, reclaim them, close the
 * channel. */
#include "onespace/insitu.h"

#include <errno.h>
#include <stdlib.h>

#include "base/delay.h"
#include "insitu/insitu.h"
#include "onespace.h"
#include "space/member.h"

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
        result = insitu_map_table();
    if (result < 0)
        return result;
    struct onespace_insitu *handle = insitu_handle_new(0);
    if (!handle)
        return -ENOMEM;
    result = insitu_channel_create(name, &chosen, &handle->channel);
    if (result < 0) {
        free(handle);
        return result;
    }
    handle->is_producer = 1;
    handle->rank = chosen.rank;
    *channel = handle;
    return 0;
}

/* ---- Reclaiming steps from consumers ---- */

/* Returns whether a consumer holds the step or will still get it. The bits are read after the state
 * was set: see channel.h. A consumer that is joining has `seen` 0, which keeps all steps until it
 * has determined its first one. */
static int is_needed(const struct insitu_channel *channel, unsigned entry, uint64_t sequence,
                     int at_end)
{
    uint32_t high = atomic_load(&channel->consumers_high);
    uint64_t latest = atomic_load(&channel->latest) >> 8;
    int may_be_due = !atomic_load(&channel->broken);
    for (unsigned i = 0; i < high; i++) {
        const struct insitu_consumer *consumer = &channel->consumers[i];
        uint32_t active = atomic_load(&consumer->active);
        int is_due = active == 1 + ONESPACE_INSITU_EVERY ||
                     (at_end && active == 1 + ONESPACE_INSITU_LATEST && sequence == latest);
        if (atomic_load(&consumer->holding) & 1u << entry)
            return 1;
        if (may_be_due && is_due && atomic_load(&consumer->seen) < sequence)
            return 1;
    }
    return 0;
}

/* Reclaims the step `sequence` in that entry, unless a consumer holds it or will still get it. With
 * `at_end`, consumers of the latest step will still get the last one. Returns whether the step was
 * reclaimed. */
static int reclaim(const struct onespace_insitu *handle, unsigned entry, uint64_t sequence,
                   int at_end)
{
    struct insitu_channel *channel = handle->channel;
    _Atomic uint64_t *state = &channel->entries[entry].state;
    uint64_t complete = insitu_state(ENTRY_COMPLETE, sequence);
    if (is_needed(channel, entry, sequence, at_end) ||
        !atomic_compare_exchange_strong(state, &complete,
                                        insitu_reclaimed_by(handle->rank, sequence)))
        return 0;
    DELAY("insitu.reclaim");
    if (is_needed(channel, entry, sequence, at_end)) {
        atomic_store(state, insitu_state(ENTRY_COMPLETE, sequence));
        insitu_notify(&channel->step_event); /* a consumer that joined meanwhile did not find it */
        return 0;
    }
    atomic_store(state, insitu_state(ENTRY_FREE, sequence));
    insitu_notify(&channel->entry_event); /* another rank may be closing */
    return 1;
}

/* ---- Beginning a step ----
 *
 * The k-th begin of every rank belongs to round k. The first rank that begins a round decides it
 * for all: it claims the round's word by compare-and-swap, finds an entry, and stores the decision
 * in the word. The claimer may wait for consumers. If its timeout expires it withdraws the claim;
 * if it dies the channel ends. The entry is opened before the decision is stored, so the other
 * ranks find it ready. */

static int entry_try_take(const struct onespace_insitu *handle, unsigned entry)
{
    uint64_t state = atomic_load(&handle->channel->entries[entry].state);
    if (insitu_kind_of(state) == ENTRY_COMPLETE)
        return reclaim(handle, entry, insitu_sequence_of(state), 0);
    return insitu_kind_of(state) == ENTRY_FREE;
}

/* Takes the entry of the oldest copy that no consumer needs. */
static int take_oldest_entry(const struct onespace_insitu *handle)
{
    const struct insitu_channel *channel = handle->channel;
    uint32_t tried = 0;
    for (unsigned tries = 0; tries < channel->depth; tries++) {
        uint64_t oldest = UINT64_MAX;
        int candidate = NO_ENTRY;
        for (unsigned e = 0; e < channel->depth; e++) {
            uint64_t sequence = insitu_sequence_of(atomic_load(&channel->entries[e].state));
            if (!(tried & 1u << e) && sequence < oldest) {
                oldest = sequence;
                candidate = (int)e;
            }
        }
        if (candidate == NO_ENTRY)
            break;
        if (entry_try_take(handle, (unsigned)candidate))
            return candidate;
        tried |= 1u << candidate;
    }
    return NO_ENTRY;
}

static int find_entry(const struct onespace_insitu *handle, uint64_t sequence)
{
    if (handle->channel->policy == ONESPACE_INSITU_COPY)
        return take_oldest_entry(handle);
    int entry = (int)((sequence - 1) % handle->channel->depth);
    return entry_try_take(handle, (unsigned)entry) ? entry : NO_ENTRY;
}

static int has_consumers(const struct insitu_channel *channel, uint32_t least)
{
    uint32_t high = atomic_load(&channel->consumers_high);
    for (unsigned i = 0; i < high && least; i++)
        least -= atomic_load(&channel->consumers[i].active) != 0;
    return least == 0;
}

static void open_entry(struct insitu_channel *channel, unsigned index, uint64_t sequence,
                       uint64_t step)
{
    struct insitu_entry *entry = &channel->entries[index];
    int wanted = channel->policy != ONESPACE_INSITU_COPY || has_consumers(channel, 1);
    atomic_store(&entry->step, step);
    atomic_store(&entry->pending, channel->ranks);
    atomic_store(&entry->wanted, wanted);
    atomic_store(&channel->opened, sequence);
    atomic_store(&entry->state, insitu_state(ENTRY_OPEN, sequence));
}

/* Returns 0 if this rank can publish further steps, else -errno with a message. */
static int check_can_publish(const struct onespace_insitu *handle)
{
    const struct insitu_channel *channel = handle->channel;
    int result = insitu_check_broken(channel);
    if (result < 0)
        return result;
    if (handle->closing || handle->sequence >= atomic_load(&channel->last))
        return insitu_fail(-EPIPE, "channel '%s' is closed: no further step can be complete",
                           channel->name);
    return 0;
}

static int wait_for_entry_event(struct onespace_insitu *handle, struct insitu_wait *wait)
{
    int result = check_can_publish(handle);
    if (result == 0)
        result = insitu_wait_step(wait, &handle->channel->entry_event);
    return result;
}

/* Decides the round that this rank has claimed. Returns the decision or -errno. */
static int decide_round(struct onespace_insitu *handle, struct insitu_round *round, uint64_t step,
                        struct insitu_wait *wait)
{
    struct insitu_channel *channel = handle->channel;
    uint64_t sequence = atomic_load(&channel->opened) + 1;
    int entry, result;
    atomic_store(&round->step, step);
    while ((entry = find_entry(handle, sequence)) == NO_ENTRY) {
        if (channel->policy == ONESPACE_INSITU_SKIP) {
            atomic_fetch_add(&channel->skipped, 1);
            return ROUND_SKIPPED;
        }
        result = wait_for_entry_event(handle, wait);
        if (result < 0)
            return result;
    }
    open_entry(channel, (unsigned)entry, sequence, step);
    return entry;
}

/* Returns whether all ranks have passed the earlier round in round k's entry of the table. */
static int round_is_free(struct onespace_insitu *handle, uint64_t k)
{
    const struct insitu_channel *channel = handle->channel;
    if (k <= INSITU_ROUNDS || handle->slowest >= k - INSITU_ROUNDS)
        return 1;
    handle->slowest = k;
    for (unsigned i = 0; i < channel->ranks; i++) {
        uint64_t rounds = atomic_load(&channel->rank[i].rounds);
        handle->slowest = rounds < handle->slowest ? rounds : handle->slowest;
    }
    return handle->slowest >= k - INSITU_ROUNDS;
}

/* Returns the decision about round k, made by this rank or another; or -errno. */
static int await_round(struct onespace_insitu *handle, uint64_t k, uint64_t step,
                       struct insitu_wait *wait)
{
    struct insitu_round *round = &handle->channel->rounds[k % INSITU_ROUNDS];
    for (;;) {
        uint64_t word = atomic_load(&round->word), claimed = k << 8 | ROUND_CLAIMED;
        if (word >> 8 == k && word != claimed)
            return (int)(word & 0xff);
        if (word != claimed && round_is_free(handle, k) &&
            atomic_compare_exchange_strong(&round->word, &word, claimed)) {
            int decision = decide_round(handle, round, step, wait);
            atomic_store(&round->word, decision < 0 ? word : k << 8 | (uint64_t)decision);
            insitu_notify(&handle->channel->entry_event);
            return decision;
        }
        int result = wait_for_entry_event(handle, wait);
        if (result < 0)
            return result;
    }
}

/* Waits for the other ranks and for the consumers that the channel was created for. */
static int await_members(struct onespace_insitu *handle, struct insitu_wait *wait)
{
    struct insitu_channel *channel = handle->channel;
    while (!handle->started) {
        if (atomic_load(&channel->joined) == channel->ranks &&
            has_consumers(channel, channel->consumers_wanted)) {
            handle->started = 1;
            break;
        }
        int result = wait_for_entry_event(handle, wait);
        if (result < 0)
            return result;
    }
    return 0;
}

static int check_begin(const struct onespace_insitu *handle, uint64_t step)
{
    int result = insitu_check_end(handle, 1);
    if (result < 0)
        return result;
    const char *name = handle->channel->name;
    if (handle->entry != NO_ENTRY)
        return insitu_fail(-EALREADY, "channel '%s': step %llu is not published yet", name,
                           (unsigned long long)handle->number);
    if (handle->has_number && step <= handle->number)
        return insitu_fail(-EINVAL, "channel '%s': step %llu after step %llu: numbers must grow",
                           name, (unsigned long long)step, (unsigned long long)handle->number);
    return check_can_publish(handle);
}

int onespace_insitu_begin(struct onespace_insitu *handle, uint64_t step, int timeout_ms)
{
    int result = check_begin(handle, step);
    struct insitu_wait wait = insitu_wait_init(timeout_ms);
    if (result == 0)
        result = await_members(handle, &wait);
    if (result < 0)
        return result;
    struct insitu_channel *channel = handle->channel;
    struct insitu_rank *rank = &channel->rank[handle->rank];
    uint64_t k = atomic_load_explicit(&rank->rounds, memory_order_relaxed) + 1;
    int decision = await_round(handle, k, step, &wait);
    if (decision < 0)
        return decision;
    uint64_t decided_step = atomic_load(&channel->rounds[k % INSITU_ROUNDS].step);
    if (decided_step != step)
        return insitu_fail(-EINVAL,
                           "channel '%s': rank %u begins step %llu where another rank began step "
                           "%llu: all ranks must begin the same steps",
                           channel->name, handle->rank, (unsigned long long)step,
                           (unsigned long long)decided_step);
    atomic_store(&rank->rounds, k);
    insitu_notify(&channel->entry_event); /* for round_is_free */
    handle->has_number = 1;
    handle->number = step;
    if (decision == ROUND_SKIPPED)
        return 1;
    handle->entry = decision;
    handle->sequence = insitu_sequence_of(atomic_load(&channel->entries[decision].state));
    handle->part = insitu_part(channel, (unsigned)decision, handle->rank);
    handle->part->array_count = handle->part->attribute_count = 0;
    handle->same_names = 1;
    return 0;
}

/* ---- Publishing ---- */

/* The order of the stores matters: a consumer that sees `latest` sees the state, and one that sees
 * `complete` reach `last` finds the last step when it looks again. */
static void complete_step(struct insitu_channel *channel, unsigned index, uint64_t sequence)
{
    struct insitu_entry *entry = &channel->entries[index];
    if (atomic_load_explicit(&entry->wanted, memory_order_relaxed)) {
        /* Release, pairs with the load of `latest` in take_available, which then sees the parts. */
        atomic_store_explicit(&entry->state, insitu_state(ENTRY_COMPLETE, sequence),
                              memory_order_release);
        atomic_store(&channel->latest, index | sequence << 8);
    } else {
        atomic_store(&entry->state, insitu_state(ENTRY_FREE, sequence));
    }
    atomic_store(&channel->complete, sequence);
    insitu_notify(&channel->step_event);
    insitu_notify(&channel->entry_event);
}

int onespace_insitu_publish(struct onespace_insitu *handle)
{
    int result = insitu_check_end(handle, 1);
    if (result < 0)
        return result;
    struct insitu_channel *channel = handle->channel;
    if (handle->entry == NO_ENTRY)
        return insitu_fail(-ENOENT, "channel '%s': no step was begun", channel->name);
    struct insitu_entry *entry = &channel->entries[handle->entry];
    result = insitu_check_broken(channel);
    if (result == 0 && channel->policy == ONESPACE_INSITU_COPY && atomic_load(&entry->wanted))
        result = insitu_part_copy(handle->part);
    if (result < 0)
        return result;
    atomic_store_explicit(&channel->rank[handle->rank].published, handle->sequence,
                          memory_order_relaxed);
    unsigned index = (unsigned)handle->entry;
    handle->entry = NO_ENTRY;
    /* Acquire and release: the parts of all ranks are published by the last one's store of the
     * state. */
    if (atomic_fetch_sub_explicit(&entry->pending, 1, memory_order_acq_rel) == 1)
        complete_step(channel, index, handle->sequence);
    return 0;
}

/* ---- Reclaiming the last step ---- */

/* Returns 1 if no consumer has or will find the step; 0: not yet; or -errno. */
static int try_reclaim(const struct onespace_insitu *handle)
{
    const struct insitu_channel *channel = handle->channel;
    const uint64_t sequence = handle->sequence;
    for (unsigned e = 0; e < channel->depth; e++) {
        uint64_t state = atomic_load(&channel->entries[e].state);
        enum insitu_entry_kind kind = insitu_kind_of(state);
        if (insitu_sequence_of(state) != sequence || kind == ENTRY_FREE)
            continue;
        if (kind == ENTRY_OPEN && sequence > atomic_load(&channel->last))
            return 1; /* a rank has closed without publishing it: it will never be complete */
        int result = kind == ENTRY_OPEN ? insitu_check_broken(channel) : 0;
        if (result < 0)
            return result;
        return kind == ENTRY_COMPLETE && reclaim(handle, e, sequence, 1);
    }
    return 1; /* another rank reclaimed it, or the entry has a later step */
}

int onespace_insitu_reclaim(struct onespace_insitu *handle, int timeout_ms)
{
    int result = insitu_check_end(handle, 1);
    if (result < 0)
        return result;
    struct insitu_channel *channel = handle->channel;
    if (handle->entry != NO_ENTRY)
        return insitu_fail(-EALREADY, "channel '%s': step %llu is not published yet", channel->name,
                           (unsigned long long)handle->number);
    if (handle->sequence == 0)
        return insitu_fail(-ENOENT, "channel '%s': no step was published", channel->name);
    struct insitu_wait wait = insitu_wait_init(timeout_ms);
    while ((result = try_reclaim(handle)) == 0) {
        result = insitu_wait_step(&wait, &channel->entry_event);
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
    insitu_notify(&channel->step_event);
    insitu_notify(&channel->entry_event);
}

/* Returns whether all steps with this rank's arrays were reclaimed. */
static int all_reclaimed(struct onespace_insitu *handle)
{
    struct insitu_channel *channel = handle->channel;
    uint64_t last = atomic_load(&channel->last);
    int is_broken = atomic_load(&channel->broken) != 0;
    for (unsigned e = 0; e < channel->depth; e++) {
        uint64_t state = atomic_load(&channel->entries[e].state);
        uint64_t sequence = insitu_sequence_of(state);
        enum insitu_entry_kind kind = insitu_kind_of(state);
        if (kind == ENTRY_FREE || sequence > last || (kind == ENTRY_OPEN && is_broken))
            continue;
        if (kind != ENTRY_COMPLETE || !reclaim(handle, e, sequence, 1))
            return 0;
    }
    return 1;
}

static void free_copies(struct onespace_insitu *handle)
{
    for (unsigned e = 0; e < handle->channel->depth; e++)
        insitu_copy_free(insitu_part(handle->channel, e, handle->rank));
}

int insitu_close_producer(struct onespace_insitu *handle, int timeout_ms)
{
    struct insitu_channel *channel = handle->channel;
    struct insitu_wait wait = insitu_wait_init(timeout_ms);
    if (!handle->closing)
        announce_end(handle);
    while (!all_reclaimed(handle)) {
        int result = insitu_wait_step(&wait, &channel->entry_event);
        if (result < 0)
            return result;
    }
    if (channel->policy == ONESPACE_INSITU_COPY)
        free_copies(handle);
    atomic_store(&channel->rank[handle->rank].owner, 0);
    insitu_notify(&channel->step_event);
    insitu_channel_try_free(channel, slot_index(handle->space, handle->self));
    free(handle);
    return 0;
}
