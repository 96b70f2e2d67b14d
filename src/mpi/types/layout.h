/* src/mpi/types/layout.h: where the data of a type is, as nested loops over runs of bytes.
 *
 * A type is described from its constructors, in time and memory proportional to what the program
 * gave them, not to the type's extent or size. The description is kept as an attribute of the type,
 * so MPI deletes it with the type, before the handle can mean another. */
#ifndef ONESPACE_MPI_TYPES_LAYOUT_H
#define ONESPACE_MPI_TYPES_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "mpi/types/types.h"

/* `count` repetitions, `stride` bytes apart, of the children one after another, or of a run. */
struct loop {
    int64_t offset; /* of the first repetition from the parent's */
    int64_t stride;
    size_t count;             /* 0: no data */
    size_t size;              /* bytes of a run; 0: there are children */
    uint32_t child, children; /* the first in the layout's `loops`, and how many */
    uint32_t depth;           /* of nested loops with children; 0: a run */
};

struct layout {
    size_t size;     /* bytes of data in an item */
    int64_t extent;  /* from one item to the next */
    struct loop top; /* an item */
    struct loop *loops;
};

/* Constant once it is published. */
struct layouts {
    const struct basic *element; /* that all elements have in common, or NULL */
    struct layout bytes;         /* the data only */
    struct layout whole;         /* elements with the gaps in them; the same when they have none */
    struct layouts *replaced;    /* by this one: see publish() */
};

/* Adds `count` repetitions, `stride` bytes apart, to a loop whose children need no new parent. Not
 * 0: done. */
int loop_repeat(struct loop *loop, size_t count, int64_t stride);

/* *layouts: of a predefined or derived type, valid as long as the type is; NULL with an error,
 * whose class is the result. */
int layouts_find(MPI_Datatype type, const struct layouts **layouts);
/* Of a predefined type; types_basic() keeps them in `basic`. NULL: out of memory. */
struct layouts *layouts_of_basic(const struct basic *basic);
void layouts_free(struct layouts *layouts);

#endif
