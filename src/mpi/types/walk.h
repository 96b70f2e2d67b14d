/* src/mpi/types/walk.h: visits the data of two sides of a transfer in the order of their types. */
#ifndef ONESPACE_MPI_TYPES_WALK_H
#define ONESPACE_MPI_TYPES_WALK_H

#include "mpi/types/layout.h"

/* `count` blocks of `size` bytes, `stride` bytes apart, at each side. */
struct blocks {
    char *to;
    const char *from;
    int64_t to_stride, from_stride;
    size_t size, count;
};

/* 0: go on. */
typedef int walk_function(void *context, const struct blocks *blocks);

/* One side: `items` items at `address`. */
struct side {
    char *address;
    size_t items;
    const struct layout *layout;
};

/* Calls the function until it returns non-zero, or one of the sides is at its end. MPI_SUCCESS;
 * MPI_ERR_NO_MEM: it was not called. */
int walk(const struct side *to, const struct side *from, walk_function *function, void *context);

/* Copies from one side to the other. */
int walk_copy(const struct side *to, const struct side *from);

#endif
