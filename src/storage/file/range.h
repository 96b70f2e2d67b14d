/* src/storage/file/range.h: ranges of bytes. */
#ifndef ONESPACE_STORAGE_FILE_RANGE_H
#define ONESPACE_STORAGE_FILE_RANGE_H

#include <stddef.h>
#include <stdint.h>

struct storage_range {
    uint64_t offset, length; /* bytes; what offset counts from, the function says */
};

struct storage_ranges {
    struct storage_range *range; /* owned: free(); ascending, page-wise, apart from one another */
    size_t count, room;
};

#endif
