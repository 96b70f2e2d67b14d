/* src/insitu/round.c: begin a step: which entry it gets, and when.
 *
 * The k-th begin of every rank belongs to round k. The first rank that begins a round decides it
 * for all: it claims the round's word by compare-and-swap, finds an entry, and stores the decision
 * in the word. The claimer may wait for consumers; if its timeout expires it withdraws the claim,
 * and if it dies the channel ends. The entry is opened before the decision is stored, so the other
 * ranks find it ready. */
#include "insitu/handle.h"

#include <errno.h>

#include "insitu/wake.h"

/* ---- Reclaiming steps from consumers ---- */

/* Whether a consumer holds the step or is still to get it. The bits are read after the state was
 * set: see channel.h. A consumer that has just come has `seen` 0, which keeps all steps until it
 * has determined where it begins. */
static int is_needed(const struct insitu_channel *channel, unsigned entry, uint64_t sequence,
                     int at_end)
{
    uint32_t high = atomic_load(&channel->consumers_high);
    uint64_t latest = atomic_load(&channel->latest) >> 8;
    int may_be_owed = !atomic_load(&channel->broken);
    for (unsigned i = 0; i < high; i++) {
        const struct insitu_consumer *consumer = &channel->consumers[i];
        uint32_t active = atomic_load(&consumer->active);
        int is_owed = active == 1 + ONESPACE_INSITU_EVERY ||
                      (at_end && active == 1 + ONESPACE_INSITU_LATEST && sequence == latest);
        if (atomic_load(&consumer->holding) & 1u << entry)
            return 1;
        if (may_be_owed && is_owed && atomic_load(&consumer->seen) < sequence)
            return 1;
    }
    return 0;
}

int insitu_reclaim(struct insitu_channel *channel, unsigned entry, uint64_t sequence, int at_end)
{
    _Atomic uint64_t *state = &channel->entries[entry].state;
    uint64_t complete = insitu_state(ENTRY_COMPLETE, sequence);
    if (is_needed(channel, entry, sequence, at_end) ||
        !atomic_compare_exchange_strong(state, &complete, insitu_state(ENTRY_RECLAIMED, sequence)))
        return 0;
    if (is_needed(channel, entry, sequence, at_end)) {
        atomic_store(state, insitu_state(ENTRY_COMPLETE, sequence));
        insitu_ring(&channel->news); /* a consumer that came meanwhile did not find it */
        return 0;
    }
    atomic_store(state, insitu_state(ENTRY_FREE, sequence));
    insitu_ring(&channel->freed); /* another rank may be closing */
    return 1;
}

/* ---- Deciding a round ---- */

static int take_entry(struct insitu_channel *channel, unsigned entry)
{
    uint64_t state = atomic_load(&channel->entries[entry].state);
    if ((state & 0xff) == ENTRY_COMPLETE)
        return insitu_reclaim(channel, entry, state >> 8, 0);
    return (state & 0xff) == ENTRY_FREE;
}

/* The entry of the oldest copy that no consumer needs. */
static int take_any_entry(struct insitu_channel *channel)
{
    uint32_t tried = 0;
    for (unsigned tries = 0; tries < channel->depth; tries++) {
        uint64_t oldest = UINT64_MAX;
        int candidate = NO_ENTRY;
        for (unsigned e = 0; e < channel->depth; e++) {
            uint64_t sequence = atomic_load(&channel->entries[e].state) >> 8;
            if (!(tried & 1u << e) && sequence < oldest) {
                oldest = sequence;
                candidate = (int)e;
            }
        }
        if (candidate == NO_ENTRY)
            break;
        if (take_entry(channel, (unsigned)candidate))
            return candidate;
        tried |= 1u << candidate;
    }
    return NO_ENTRY;
}

static int find_entry(struct insitu_channel *channel, uint64_t sequence)
{
    if (channel->policy == ONESPACE_INSITU_COPY)
        return take_any_entry(channel);
    int entry = (int)((sequence - 1) % channel->depth);
    return take_entry(channel, (unsigned)entry) ? entry : NO_ENTRY;
}

static int has_consumers(const struct insitu_channel *channel, uint32_t least)
{
    uint32_t high = atomic_load(&channel->consumers_high);
    for (unsigned i = 0; i < high && least; i++)
        least -= atomic_load(&channel->consumers[i].active) != 0;
    return least == 0;
}

static void open_entry(struct insitu_channel *channel, unsigned at, uint64_t sequence,
                       uint64_t step)
{
    struct insitu_entry *entry = &channel->entries[at];
    int wanted = channel->policy != ONESPACE_INSITU_COPY || has_consumers(channel, 1);
    atomic_store(&entry->step, step);
    atomic_store(&entry->pending, channel->ranks);
    atomic_store(&entry->wanted, wanted);
    atomic_store(&channel->opened, sequence);
    atomic_store(&entry->state, insitu_state(ENTRY_OPEN, sequence));
}

