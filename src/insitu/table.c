/* src/insitu/table.c: make channels and find them by name.
 *
 * Members that make channels exclude one another by the table's lock, so that names are unique; the
 * reaper unlocks it if its owner has died. Channels are found without the lock. */
#include "insitu/table.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "insitu/handle.h"
#include "insitu/wake.h"
#include "space/member.h"

int insitu_check_name(const char *what, const char *name)
{
    if (!name || !*name)
        return insitu_fail(-EINVAL, "%s has no name: give it one", what);
    if (strnlen(name, INSITU_NAME) == INSITU_NAME)
        return insitu_fail(-ENAMETOOLONG, "%s '%.20s...' has a name of more than %d bytes", what,
                           name, ONESPACE_INSITU_NAME_MAX);
    return 0;
}

static uint64_t kind_of(uint64_t state)
{
    return state & CHANNEL_KIND_MASK;
}

int insitu_is_open(const struct insitu_channel *channel)
{
    return kind_of(atomic_load(&channel->state)) == CHANNEL_LIVE &&
           !atomic_load(&channel->broken) && atomic_load(&channel->last) == UINT64_MAX;
}

struct insitu_channel *insitu_find(const char *name)
{
    struct insitu_table *table = insitu_table();
    uint32_t high = atomic_load(&table->high);
    for (unsigned i = 0; i < high; i++)
        if (insitu_is_open(&table->channels[i]) &&
            strncmp(table->channels[i].name, name, INSITU_NAME) == 0)
            return &table->channels[i];
    return NULL;
}

static int lock_table(struct insitu_table *table, uint32_t me)
{
    for (uint32_t seen = 0; !atomic_compare_exchange_strong(&table->lock, &seen, me); seen = 0) {
        futex_wait(&table->lock, seen, futex_deadline(INSITU_SLICE_MS));
        if (!reaper_is_alive(space_registry()))
            return insitu_fail(-EOWNERDEAD, "the reaper of the space was killed");
    }
    return 0;
}

static void unlock_table(struct insitu_table *table)
{
    atomic_store(&table->lock, 0);
    futex_wake(&table->lock, 1);
}

/* A free channel, now CLAIMED; or NULL. */
static struct insitu_channel *claim(struct insitu_table *table, unsigned slot)
{
    for (unsigned i = 0; i < ONESPACE_INSITU_CHANNELS; i++) {
        struct insitu_channel *channel = &table->channels[i];
        uint64_t state = atomic_load(&channel->state);
        if (kind_of(state) != CHANNEL_FREE)
            continue;
        /* Stores suffice, since we have the lock. `high` first, so that the reaper finds the claim.
         */
        if (atomic_load(&table->high) <= i)
            atomic_store(&table->high, i + 1);
        uint64_t use = (state >> CHANNEL_USE_SHIFT) + 1;
        atomic_store(&channel->state, use << CHANNEL_USE_SHIFT |
                                          (uint64_t)slot << CHANNEL_SLOT_SHIFT | CHANNEL_CLAIMED);
        return channel;
    }
    return NULL;
}

static void fill(struct insitu_channel *channel, const char *name,
                 const struct onespace_insitu_options *options)
{
    channel->policy = (uint32_t)options->policy;
    channel->depth = options->depth;
    channel->ranks = options->ranks;
    channel->consumers_wanted = options->consumers;
    strcpy(channel->name, name);
    atomic_store(&channel->joined, 0);
    atomic_store(&channel->consumers_high, 0);
    atomic_store(&channel->latest, 0);
    atomic_store(&channel->complete, 0);
    atomic_store(&channel->last, UINT64_MAX);
    atomic_store(&channel->broken, 0);
    atomic_store(&channel->opened, 0);
    atomic_store(&channel->skipped, 0);
    for (unsigned i = 0; i < INSITU_ENTRIES; i++)
        atomic_store(&channel->entries[i].state, 0);
    for (unsigned i = 0; i < INSITU_ROUNDS; i++)
        atomic_store(&channel->rounds[i].word, 0);
    for (unsigned i = 0; i < options->ranks; i++) {
        atomic_store(&channel->rank[i].closed, 0);
        atomic_store(&channel->rank[i].rounds, 0);
        atomic_store(&channel->rank[i].published, 0);
    }
}

