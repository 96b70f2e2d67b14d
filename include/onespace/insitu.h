/* onespace/insitu.h: hand a simulation's arrays to analyses that run beside it, where they lie.
 *
 * A channel leads from a producer, one member of a space or several ranks, to any number of
 * consumers, other members. The producer publishes steps. A step has a number that the producer
 * chooses, and each rank's part of it holds named arrays and attributes. What is handed over is a
 * description: type, shape, strides, and the address, which is valid in every member. Consumers
 * read the arrays in place and give the step back.
 *
 * The channel decides when the producer may write to its arrays again, and it says so at one
 * place, onespace_insitu_begin:
 *
 *   producer                                  consumer
 *   onespace_insitu_begin   arrays are mine   onespace_insitu_take     the arrays are readable
 *     (compute)                                 onespace_insitu_get      one of them
 *   onespace_insitu_put     describe them       (read or copy)
 *   onespace_insitu_publish hand them out     onespace_insitu_release  the producer's again
 *
 * From begin to publish no consumer reads the arrays of this step; from publish to the begin that
 * follows `depth` steps later the producer must not write to them. A producer with one set of
 * arrays has depth 1; one that fills several sets in turn has that many. What begin does while
 * consumers still need the step whose arrays come next is the channel's policy: wait, skip the
 * step, or (since publish has handed out a copy) go on.
 *
 * Names of arrays are free. The paths of Conduit's mesh blueprint serve well, so that analyses
 * understand steps of producers that they have never met: "coordsets/coords/values/x",
 * "topologies/mesh/elements/connectivity", "fields/velocity/values/u"; the attributes likewise:
 * "state/time", "state/cycle", "fields/velocity/association".
 *
 * Deaths. What a consumer holds goes back when it ends, is killed or executes another program. When
 * a producing rank does so before it has closed the channel, the channel ends: consumers, and the
 * other ranks, get -EOWNERDEAD. A step that a consumer holds then stays readable until it is
 * released: an open channel holds the memory of its producers (as onespace_import does).
 *
 * Conventions as in onespace.h: 0 or a value >= 0, or -errno with out-parameters untouched;
 * timeouts in milliseconds, negative without limit, 0 not to wait; -EPERM outside a space and in
 * forked children. What a failure means is told by onespace_insitu_message. A handle is used by one
 * thread at a time; threads that want to work at once each open the channel. Since 0.1.0.
 *
 * (Process-in-Process, HPDC'18, section 7.4: the in situ program reads the simulation's memory.
 * Policies and step semantics as in staging libraries such as ADIOS2's SST.) */
#ifndef ONESPACE_INSITU_H
#define ONESPACE_INSITU_H

#include <onespace.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ONESPACE_INSITU_NAME_MAX   63  /* bytes of a channel's, array's, attribute's name */
#define ONESPACE_INSITU_UNITS_MAX  31  /* bytes of an array's units */
#define ONESPACE_INSITU_TEXT_MAX   127 /* bytes of an attribute's text */
#define ONESPACE_INSITU_DIMENSIONS 4   /* of an array at most */
#define ONESPACE_INSITU_ARRAYS     64  /* in one rank's part of a step */
#define ONESPACE_INSITU_ATTRIBUTES 32  /* in one rank's part of a step */
#define ONESPACE_INSITU_DEPTH_MAX  16
#define ONESPACE_INSITU_CHANNELS   64 /* of a space at once */

/* A member's end of a channel: from onespace_insitu_create or _open to onespace_insitu_close. */
struct onespace_insitu;

/* ---- Producers ---- */

/* What onespace_insitu_begin does while a consumer still needs the step whose arrays come next. */
enum onespace_insitu_policy {
    ONESPACE_INSITU_WAIT, /* waits: no consumer of every step misses one */
    ONESPACE_INSITU_SKIP, /* returns 1: this step is not published and its arrays stay alone. For
                             producers that fill arrays for output only */
    ONESPACE_INSITU_COPY, /* publish copies the arrays, if anybody is there to take them: then they
                             are the producer's again at once. Waits only when all `depth` copies
                             are held, or owed to consumers of every step */
};

struct onespace_insitu_options {
    size_t size;        /* sizeof(struct onespace_insitu_options): set by the initialiser */
    int policy;         /* enum onespace_insitu_policy */
    unsigned depth;     /* sets of arrays, or copies; 0: 1, and 4 with ONESPACE_INSITU_COPY */
    unsigned rank;      /* the caller's number among the channel's producers */
    unsigned ranks;     /* how many there are: each creates the channel, with like options */
    unsigned consumers; /* the first begin waits until so many have opened the channel */
};
#define ONESPACE_INSITU_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(struct onespace_insitu_options), ONESPACE_INSITU_WAIT, 0, 0, 1, 0                   \
    }

