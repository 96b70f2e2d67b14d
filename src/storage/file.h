/* src/storage/file.h: what the parts of src/storage share beside storage.h. */
#ifndef ONESPACE_STORAGE_FILE_H
#define ONESPACE_STORAGE_FILE_H

#include "storage/storage.h"

/* stripes.c: creates file->path exclusively, with the stripes that are asked for where the file
 * system has them. The descriptor, or -1 with errno. */
int storage_stripes_create(struct storage_file *file, const struct storage_hints *hints);

/* guard.c: from here on a page of the region that cannot be had is replaced by zeroes of this
 * process alone, and region->failed is set. 0 or -errno (-EAGAIN: too many regions). */
int storage_guard(struct storage_region *region);
void storage_unguard(struct storage_region *region);

/* changes.c: the mapping goes. */
void storage_untrack(struct storage_region *region);

#endif