static int make(struct insitu_table *table, const char *name,
                const struct onespace_insitu_options *options, unsigned slot, uint32_t me,
                struct insitu_channel **made)
{
    struct insitu_channel *channel = claim(table, slot);
    if (!channel)
        return insitu_fail(-ENOSPC,
                           "channel '%s': the space has %d channels already: close some first",
                           name, ONESPACE_INSITU_CHANNELS);
    uint64_t state = atomic_load(&channel->state);
    uint64_t use = state >> CHANNEL_USE_SHIFT << CHANNEL_USE_SHIFT;
    long result =
        raw(__NR_mmap, insitu_area(channel),
            (uint64_t)options->depth * options->ranks * INSITU_PART_BYTES, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result)) {
        atomic_store(&channel->state, use | CHANNEL_FREE);
        return insitu_fail(-ENOMEM, "channel '%s': no memory for the descriptions of its arrays",
                           name);
    }
    fill(channel, name, options);
    atomic_store(&channel->rank[options->rank].owner, me);
    atomic_store(&channel->joined, 1);
    atomic_store(&channel->state, use | CHANNEL_LIVE);
    *made = channel;
    return 0;
}

static int check_alike(const struct insitu_channel *channel,
                       const struct onespace_insitu_options *options)
{
    if (channel->ranks == options->ranks && channel->policy == (uint32_t)options->policy &&
        channel->depth == options->depth && channel->consumers_wanted == options->consumers)
        return 0;
    return insitu_fail(-EINVAL,
                       "channel '%s' was made with %u ranks, policy %u, depth %u and %u consumers, "
                       "but rank %u says %u, %d, %u and %u: all ranks must say the same",
                       channel->name, channel->ranks, channel->policy, channel->depth,
                       channel->consumers_wanted, options->rank, options->ranks, options->policy,
                       options->depth, options->consumers);
}

/* 0; -EAGAIN if the channel has ended meanwhile. */
static int join(struct insitu_channel *channel, const struct onespace_insitu_options *options,
                uint32_t me)
{
    struct insitu_rank *rank = &channel->rank[options->rank];
    uint64_t state = atomic_load(&channel->state);
    uint32_t owner = atomic_load(&rank->owner);
    if (channel->ranks == 1 && options->ranks == 1)
        return insitu_fail(-EEXIST,
                           "channel '%s' is task %u's: take another name, or close that one first",
                           channel->name, owner - 1);
    int result = check_alike(channel, options);
    if (result < 0)
        return result;
    if (owner || !atomic_compare_exchange_strong(&rank->owner, &owner, me))
        return insitu_fail(-EEXIST, "rank %u of channel '%s' is task %u: number the ranks apart",
                           options->rank, channel->name, owner - 1);
    if (atomic_load(&channel->state) != state || !insitu_is_open(channel)) {
        atomic_store(&rank->owner, 0);
        insitu_try_free(channel, slot_index(space_registry(), space_self()));
        return -EAGAIN;
    }
    atomic_fetch_add(&channel->joined, 1);
    insitu_ring(&channel->freed);
    return 0;
}

int insitu_make_or_join(const char *name, const struct onespace_insitu_options *options,
                        struct insitu_channel **channel)
{
    struct insitu_table *table = insitu_table();
    struct space_slot *self = space_self();
    uint32_t me = (uint32_t)atomic_load(&self->id) + 1;
    int result = lock_table(table, me);
    if (result < 0)
        return result;
    do {
        struct insitu_channel *found = insitu_find(name);
        result = found ? join(found, options, me)
                       : make(table, name, options, slot_index(space_registry(), self), me, &found);
        if (result == 0)
            *channel = found;
    } while (result == -EAGAIN);
    unlock_table(table);
    if (result == 0)
        futex_bump(&table->names);
    return result;
}