/* Makes a channel of that name, which is unique in the space while the channel lives; of several
 * ranks the first makes it and the others join. options NULL: the initialiser's. *channel is the
 * caller's until onespace_insitu_close. Does not wait for the other ranks. -EEXIST: a living
 * channel has that name (or that rank is taken). -EINVAL: the name is empty, an option is out of
 * range, or not what the other ranks said. -ENAMETOOLONG; -ENOSPC: the space has
 * ONESPACE_INSITU_CHANNELS channels, or depth * ranks is above 4,096; -ENOMEM. */
ONESPACE_API ONESPACE_CHECK int
onespace_insitu_create(const char *name, const struct onespace_insitu_options *options,
                       struct onespace_insitu **channel);

/* Begins a step: when it returns 0, the arrays that this step publishes are the caller's to write.
 * `step` is the step's number, greater than the last one's and the same on all ranks. 1: the step
 * is skipped (ONESPACE_INSITU_SKIP): do not write to the arrays and do not publish; all ranks are
 * told the same. The first begin also waits for all ranks and for options.consumers consumers.
 * -ETIMEDOUT: nothing has changed. -EALREADY: the last step was not published. -EINVAL: the number
 * does not grow, or other ranks began another. -EOWNERDEAD: a rank has died. -EPIPE: a rank has
 * closed the channel. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_begin(struct onespace_insitu *channel,
                                                      uint64_t step, int timeout_ms);

/* As Conduit names them: int8 ... uint64, float32, float64. */
enum onespace_insitu_type {
    ONESPACE_INSITU_ANY, /* in onespace_insitu_get: whatever it is */
    ONESPACE_INSITU_INT8,
    ONESPACE_INSITU_INT16,
    ONESPACE_INSITU_INT32,
    ONESPACE_INSITU_INT64,
    ONESPACE_INSITU_UINT8,
    ONESPACE_INSITU_UINT16,
    ONESPACE_INSITU_UINT32,
    ONESPACE_INSITU_UINT64,
    ONESPACE_INSITU_FLOAT32,
    ONESPACE_INSITU_FLOAT64,
};

/* An array. For a producer: all that is pointed to is the caller's; name and units are copied by
 * the call, the elements are not. For a consumer: name, units and elements are valid until the step
 * is released, and not to be written to. */
struct onespace_insitu_array {
    const char *name;
    const char *units;   /* as UDUNITS writes them, "m s-1"; NULL or "": none or not told */
    void *address;       /* of the first element */
    uint64_t bytes;      /* memory that belongs to the array, from address on; 0: not told. A
                            consumer gets what the elements span */
    int type;            /* enum onespace_insitu_type */
    unsigned dimensions; /* 1 to ONESPACE_INSITU_DIMENSIONS */
    uint64_t shape[ONESPACE_INSITU_DIMENSIONS]; /* elements here; an array may be empty */
    /* Bytes from one element to the next along each dimension, not negative. All 0: without gaps,
     * the last dimension fastest (C order); a consumer always gets the true ones. */
    int64_t strides[ONESPACE_INSITU_DIMENSIONS];
    /* The array of all ranks together, of which this part begins at offset. All 0: there is none.
     */
    uint64_t global_shape[ONESPACE_INSITU_DIMENSIONS];
    uint64_t offset[ONESPACE_INSITU_DIMENSIONS];
};

/* Adds an array to the step that was begun. One that contradicts itself is refused: -EINVAL when
 * its elements do not fit into `bytes` or overlap, the part lies outside global_shape, or a field
 * is out of range; -EFAULT when not all of its memory is mapped (asked when address, size or name
 * differ from those of `depth` steps ago). -EEXIST: the step has an array of that name. -ENOSPC:
 * it has ONESPACE_INSITU_ARRAYS. -ENAMETOOLONG. -ENOENT: no step was begun. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_put(struct onespace_insitu *channel,
                                                    const struct onespace_insitu_array *array);

enum onespace_insitu_value_type {
    ONESPACE_INSITU_INTEGER,
    ONESPACE_INSITU_NUMBER,
    ONESPACE_INSITU_TEXT,
};

/* A fact about the step. */
struct onespace_insitu_attribute {
    const char *name;
    int type; /* enum onespace_insitu_value_type: which of these it is */
    int64_t integer;
    double number;
    const char *text;
};

/* Adds an attribute to the step that was begun; name and text are copied. -EINVAL, -EEXIST,
 * -ENOSPC, -ENAMETOOLONG, -ENOENT as onespace_insitu_put. */
ONESPACE_API ONESPACE_CHECK int
onespace_insitu_put_attribute(struct onespace_insitu *channel,
                              const struct onespace_insitu_attribute *attribute);

/* Hands out the step that was begun: it is complete, and to be had, when all ranks have. Makes no
 * system call unless somebody sleeps; with ONESPACE_INSITU_COPY it copies the arrays. Orders
 * memory: what was written before is seen by who takes the step. -ENOENT: no step was begun.
 * -ENOMEM: no memory for the copy; the step stays begun. -EOWNERDEAD: a rank has died. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_publish(struct onespace_insitu *channel);

/* ---- Consumers ---- */

