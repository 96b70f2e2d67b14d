/* cmd/insitu/extent.h: the smallest and the largest element of arrays. */
#ifndef ONESPACE_CMD_INSITU_EXTENT_H
#define ONESPACE_CMD_INSITU_EXTENT_H

#include "onespace/insitu.h"

struct extent {
    double low, high; /* of those that are numbers, if there are any */
    uint64_t numbers, nans;
};

/* Reads all elements of the array, in place. extent: zeroed before the first array. */
void extent_add(struct extent *extent, const struct onespace_insitu_array *array);

#endif
