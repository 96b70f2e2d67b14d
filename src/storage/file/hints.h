/* src/storage/file/hints.h: what the user asks for, from names and values to a structure. */
#ifndef ONESPACE_STORAGE_FILE_HINTS_H
#define ONESPACE_STORAGE_FILE_HINTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "storage/file/error.h"

enum storage_style { /* access_style, as MPI defines it for files: bits */
                     STORAGE_READ_ONCE = 1,
                     STORAGE_WRITE_ONCE = 2,
                     STORAGE_READ_MOSTLY = 4,
                     STORAGE_WRITE_MOSTLY = 8,
                     STORAGE_SEQUENTIAL = 16,
                     STORAGE_REVERSE_SEQUENTIAL = 32,
                     STORAGE_RANDOM = 64,
};

#define STORAGE_FACTOR_AUTO (-1.0)

struct storage_hints {
    int is_storage; /* alloc_type=storage; if not, nothing else is set */
    char *filename; /* owned: storage_hints_clear */
    uint64_t offset;
    int has_offset; /* the offset was given */
    double factor;  /* of the window on storage, 0 to 1, or STORAGE_FACTOR_AUTO */
    int storage_first;
    int unlink, discard, is_untracked;
    unsigned style; /* enum storage_style; 0: not given */
    mode_t perm;
    unsigned striping_factor; /* 0: not given; these two only where the file system has stripes */
    uint64_t striping_unit;
    unsigned versions; /* how many are kept; 0: the window has no versions */
};

/* The value of `key`, or NULL when it is not set; valid until the next call. */
typedef const char *storage_lookup(void *context, const char *key);

/* Fills *hints; storage_hints_clear frees it, also after a failure. -EINVAL: a value is not
 * allowed, and the error names the hint, the value, and what is allowed. */
int storage_hints_read(struct storage_hints *hints, storage_lookup *lookup, void *context,
                       struct storage_error *error);
void storage_hints_clear(struct storage_hints *hints);
/* The names of the style's bits, separated by commas, as in the hint. */
void storage_style_name(unsigned style, char *text, size_t size);

#endif
