/* src/mpi/types/layout.h: where the data of a type is, as nested loops over runs of bytes.
 *
 * A type is described from its constructors, in time and memory proportional to what the program
 * gave them, not to the type's extent or size. The description is kept until the program frees the
 * type, or one reference to it: what MPI_Type_get_contents returns is a reference of its own. The
 * wrapper of MPI_Type_free says so before MPI can give the handle to another type. (An attribute of
 * the type would not need the wrapper, but costs Open MPI as much as a small transfer.) */
#ifndef ONESPACE_MPI_TYPES_LAYOUT_H
#define ONESPACE_MPI_TYPES_LAYOUT_H

#include <stdatomic.h>
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
    int64_t lower, upper;        /* bytes from an item's address between which its data lies */
    _Atomic unsigned references; /* of the table and of threads; not used for predefined types */
    /* Set by any thread that has found the type committed, which it then stays; relaxed: it guards
     * no other data. */
    _Atomic int is_committed;
};

/* Adds `count` repetitions, `stride` bytes apart, to a loop whose children need no new parent. Not
 * 0: done. Inline for the sake of types of many blocks. */
static inline int loop_repeat(struct loop *loop, size_t count, int64_t stride)
{
    if (count == 1 && loop->count)
        return 1;
    if (count == 0 || loop->count == 0)
        loop->count = 0;
    else if (loop->count == 1 && loop->size && (int64_t)loop->size == stride)
        loop->size *= count;
    else if (loop->count == 1) {
        loop->count = count;
        loop->stride = stride;
    } else if (loop->stride * (int64_t)loop->count == stride)
        loop->count *= count;
    else
        return 0;
    return 1;
}

/* *layouts: of a predefined or derived type, valid during this call of the program's; NULL with an
 * error, whose class is the result. */
int layouts_find(MPI_Datatype type, const struct layouts **layouts);
/* Between which bytes from their address the data of `count` items lies; both 0 if there is none.
 * MPI_SUCCESS, or MPI_ERR_COUNT: more bytes than an address space has. */
int layouts_bounds(const struct layouts *layouts, MPI_Count count, int64_t *lower, int64_t *upper);
/* types_copy(), of types that the caller has looked up. */
int layouts_copy(const struct transfer *to, const struct layouts *sink, const struct transfer *from,
                 const struct layouts *source);
/* MPI_SUCCESS if the library takes the type for communication; MPI_ERR_TYPE: the program has not
 * committed it. */
int layouts_check_committed(MPI_Datatype type, const struct layouts *layouts);
/* The program frees the type. To be called before MPI frees it. */
void layouts_forget(MPI_Datatype type);
/* Of a predefined type; types_basic() keeps them in `basic`. NULL: out of memory. */
struct layouts *layouts_of_basic(const struct basic *basic);
void layouts_free(struct layouts *layouts);

#endif
