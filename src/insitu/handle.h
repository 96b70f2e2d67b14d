/* src/insitu/handle.h: a member's end of a channel, and what both kinds of end do. */
#ifndef ONESPACE_INSITU_HANDLE_H
#define ONESPACE_INSITU_HANDLE_H

#include "insitu/channel.h"

enum { NO_ENTRY = -1 };

struct onespace_insitu {
    struct space *space;
    struct space_slot *self;
    struct insitu_channel *channel;
    int is_producer;

    /* A producer's. */
    unsigned rank;
    int started, closing, has_number;
    int entry;        /* of the step that was begun, or NO_ENTRY */
    int names_repeat; /* its arrays so far have the names of those of the entry's last step */
    struct insitu_part *part; /* its part */
    uint64_t sequence, number;
    uint64_t slowest; /* a lower bound of all ranks' rounds, raised when it is too low */

    /* A consumer's. */
    struct insitu_consumer *place;
    int mode;
    uint64_t held[INSITU_ENTRIES]; /* sequence number of the step held in the entry, or 0 */
    unsigned owner_count;
    int owners[]; /* ids of the ranks whose memory is held */
};

/* message.c: formats the calling thread's message and returns `error`. */
__attribute__((format(printf, 2, 3))) int insitu_fail(int error, const char *format, ...);

/* handle.c */
/* Before anything else: maps the table of channels when the space has none yet. 0, -EPERM, -EAGAIN
 * or -ENOMEM, with a message. */
int insitu_prepare(void);
/* A handle of the calling member with room for the ids of so many ranks; NULL with a message. */
struct onespace_insitu *insitu_new_handle(unsigned ranks);

/* table.c */
/* 0, -EINVAL or -ENAMETOOLONG, with a message that speaks of `what`. */
int insitu_check_name(const char *what, const char *name);

/* ends.c, freestanding */
/* Frees the channel if no place in it is taken any more. Called by the member in that slot. */
void insitu_try_free(struct insitu_channel *channel, unsigned slot);
/* Gives a consumer's place back, with all it holds. */
void insitu_leave_consumer(struct insitu_channel *channel, struct insitu_consumer *place);

/* round.c */
/* Reclaims the step `sequence` in that entry, unless a consumer holds it or is still to get it;
 * with `at_end` those that take the latest step are still to get the last one. Whether it was
 * reclaimed.
 */
int insitu_reclaim(struct insitu_channel *channel, unsigned entry, uint64_t sequence, int at_end);
/* Whether the handle is a producer's of this member: 0, -EPERM or -EINVAL. */
int insitu_check_producer(const struct onespace_insitu *handle);

/* array.c */
/* Bytes of an element, 0: no such type. */
unsigned insitu_type_size(uint32_t type);
const char *insitu_type_name(uint32_t type);

/* check.c */
/* Checks a description: 0 with its strides and the bytes that its elements span, or -errno with a
 * message. Strides without gaps if it gives none. */
int insitu_check_array(const struct onespace_insitu_array *array, int64_t *strides, uint64_t *span);
/* Asks the kernel whether these bytes are all mapped: 0, or -EFAULT with a message. */
int insitu_check_mapped(const struct onespace_insitu_array *array, uint64_t span);

/* box.c */
/* Copies a box of elements between places whose strides (bytes) differ. */
struct insitu_box {
    unsigned dimensions, element; /* bytes of an element */
    const uint64_t *shape;
    const char *from;
    const int64_t *from_strides;
    char *to;
    const int64_t *to_strides;
};
void insitu_copy_box(const struct insitu_box *box);
/* The strides of an array without gaps, last dimension fastest. */
void insitu_dense_strides(unsigned dimensions, unsigned element, const uint64_t *shape,
                          int64_t *strides);

/* copy.c */
/* Copies the arrays of a part into memory of the caller and lets the part name the copies. 0 or
 * -ENOMEM. */
int insitu_copy_part(struct insitu_part *part);
/* By the rank whose part it is. */
void insitu_free_copy(struct insitu_part *part);

/* producer.c, consumer.c */
int insitu_close_producer(struct onespace_insitu *handle, int timeout_ms);
int insitu_close_consumer(struct onespace_insitu *handle);
/* The part of a step that the handle holds, or NULL with a message. */
struct insitu_part *insitu_held_part(struct onespace_insitu *handle,
                                     const struct onespace_insitu_step *step, unsigned rank);

#endif
