/* src/insitu/channel.c: the table of channels: map it, create channels and find them by name,
 * handles, and waits.
 *
 * Members that create channels exclude one another by the table's lock, so that names are unique.
 * The reaper unlocks it if its owner has died. Channels are found without the lock. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw.h"
#include "insitu/insitu.h"
#include "onespace.h"
#include "space/member.h"

/* ---- Messages ---- */

static _Thread_local char message[512];

int insitu_fail(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return error;
}

const char *onespace_insitu_message(void)
{
    return message;
}

/* ---- Waiting ---- */

/* A waiter spins for as long as a step takes to be passed back and forth, and sleeps after that.
 * Waking it costs the other side a system call, and on a virtual machine much more. */
enum { SPIN_NS = 100 * 1000, NAP_LIMIT_NS = 10 * 1000 * 1000 };

static void arm(struct insitu_wait *wait, struct insitu_event *event)
{
    wait->generation = atomic_load(&event->generation);
    atomic_store(&event->has_waiter, 1);
    wait->is_armed = 1;
}

int insitu_sleep(const _Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
    uint64_t reaper_check = futex_deadline(INSITU_REAPER_CHECK_MS);
    futex_wait(word, seen, deadline < reaper_check ? deadline : reaper_check);
    return reaper_is_alive(space_registry())
               ? 0
               : insitu_fail(-EOWNERDEAD, "the reaper of the space was killed");
}

static int sleep_on_event(struct insitu_wait *wait, struct insitu_event *event)
{
    int result = insitu_sleep(&event->generation, wait->generation, wait->deadline);
    /* The caller tests its condition once more after the deadline. */
    wait->is_over = wait->deadline != UINT64_MAX && futex_now_ns() >= wait->deadline;
    return result;
}

/* Naps and returns 1 if naps are allowed and their time is not over; else returns 0. */
static int nap(struct insitu_wait *wait)
{
    static const uint32_t unchanging;
    uint64_t now = futex_now_ns(), waited = now - wait->spin.began, end = now + waited / 4;
    if (!wait->may_nap || wait->is_armed || waited > NAP_LIMIT_NS)
        return 0;
    futex_wait(&unchanging, 0, end < wait->deadline ? end : wait->deadline);
    wait->is_over = end >= wait->deadline;
    return 1;
}

int insitu_wait_step(struct insitu_wait *wait, struct insitu_event *event)
{
    int result = 0;
    if (wait->timeout_ms == 0 || wait->is_over)
        return -ETIMEDOUT;
    if (wait->spin.count == 0)
        wait->deadline = futex_deadline(wait->timeout_ms);
    if (!wait->is_armed && spin_pause_ns(&wait->spin, SPIN_NS))
        return 0;
    if (nap(wait))
        return 0;
    if (wait->is_armed)
        result = sleep_on_event(wait, event);
    arm(wait, event);
    return result;
}

/* ---- The table ---- */

int insitu_map_table(void)
{
    struct space *space = space_mine();
    if (!space)
        return insitu_fail(-EPERM,
                           "the caller is not a member of a space: call onespace_init first");
    if (force_libc_locking() < 0)
        return insitu_fail(-EAGAIN, "no thread can be created: raise the limit of processes");
    long result = shared_table_map(&space->insitu, LAYOUT_INSITU, INSITU_MAGIC,
                                   sizeof(struct insitu_table), "channel table", space->library);
    if (result == -EPROTO)
        return insitu_fail(-EPROTO, "the space's channels are of another version of onespace: "
                                    "install one version for all programs");
    if (result < 0)
        return insitu_fail(-ENOMEM, "the space has no memory for channels: %s: see docs/memory.md",
                           strerror((int)-result));
    return 0;
}

int insitu_check_name(const char *what, const char *name)
{
    if (!name || !*name)
        return insitu_fail(-EINVAL, "%s has no name: give it one", what);
    if (strnlen(name, INSITU_NAME) == INSITU_NAME)
        return insitu_fail(-ENAMETOOLONG, "%s '%.20s...' has a name of more than %d bytes", what,
                           name, ONESPACE_INSITU_NAME_MAX);
    return 0;
}

int insitu_check_end(const struct onespace_insitu *handle, int is_producer)
{
    if (!space_mine())
        return insitu_fail(-EPERM, "the caller is not a member of the space");
    if (!handle || handle->is_producer != is_producer)
        return insitu_fail(-EINVAL, "this handle is not a %s's",
                           is_producer ? "producer" : "consumer");
    return 0;
}

int insitu_check_broken(const struct insitu_channel *channel)
{
    uint32_t broken = atomic_load(&channel->broken);
    return broken ? insitu_fail(-EOWNERDEAD,
                                "channel '%s' has ended: task %u, which produced for it, has died",
                                channel->name, broken - 1)
                  : 0;
}

int insitu_channel_is_open(const struct insitu_channel *channel)
{
    return channel_kind(atomic_load(&channel->state)) == CHANNEL_LIVE &&
           !atomic_load(&channel->broken) && atomic_load(&channel->last) == UINT64_MAX;
}

struct insitu_channel *insitu_channel_find(const char *name, uint64_t *state)
{
    struct insitu_table *table = insitu_table();
    uint32_t high = atomic_load(&table->high);
    for (unsigned i = 0; i < high; i++) {
        *state = atomic_load(&table->channels[i].state);
        if (insitu_channel_is_open(&table->channels[i]) &&
            strncmp(table->channels[i].name, name, INSITU_NAME) == 0)
            return &table->channels[i];
    }
    return NULL;
}

