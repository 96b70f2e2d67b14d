/* onespace/insitu.h: in situ analysis: hands a simulation's arrays, in place, to analyses that run
 * alongside.
 *
 * A channel connects a producer, one member of a space or several ranks, to any number of
 * consumers, other members. The producer publishes steps. A step has a number chosen by the
 * producer, and each rank's part of it holds named arrays and attributes. Only a description is
 * passed: type, shape, strides, and the address, which is valid in every member. Consumers read the
 * arrays in place and release the step.
 *
 * The channel decides when the producer may write to its arrays again, in a single place,
 * onespace_insitu_begin:
 *
 *   producer                                  consumer
 *   onespace_insitu_begin   arrays are mine   onespace_insitu_take     the arrays are readable
 *     (compute)                                 onespace_insitu_get      one of them
 *   onespace_insitu_put     describe them       (read or copy)
 *   onespace_insitu_publish hand them out     onespace_insitu_release  the producer's again
 *
 * From begin to publish no consumer reads the arrays of this step; from publish to the begin
 * `depth` steps later the producer must not write to them. A producer with one set of arrays has
 * depth 1; one that cycles through several sets has that many. The channel's policy decides what
 * begin does while consumers still need the step whose arrays it reuses: wait, skip the step, or
 * continue (because publish made a copy).
 *
 * Array names are arbitrary. The paths of Conduit's mesh blueprint are recommended: analyses can
 * then interpret steps of unknown producers: "coordsets/coords/values/x",
 * "topologies/mesh/elements/connectivity", "fields/velocity/values/u"; for attributes:
 * "state/time", "state/cycle", "fields/velocity/association".
 *
 * Deaths. Steps held by a consumer are released when it ends, is killed or executes another
 * program. If a producing rank does so before it has closed the channel, the channel ends:
 * consumers and the other ranks get -EOWNERDEAD. A step that a consumer holds then stays readable
 * until it is released, because an open channel holds the memory of its producers (as
 * onespace_import does).
 *
 * Conventions as in onespace.h: 0 or a value >= 0, or -errno with out-parameters untouched;
 * timeouts in milliseconds, negative: no limit, 0: do not wait; -EPERM outside a space and in
 * forked children. onespace_insitu_message explains a failure. A handle is used by one thread at a
 * time; threads that work concurrently open the channel separately. Since 0.1.0.
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
#define ONESPACE_INSITU_PARTS_MAX  4096 /* depth times ranks */
#define ONESPACE_INSITU_CHANNELS   64   /* of a space at once */

/* A member's end of a channel: from onespace_insitu_create or _open to onespace_insitu_close. */
struct onespace_insitu;

/* ---- Producers ---- */

/* The action of onespace_insitu_begin while a consumer still needs the step whose arrays it
 * reuses. */
enum onespace_insitu_policy {
    ONESPACE_INSITU_WAIT, /* waits: no consumer of every step misses one */
    ONESPACE_INSITU_SKIP, /* returns 1: this step is not published, its arrays must not be written.
                             For producers that fill arrays for output only */
    ONESPACE_INSITU_COPY, /* publish copies the arrays, if there are consumers: then they are the
                             producer's again at once. Waits only if all `depth` copies are held, or
                             owed to consumers of every step */
};

struct onespace_insitu_options {
    size_t size;        /* sizeof(struct onespace_insitu_options): set by the initialiser */
    int policy;         /* enum onespace_insitu_policy */
    unsigned depth;     /* sets of arrays, or copies; 0: 1, and 4 with ONESPACE_INSITU_COPY */
    unsigned rank;      /* the caller's number among the channel's producers */
    unsigned ranks;     /* their number; each creates the channel, with the same options */
    unsigned consumers; /* the first begin waits until that many have opened the channel */
};
#define ONESPACE_INSITU_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(struct onespace_insitu_options), ONESPACE_INSITU_WAIT, 0, 0, 1, 0                   \
    }

/* Creates a channel. Its name is unique in the space while the channel exists; of several ranks the
 * first creates it and the others join. options NULL: the initialiser's. *channel is the caller's
 * until onespace_insitu_close. Does not wait for the other ranks. -EEXIST: a channel of that name
 * exists (or that rank is taken). -EINVAL: the name is empty, an option is out of range, or differs
 * from the other ranks'. -ENAMETOOLONG; -ENOSPC: the space has
 * ONESPACE_INSITU_CHANNELS channels, or depth * ranks is above 4,096; -ENOMEM. */
