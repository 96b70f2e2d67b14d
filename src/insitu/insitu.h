/* src/insitu/insitu.h: the internals of channels: waiting, handles, and the functions of each file.
 */
#ifndef ONESPACE_INSITU_INSITU_H
#define ONESPACE_INSITU_INSITU_H

#include "base/futex.h"
#include "insitu/channel.h"

/* The hooks of this layer (space/member.h): when a member has ended, its steps are released and the
 * channels that it produced for end. */
extern const struct member_hooks insitu_hooks;

/* ---- Waiting for an event of a channel ----
 *
 * A waiter sets `has_waiter`, tests its condition once more and sleeps while `generation` is
 * unchanged. A member that changes the condition reads `has_waiter` afterwards, and wakes all
 * waiters if it is set. All accesses are sequentially consistent, so at least one side sees the
 * other. A sleeper that died with `has_waiter` set causes one needless wake-up. Freestanding. */

enum {
    INSITU_REAPER_CHECK_MS = 1000, /* waiters check that often that the reaper lives */
};

static inline void insitu_notify(struct insitu_event *event)
{
    if (!atomic_load(&event->has_waiter))
        return;
    atomic_store(&event->has_waiter, 0);
    atomic_fetch_add(&event->generation, 1);
    futex_wake(&event->generation, INT32_MAX);
}

/* A wait: initialised once; the caller calls insitu_wait_step while its condition does not hold.
 * With `may_nap` the waiter polls for some ms between spinning and sleeping. Each nap lasts a
 * quarter of the time waited so far, so the change is seen at most that much later. Napping saves
 * the other side the wake-up, which may cost more than a step of a small simulation. */
struct insitu_wait {
    int timeout_ms, may_nap;
    struct spin spin;
    uint64_t deadline; /* set at the first spin, so that a wait that ends at once reads no clock */
    uint32_t generation; /* of the event before the condition was last tested */
    int is_armed, is_over;
};

static inline struct insitu_wait insitu_wait_init(int timeout_ms)
{
    return (struct insitu_wait){.timeout_ms = timeout_ms};
}

/* 0: test the condition again. -ETIMEDOUT; -EOWNERDEAD: the reaper was killed. */
int insitu_wait_step(struct insitu_wait *wait, struct insitu_event *event);

/* Sleeps while the word has that value, until the deadline or the next check of the reaper. 0, or
 * -EOWNERDEAD with a message: the reaper was killed. */
int insitu_sleep(const _Atomic uint32_t *word, uint32_t seen, uint64_t deadline);

/* ---- A member's end of a channel ---- */

enum { NO_ENTRY = -1 };

struct onespace_insitu {
    struct space *space;
    struct space_slot *self;
    struct insitu_channel *channel;
    int is_producer;

    /* A producer's. */
    unsigned rank;
    int started, closing, has_number;
    int entry;      /* of the step that was begun, or NO_ENTRY */
    int same_names; /* its arrays so far have the names of those of the entry's last step */
    struct insitu_part *part; /* its part */
    uint64_t sequence, number;
    uint64_t slowest; /* a lower bound of all ranks' rounds, raised when it is too low */

    /* A consumer's. */
    struct insitu_consumer *consumer;
    int mode;
    uint64_t held[INSITU_ENTRIES]; /* sequence number of the step held in the entry, or 0 */
    unsigned owner_count;
    int owners[]; /* ids of the ranks whose memory is held */
};

/* Formats the calling thread's message and returns `error`. */
__attribute__((format(printf, 2, 3))) int insitu_fail(int error, const char *format, ...);

/* ---- channel.c ---- */
/* Maps the table of channels unless it is mapped. Must precede all other functions. 0, -EPERM,
 * -EAGAIN or -ENOMEM, with a message. */
int insitu_map_table(void);
/* Allocates a handle of the calling member with space for the ids of `ranks` ranks; NULL with a
 * message. */
struct onespace_insitu *insitu_handle_new(unsigned ranks);

/* 0, -EINVAL or -ENAMETOOLONG, with a message about `what`. */
int insitu_check_name(const char *what, const char *name);
/* Checks that the caller is a member and the handle a producer's or a consumer's: 0, -EPERM or
 * -EINVAL, with a message. */
int insitu_check_end(const struct onespace_insitu *handle, int is_producer);
/* 0, or -EOWNERDEAD with a message: a producer of the channel has died. */
int insitu_check_broken(const struct insitu_channel *channel);
/* Returns whether further steps are possible. Until then the channel owns its name. */
int insitu_channel_is_open(const struct insitu_channel *channel);
/* Returns the channel of that name that can be opened or joined, or NULL. *state is its state, read
 * before the name: as long as it is the same, it is that channel. */
struct insitu_channel *insitu_channel_find(const char *name, uint64_t *state);
/* Creates a channel, or joins an existing one as one of its ranks. 0, or -errno with a message. */
int insitu_channel_create(const char *name, const struct onespace_insitu_options *options,
                          struct insitu_channel **channel);

/* ---- reaper_hook.c, freestanding ---- */
/* Frees the channel if it has no rank and no consumer. Called by the member in that slot. */
void insitu_channel_try_free(struct insitu_channel *channel, unsigned slot);
/* Releases a consumer and all steps that it holds. */
void insitu_consumer_leave(struct insitu_channel *channel, struct insitu_consumer *consumer);

/* ---- step.c ---- */
/* Returns the bytes of an element; 0: no such type. */
unsigned insitu_type_size(int type);
const char *insitu_type_name(int type);

/* ---- copy.c ---- */
/* Computes the strides of an array without gaps, last dimension fastest. */
void insitu_dense_strides(unsigned dimensions, unsigned element, const uint64_t *shape,
                          int64_t *strides);

/* Copies the arrays of a part into memory of the caller and stores the copies' addresses in the
 * part. 0 or -ENOMEM. */
int insitu_part_copy(struct insitu_part *part);
/* Frees the copies. Called by the rank that owns the part. */
void insitu_copy_free(struct insitu_part *part);

/* ---- producer.c and consumer.c ---- */
int insitu_close_producer(struct onespace_insitu *handle, int timeout_ms);
int insitu_close_consumer(struct onespace_insitu *handle);
/* Returns the part of a step that the handle holds, or NULL with a message. */
struct insitu_part *insitu_held_part(struct onespace_insitu *handle,
                                     const struct onespace_insitu_step *step, unsigned rank);

#endif
