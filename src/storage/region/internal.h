/* src/storage/region/internal.h: what the files of this directory share beside region.h. */
#ifndef ONESPACE_STORAGE_REGION_INTERNAL_H
#define ONESPACE_STORAGE_REGION_INTERNAL_H

#include "storage/region/region.h"

/* A page of the page cache is at most so large, and aligned. */
enum { STORAGE_HUGE = 2 << 20 };

/* direct.c: of one region, its file being fd. How many bytes were done, from the first: 0
 * unless `at` begins a huge page, and whole ones only. NULL: none. */
struct storage_past_cache *storage_past_cache_new(void);
void storage_past_cache_free(struct storage_past_cache *past);
size_t storage_past_cache_write(struct storage_past_cache *past, int fd, uint64_t at,
                                const char *from, size_t size);
size_t storage_past_cache_read(struct storage_past_cache *past, int fd, uint64_t at, char *to,
                               size_t size);

/* guard.c: from here on a page of the region that cannot be had is replaced by zeroes of this
 * process alone, and region->failed is set. 0 or -errno (-EAGAIN: too many regions). */
int storage_guard(struct storage_region *region);
void storage_unguard(struct storage_region *region);

/* changes.c: the mapping goes. */
void storage_untrack(struct storage_region *region);

#endif