ONESPACE_API ONESPACE_CHECK int
onespace_insitu_create(const char *name, const struct onespace_insitu_options *options,
                       struct onespace_insitu **channel);

/* Begins a step: when it returns 0, the arrays that this step publishes are the caller's to write.
 * `step` is the step's number, greater than the last one's and the same on all ranks. 1: the step
 * is skipped (ONESPACE_INSITU_SKIP): do not write to the arrays and do not publish; all ranks get
 * the same result. The first begin also waits for all ranks and for options.consumers consumers.
 * -ETIMEDOUT: nothing has changed. -EALREADY: the last step was not published. -EINVAL: the number
 * is not greater, or other ranks began a different one. -EOWNERDEAD: a rank has died. -EPIPE: a
 * rank has closed the channel. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_begin(struct onespace_insitu *channel,
                                                      uint64_t step, int timeout_ms);

/* Conduit's types: int8 ... uint64, float32, float64. */
enum onespace_insitu_type {
    ONESPACE_INSITU_ANY, /* in onespace_insitu_get: any type */
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

/* An array. For a producer: all pointers refer to the caller's memory; name and units are copied by
 * the call, the elements are not. For a consumer: name, units and elements are valid until the step
 * is released, and read-only. */
struct onespace_insitu_array {
    const char *name;
    const char *units;   /* in UDUNITS notation, "m s-1"; NULL or "": none or unknown */
    void *address;       /* of the first element */
    uint64_t bytes;      /* memory that belongs to the array, from address on; 0: unspecified. A
                            consumer gets the span of the elements */
    int type;            /* enum onespace_insitu_type */
    unsigned dimensions; /* 1 to ONESPACE_INSITU_DIMENSIONS */
    uint64_t shape[ONESPACE_INSITU_DIMENSIONS]; /* elements here; an array may be empty */
    /* Bytes from one element to the next along each dimension, not negative. All 0: contiguous, the
     * last dimension fastest (C order); a consumer always gets the actual ones. */
    int64_t strides[ONESPACE_INSITU_DIMENSIONS];
    /* The global array of all ranks, in which this part begins at offset. All 0: none. */
    uint64_t global_shape[ONESPACE_INSITU_DIMENSIONS];
    uint64_t offset[ONESPACE_INSITU_DIMENSIONS];
};

/* Adds an array to the step that was begun. Inconsistent ones are rejected: -EINVAL if the elements
 * do not fit into `bytes` or overlap, the part is outside global_shape, or a field is out of range;
 * -EFAULT if not all of its memory is mapped (checked if address, size or name differ from those of
 * `depth` steps ago). -EEXIST: the step has an array of that name. -ENOSPC: it already has
 * ONESPACE_INSITU_ARRAYS. -ENAMETOOLONG. -ENOENT: no step was begun. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_put(struct onespace_insitu *channel,
                                                    const struct onespace_insitu_array *array);

enum onespace_insitu_value_type {
    ONESPACE_INSITU_INTEGER,
    ONESPACE_INSITU_NUMBER,
    ONESPACE_INSITU_TEXT,
};

/* A named value that describes the step. */
struct onespace_insitu_attribute {
    const char *name;
    int type; /* enum onespace_insitu_value_type: selects one of these */
    int64_t integer;
    double number;
    const char *text;
};

/* Adds an attribute to the step that was begun; name and text are copied. -EINVAL, -EEXIST,
 * -ENOSPC, -ENAMETOOLONG, -ENOENT as onespace_insitu_put. */
ONESPACE_API ONESPACE_CHECK int
onespace_insitu_put_attribute(struct onespace_insitu *channel,
                              const struct onespace_insitu_attribute *attribute);

/* Publishes the step that was begun; it becomes available once all ranks have published it. Makes
 * no system call unless a consumer sleeps; with ONESPACE_INSITU_COPY it copies the arrays. Orders
 * memory: what was written before is visible to members that take the step. -ENOENT: no step was
 * begun. -ENOMEM: no memory for the copy; the step stays begun. -EOWNERDEAD: a rank has died. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_publish(struct onespace_insitu *channel);

/* Takes the step that the caller published last back, without beginning another: waits until it is
 * complete and every consumer has taken it (in mode LATEST too) and released it. 0: its arrays are
 * the caller's to write, and consumers that come later do not find the step. -ETIMEDOUT: nothing
 * has changed. -EALREADY: a step was begun since. -ENOENT: no step was published. -EOWNERDEAD: a
 * rank has died before it published its part. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_reclaim(struct onespace_insitu *channel,
                                                        int timeout_ms);

/* ---- Consumers ---- */

/* Which steps onespace_insitu_take returns. */
enum onespace_insitu_mode {
    ONESPACE_INSITU_LATEST, /* the newest available one; those in between are skipped */
    ONESPACE_INSITU_EVERY,  /* each published one, in order; the producer keeps them until taken */
};

/* Opens the channel of that name; waits until it exists and all its ranks have joined. The first
 * step available is the latest one complete at that time, unless the producer has reused it.
 * *channel is the caller's until onespace_insitu_close; it holds the memory of the producers.
 * -ETIMEDOUT: there is no such channel. -EINVAL, -ENAMETOOLONG; -ENOMEM; -ENOSPC: the channel has
 * 2,048 consumers; -EOWNERDEAD: the reaper of the space was killed. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_open(const char *name, int mode, int timeout_ms,
                                                     struct onespace_insitu **channel);

/* A step that the caller holds. Filled by onespace_insitu_take; the caller keeps it. */
struct onespace_insitu_step {
    uint64_t step;     /* the producer's number */
    uint64_t ticket;   /* internal to the channel: do not change */
    uint64_t passed;   /* steps completed since this handle's last one and passed over */
    unsigned ranks;    /* parts: one per producing rank */
    unsigned reserved; /* 0 */
};

/* Takes the next step according to the handle's mode; waits until there is one. Several may be held
 * at once. -ETIMEDOUT. -ENODATA: the producer has closed the channel and there is no further step.
 * -EOWNERDEAD: a producing rank died; held steps stay readable. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_take(struct onespace_insitu *channel,
                                                     struct onespace_insitu_step *step,
                                                     int timeout_ms);

/* Finds an array of a rank's part of a step that the caller holds. -ENOENT: the part has none of
 * that name; the message lists those it has. -EPROTOTYPE: its type is not `type`.
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
 * all ranks into `to`, contiguous, the last dimension fastest, so that a consumer's decomposition
 * of the array can differ from the producer's. offset and shape have as many entries as the array
 * has dimensions. The array of a single rank may omit its global shape. -ENOENT: no rank has the
 * array, or the parts do not cover the box. -EPROTOTYPE: as onespace_insitu_get. -EINVAL: the box
 * is outside the array, the ranks' descriptions are inconsistent, or the step is not held. After an
 * error `to` may be partly written. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_read(struct onespace_insitu *channel,
                                                     const struct onespace_insitu_step *step,
                                                     const char *name, int type,
                                                     const uint64_t *offset, const uint64_t *shape,
                                                     void *to);

/* Releases a step; its arrays may be written to from then on. Makes no system call unless the
 * producer sleeps. -EINVAL: the caller does not hold it, or no longer. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_release(struct onespace_insitu *channel,
                                                        const struct onespace_insitu_step *step);

/* ---- Both ---- */

/* Ends the caller's part in the channel and frees the handle. Producer: there are no further steps;
 * waits until every consumer has taken and released the steps it is owed (in mode EVERY all, else
 * the last one), so that the arrays are the caller's afterwards; consumers then get -ENODATA.
 * -ETIMEDOUT: consumers still need some; the handle stays valid for another onespace_insitu_close.
 * A step that was begun but not published is dropped. Consumer: releases the steps it holds, does
 * not wait. NULL: 0. */
ONESPACE_API ONESPACE_CHECK int onespace_insitu_close(struct onespace_insitu *channel,
                                                      int timeout_ms);

/* Describes the error and its fix, for the calling thread's last call above that failed with an
 * error other than -ETIMEDOUT; "" if there was none. Valid until its next failure. */
ONESPACE_API const char *onespace_insitu_message(void);

#ifdef __cplusplus
}
#endif
#endif
