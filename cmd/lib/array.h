/* cmd/lib/array.h: arrays that grow. */
#ifndef ONESPACE_CMD_LIB_ARRAY_H
#define ONESPACE_CMD_LIB_ARRAY_H

#include <stdlib.h>

/* The array, moved if necessary, with capacity for `count` items of `size` bytes; NULL: out of
 * memory, and then the array is unchanged. `*capacity` is in items, 0 for an array that is NULL. */
static inline void *array_grow(void *items, size_t *capacity, size_t count, size_t size)
{
    if (count <= *capacity)
        return items;
    size_t larger = 2 * count > 16 ? 2 * count : 16;
    void *more = realloc(items, larger * size);
    if (more)
        *capacity = larger;
    return more;
}

#endif
