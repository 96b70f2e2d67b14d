/* src/storage/region/internal.h: what the files of this directory share besides region.h. */
#ifndef ONESPACE_STORAGE_REGION_INTERNAL_H
#define ONESPACE_STORAGE_REGION_INTERNAL_H

#include <unistd.h>

#include "storage/region/region.h"

static inline size_t storage_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The largest folio of the page cache, and its alignment: what a full page of page table entries
 * maps. 2 MiB where pages have 4 KiB, more where they are larger. */
static inline size_t storage_huge(void)
{
    size_t page = storage_page();
    return page / 8 * page;
}

/* direct.c: direct I/O of one region, whose file is fd. Returns how many bytes were transferred,
 * from the first on: whole huge pages only, and 0 unless `at` is the beginning of one. A NULL
 * pointer transfers nothing. */
struct storage_direct *storage_direct_new(void);
void storage_direct_free(struct storage_direct *direct);
size_t storage_direct_write(struct storage_direct *direct, int fd, uint64_t at, const char *from,
                            size_t size);
size_t storage_direct_read(struct storage_direct *direct, int fd, uint64_t at, char *to,
                           size_t size);

/* guard.c: from here on a page of the region that cannot be had is replaced by private zeroes, and
 * region->failed is set. 0 or -errno (-EAGAIN: too many regions). */
int storage_guard(struct storage_region *region);
void storage_unguard(struct storage_region *region);

/* changes.c: to be called before the region is unmapped. */
void storage_untrack(struct storage_region *region);

#endif
