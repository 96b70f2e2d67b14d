/* src/storage/region/flush.c: makes ranges of a region durable. */
#include "storage/region/region.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/proc.h"

static void set_failed(struct storage_region *region, int number)
{
    int none = 0;
    atomic_compare_exchange_strong_explicit(region->failed, &none, number, memory_order_relaxed,
                                            memory_order_relaxed);
}

static int is_truncated(const struct storage_region *region)
{
    return region->file.fd >= 0 &&
           storage_file_is_short(region->file.fd, region->file_offset + region->length);
}

/* The path of another rank's file is unknown here, so it is searched among the mappings. */
static const char *name_of(const struct storage_region *region, char *buffer, size_t size)
{
    uintptr_t begin = (uintptr_t)region->mapping, end = begin + region->mapping_length;
    struct proc_maps maps;
    struct proc_mapping mapping;
    const char *name = region->file.path;
    if (!name && proc_maps_open(&maps, 0, buffer, size) == 0) {
        while (!name && proc_maps_next(&maps, &mapping))
            if (mapping.start < end && begin < mapping.end && mapping.name[0] == '/')
                name = mapping.name;
        proc_maps_close(&maps);
    }
    return name ? name : "another rank's file";
}

static int report(const struct storage_region *region, struct storage_error *error)
{
    int number = atomic_load_explicit(region->failed, memory_order_relaxed);
    char buffer[PATH_MAX + 128];
    const char *name = name_of(region, buffer, sizeof(buffer));
    if (is_truncated(region))
        return storage_fail(error, -EIO,
                            "%s: the file was cut below the end of this window (byte %llu) while "
                            "it was in use: what was stored there is lost; free the window",
                            name, (unsigned long long)region->file_offset + region->length);
    return storage_fail(
        error, -number,
        "%s: %s: the file system lost data of this window, and nothing stored since "
        "the last synchronisation that succeeded is safe; free the window, check "
        "the device (dmesg) and go back to a copy",
        name, strerror(number));
}

/* When a window is freed, the owner of a view's mapping may unmap it before the view is flushed.
 * The file stays open, so a view flushes the file. */
static int write_back(const struct storage_region *region, uintptr_t first, uintptr_t last)
{
    if (region->is_view && region->file.fd >= 0)
        return fdatasync(region->file.fd);
    return msync((void *)first, last - first, MS_SYNC);
}

int storage_region_flush(struct storage_region *region, struct storage_range range,
                         struct storage_error *error)
{
    uintptr_t page = storage_page_size();
    if (region->length == 0 || range.length == 0)
        return 0;
    uintptr_t first = (uintptr_t)region->base + range.offset;
    uintptr_t last = first + range.length;
    first &= -page;
    if (atomic_load_explicit(region->failed, memory_order_relaxed) == 0) {
        if (is_truncated(region))
            set_failed(region, EIO);
        else if (write_back(region, first, last) < 0)
            set_failed(region, errno);
    }
    /* Checked again: the SIGBUS handler may have replaced a page meanwhile. */
    if (atomic_load_explicit(region->failed, memory_order_relaxed) == 0)
        return 0;
    return report(region, error);
}