/* Which steps onespace_insitu_take gives. */
enum onespace_insitu_mode {
    ONESPACE_INSITU_LATEST, /* the newest that there is; those between are passed over */
    ONESPACE_INSITU_EVERY,  /* each that is published, in order; the producer keeps them for us */
};

/* Opens the channel of that name; waits until it is there and all its ranks have joined. The
 * latest step that is complete then, if the producer has not taken it back, is the first to be had.
 * *channel is the caller's until onespace_insitu_close; it holds the memory of the producers.
 * -ETIMEDOUT: there is no such channel. -EINVAL, -ENAMETOOLONG; -ENOMEM; -ENOSPC: the channel has
 * 2,048 consumers; -EOWNERDEAD: the reaper of the space was killed. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_open(const char *name, int mode, int timeout_ms,
                                                     struct onespace_insitu **channel);

/* A step that the caller holds. Filled by onespace_insitu_take; the caller keeps it. */
struct onespace_insitu_step {
    uint64_t step;     /* the producer's number */
    uint64_t ticket;   /* the channel's own: do not change */
    uint64_t passed;   /* steps complete since the last one that this handle took, without it */
    unsigned ranks;    /* parts: one per producing rank */
    unsigned reserved; /* 0 */
};

/* Takes the next step by the handle's mode; waits until there is one. Several may be held at once.
 * -ETIMEDOUT. -ENODATA: the producer has closed the channel and there is no further step.
 * -EOWNERDEAD: a producing rank died; steps that are held stay readable. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_take(struct onespace_insitu *channel,
                                                     struct onespace_insitu_step *step,
                                                     int timeout_ms);

/* Finds an array of a rank's part of a step that the caller holds. -ENOENT: the part has none of
 * that name; the message says which it has. -EPROTOTYPE: it is of another type than `type`.
 * -EINVAL: the step is not held, or there is no such rank. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_get(struct onespace_insitu *channel,
                                                    const struct onespace_insitu_step *step,
                                                    unsigned rank, const char *name, int type,
                                                    struct onespace_insitu_array *array);

/* The arrays of a rank's part one by one: index 0, 1, ... until -ENOENT. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_array_at(struct onespace_insitu *channel,
                                                         const struct onespace_insitu_step *step,
                                                         unsigned rank, unsigned index,
                                                         struct onespace_insitu_array *array);

/* Finds an attribute of a rank's part; name and text are valid until the step is released. Errors
 * as onespace_insitu_get. */
ONESPACE_API ONESPACE_CHECK int
onespace_insitu_get_attribute(struct onespace_insitu *channel,
                              const struct onespace_insitu_step *step, unsigned rank,
                              const char *name, struct onespace_insitu_attribute *attribute);

/* The attributes of a rank's part one by one: index 0, 1, ... until -ENOENT. */
ONESPACE_API ONESPACE_CHECK int
onespace_insitu_attribute_at(struct onespace_insitu *channel,
                             const struct onespace_insitu_step *step, unsigned rank, unsigned index,
                             struct onespace_insitu_attribute *attribute);

/* Copies the box of `shape` elements that begins at `offset` of the global array from the parts of
 * all ranks into `to`, without gaps, the last dimension fastest: so a consumer's division of the
 * array need not be the producer's. offset and shape have as many entries as the array has
 * dimensions. The array of a single rank need not say its global shape. -ENOENT: no rank has the
 * array, or the parts do not cover the box. -EPROTOTYPE: as onespace_insitu_get. -EINVAL: the box
 * lies outside, ranks contradict one another, or the step is not held. `to` may be partly written
 * after an error. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_read(struct onespace_insitu *channel,
                                                     const struct onespace_insitu_step *step,
                                                     const char *name, int type,
                                                     const uint64_t *offset, const uint64_t *shape,
                                                     void *to);

/* Gives a step back; its arrays may be written to from then on. Makes no system call unless the
 * producer sleeps. -EINVAL: the caller does not hold it, or no longer. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_release(struct onespace_insitu *channel,
                                                        const struct onespace_insitu_step *step);

/* ---- Both ---- */

/* Ends the caller's part in the channel and frees the handle. A producer's: no further step; waits
 * until every consumer has taken and released what it is owed (those of every step all, the others
 * the last one), so that the arrays are the caller's afterwards; consumers then get -ENODATA.
 * -ETIMEDOUT: consumers still need some; the handle stays, for another onespace_insitu_close. A
 * step that was begun but not published is dropped. A consumer's: releases what it holds, and does
 * not wait. NULL: 0. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_close(struct onespace_insitu *channel,
                                                      int timeout_ms);

/* What was wrong and how to mend it, of the calling thread's last call above that failed with other
 * than -ETIMEDOUT; "" before. Valid until its next failure. */
ONESPACE_API const char *onespace_insitu_message(void);

#ifdef __cplusplus
}
#endif
#endif
