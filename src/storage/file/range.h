/* src/storage/file/range.h: ranges of bytes. */
#ifndef ONESPACE_STORAGE_FILE_RANGE_H
#define ONESPACE_STORAGE_FILE_RANGE_H

#include <stddef.h>
#include <stdint.h>

struct storage_range {
    uint64_t offset, length; /* bytes; each function says what offset counts from */
};

struct storage_ranges {
    struct storage_range *range; /* owned: free(); ascending, by pages, not adjacent */
    size_t count, room;
};

#endif
