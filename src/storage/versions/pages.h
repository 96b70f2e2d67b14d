/* src/storage/versions/pages.h: sets of pages of a part, one bit each; page 0 begins at the part's
 * first byte. */
#ifndef ONESPACE_STORAGE_VERSIONS_PAGES_H
#define ONESPACE_STORAGE_VERSIONS_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "storage/file/range.h"
#include "storage/versions/format.h"

struct version_pages {
    uint64_t *word; /* owned: version_pages_free */
    size_t length;  /* of the part, bytes */
};

/* An empty or full set. 0 or -ENOMEM. */
int version_pages_new(struct version_pages *pages, size_t length, int is_full);
void version_pages_free(struct version_pages *pages);
void version_pages_fill(struct version_pages *pages);
void version_pages_clear(struct version_pages *pages);
/* Adds every page that a range touches. */
void version_pages_add(struct version_pages *pages, const struct storage_ranges *ranges);
void version_pages_copy(struct version_pages *pages, const struct version_pages *from);
/* The next run of pages in the set that begins at byte `from` or later; 0: there is none. */
int version_pages_next(const struct version_pages *pages, size_t from, struct storage_range *run);

#endif