static int lock_table(struct insitu_table *table, uint32_t me)
{
    for (uint32_t owner = 0; !atomic_compare_exchange_strong(&table->lock, &owner, me); owner = 0) {
        int result = insitu_sleep(&table->lock, owner, UINT64_MAX);
        if (result < 0)
            return result;
    }
    return 0;
}

static void unlock_table(struct insitu_table *table)
{
    atomic_store(&table->lock, 0);
    futex_wake(&table->lock, 1);
}

/* Claims a free channel, or returns NULL. */
static struct insitu_channel *claim_channel(struct insitu_table *table, unsigned slot)
{
    for (unsigned i = 0; i < ONESPACE_INSITU_CHANNELS; i++) {
        struct insitu_channel *channel = &table->channels[i];
        uint64_t state = atomic_load(&channel->state);
        if (channel_kind(state) != CHANNEL_FREE)
            continue;
        /* The lock is held, so stores suffice. `high` first, so that the reaper finds the claim. */
        if (atomic_load(&table->high) <= i)
            atomic_store(&table->high, i + 1);
        uint64_t use = (state >> CHANNEL_USE_SHIFT) + 1;
        atomic_store(&channel->state, use << CHANNEL_USE_SHIFT |
                                          (uint64_t)slot << CHANNEL_SLOT_SHIFT | CHANNEL_CLAIMED);
        return channel;
    }
    return NULL;
}

static void init_channel(struct insitu_channel *channel, const char *name,
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

static int create(struct insitu_table *table, const char *name,
                  const struct onespace_insitu_options *options, unsigned slot, uint32_t me,
                  struct insitu_channel **created)
{
    struct insitu_channel *channel = claim_channel(table, slot);
    if (!channel)
        return insitu_fail(-ENOSPC,
                           "channel '%s': the space has %d channels already: close some first",
                           name, ONESPACE_INSITU_CHANNELS);
    uint64_t state = atomic_load(&channel->state);
    uint64_t use = channel_use(state);
    long result =
        raw(__NR_mmap, insitu_area(channel),
            (uint64_t)options->depth * options->ranks * INSITU_PART_BYTES, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result)) {
        atomic_store(&channel->state, use | CHANNEL_FREE);
        return insitu_fail(-ENOMEM, "channel '%s': no memory for the descriptions of its arrays",
                           name);
    }
    init_channel(channel, name, options);
    atomic_store(&channel->rank[options->rank].owner, me);
    atomic_store(&channel->joined, 1);
    atomic_store(&channel->state, use | CHANNEL_LIVE);
    *created = channel;
    return 0;
}

static int check_same_options(const struct insitu_channel *channel,
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

/* Joins as one of the ranks: 0; -EAGAIN if the channel has ended meanwhile. *has_left: the caller
 * may have been its last owner. */
static int join(struct insitu_channel *channel, uint64_t state,
                const struct onespace_insitu_options *options, uint32_t me, int *has_left)
{
    struct insitu_rank *rank = &channel->rank[options->rank];
    uint32_t owner = atomic_load(&rank->owner);
    if (channel->ranks == 1 && options->ranks == 1) {
        if (!owner) /* the rank has left, and before that the channel was closed or broken */
            return -EAGAIN;
        return insitu_fail(-EEXIST,
                           "channel '%s' already belongs to task %u: choose another name, or close "
                           "that channel first",
                           channel->name, owner - 1);
    }
    int result = check_same_options(channel, options);
    if (result < 0)
        return result;
    if (owner || !atomic_compare_exchange_strong(&rank->owner, &owner, me))
        return insitu_fail(-EEXIST,
                           "rank %u of channel '%s' is task %u: give each rank a number of its own",
                           options->rank, channel->name, owner - 1);
    if (atomic_load(&channel->state) != state || !insitu_channel_is_open(channel)) {
        atomic_store(&rank->owner, 0);
        *has_left = 1;
        return -EAGAIN;
    }
    atomic_fetch_add(&channel->joined, 1);
    insitu_notify(&channel->entry_event);
    return 0;
}

int insitu_channel_create(const char *name, const struct onespace_insitu_options *options,
                          struct insitu_channel **channel)
{
    struct insitu_table *table = insitu_table();
    struct space_slot *self = space_self();
    uint32_t me = (uint32_t)atomic_load(&self->id) + 1;
    unsigned slot = slot_index(space_registry(), self);
    int result;
    do {
        int has_left = 0;
        uint64_t state;
        if ((result = lock_table(table, me)) < 0)
            return result;
        struct insitu_channel *found = insitu_channel_find(name, &state);
        result = found ? join(found, state, options, me, &has_left)
                       : create(table, name, options, slot, me, &found);
        unlock_table(table);
        if (has_left)
            insitu_channel_try_free(found, slot); /* may wait for members that have registered it */
        if (result == 0)
            *channel = found;
    } while (result == -EAGAIN);
    if (result == 0)
        futex_bump(&table->names);
    return result;
}

/* ---- Handles ---- */

struct onespace_insitu *insitu_handle_new(unsigned ranks)
{
    struct onespace_insitu *handle = calloc(1, sizeof(*handle) + ranks * sizeof(handle->owners[0]));
    if (!handle) {
        insitu_fail(-ENOMEM, "no memory for a channel's handle");
        return NULL;
    }
    handle->space = space_mine();
    handle->self = space_self();
    handle->entry = NO_ENTRY;
    return handle;
}

int onespace_insitu_close(struct onespace_insitu *handle, int timeout_ms)
{
    if (!handle)
        return 0;
    if (!space_mine())
        return insitu_fail(-EPERM, "the caller is not a member of the space");
    return handle->is_producer ? insitu_close_producer(handle, timeout_ms)
                               : insitu_close_consumer(handle);
}