/* 0 if this rank can publish further steps, else -errno with a message. */
static int check_goes_on(const struct onespace_insitu *handle)
{
    const struct insitu_channel *channel = handle->channel;
    uint32_t broken = atomic_load(&channel->broken);
    if (broken)
        return insitu_fail(-EOWNERDEAD,
                           "channel '%s' has ended: task %u, which produced for it, has died",
                           channel->name, broken - 1);
    if (handle->closing || handle->sequence >= atomic_load(&channel->last))
        return insitu_fail(-EPIPE, "channel '%s' is closed: no further step can be complete",
                           channel->name);
    return 0;
}

static int wait_more(struct onespace_insitu *handle, struct insitu_wait *wait)
{
    int result = check_goes_on(handle);
    if (result == 0)
        result = insitu_wait_more(wait, &handle->channel->freed);
    return result;
}

/* Called by the rank that has claimed the round: the decision, or -errno. */
static int decide(struct onespace_insitu *handle, struct insitu_round *round, uint64_t step,
                  struct insitu_wait *wait)
{
    struct insitu_channel *channel = handle->channel;
    uint64_t sequence = atomic_load(&channel->opened) + 1;
    int entry, result;
    atomic_store(&round->step, step);
    while ((entry = find_entry(channel, sequence)) == NO_ENTRY) {
        if (channel->policy == ONESPACE_INSITU_SKIP) {
            atomic_fetch_add(&channel->skipped, 1);
            return ROUND_SKIPPED;
        }
        result = wait_more(handle, wait);
        if (result < 0)
            return result;
    }
    open_entry(channel, (unsigned)entry, sequence, step);
    return entry;
}

/* Whether all ranks have passed the round that had the place of round k in the table before. */
static int place_is_free(struct onespace_insitu *handle, uint64_t k)
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

/* The decision about round k, made by this rank or another; or -errno. */
static int await_round(struct onespace_insitu *handle, uint64_t k, uint64_t step,
                       struct insitu_wait *wait)
{
    struct insitu_round *round = &handle->channel->rounds[k % INSITU_ROUNDS];
    for (;;) {
        uint64_t word = atomic_load(&round->word), claimed = k << 8 | ROUND_CLAIMED;
        if (word >> 8 == k && word != claimed)
            return (int)(word & 0xff);
        if (word != claimed && place_is_free(handle, k) &&
            atomic_compare_exchange_strong(&round->word, &word, claimed)) {
            int decision = decide(handle, round, step, wait);
            atomic_store(&round->word, decision < 0 ? word : k << 8 | (uint64_t)decision);
            insitu_ring(&handle->channel->freed);
            return decision;
        }
        int result = wait_more(handle, wait);
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
        int result = wait_more(handle, wait);
        if (result < 0)
            return result;
    }
    return 0;
}

static int check_begin(const struct onespace_insitu *handle, uint64_t step)
{
    int result = insitu_check_producer(handle);
    if (result < 0)
        return result;
    const char *name = handle->channel->name;
    if (handle->entry != NO_ENTRY)
        return insitu_fail(-EALREADY, "channel '%s': step %llu is not published yet", name,
                           (unsigned long long)handle->number);
    if (handle->has_number && step <= handle->number)
        return insitu_fail(-EINVAL, "channel '%s': step %llu after step %llu: numbers must grow",
                           name, (unsigned long long)step, (unsigned long long)handle->number);
    return check_goes_on(handle);
}

int onespace_insitu_begin(struct onespace_insitu *handle, uint64_t step, int timeout_ms)
{
    int result = check_begin(handle, step);
    struct insitu_wait wait = insitu_wait_begin(timeout_ms);
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
    uint64_t others = atomic_load(&channel->rounds[k % INSITU_ROUNDS].step);
    if (others != step)
        return insitu_fail(-EINVAL,
                           "channel '%s': rank %u begins step %llu where another rank began step "
                           "%llu: all ranks must begin the same steps",
                           channel->name, handle->rank, (unsigned long long)step,
                           (unsigned long long)others);
    atomic_store(&rank->rounds, k);
    insitu_ring(&channel->freed); /* for place_is_free */
    handle->has_number = 1;
    handle->number = step;
    if (decision == ROUND_SKIPPED)
        return 1;
    handle->entry = decision;
    handle->sequence = atomic_load(&channel->entries[decision].state) >> 8;
    handle->part = insitu_part(channel, (unsigned)decision, handle->rank);
    handle->part->array_count = handle->part->attribute_count = 0;
    handle->names_repeat = 1;
    return 0;
}
