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

static int is_truncated(const struct storage_region *region, int fd)
{
    return fd >= 0 && storage_file_is_short(fd, region->file_offset + region->length);
}

/* The path of another rank's file is unknown here, so it is searched among the mappings. */
static const char *name_of(const struct storage_region *region, char *buffer, size_t size)
{
    uintptr_t begin = (uintptr_t)region->mapping, end = begin + region->mapping_length;
    struct proc_maps maps;
    struct proc_mapping mapping;
    const char *name = region->file.path;
    if (!name && !region->is_copy && proc_maps_open(&maps, 0, buffer, size) == 0) {
        while (!name && proc_maps_next(&maps, &mapping))
            if (mapping.start < end && begin < mapping.end && mapping.name[0] == '/')
                name = mapping.name;
        proc_maps_close(&maps);
    }
    return name ? name : "another rank's file";
}

static int report(const struct storage_region *region, int is_cut, struct storage_error *error)
{
    int number = atomic_load_explicit(region->failed, memory_order_relaxed);
    char buffer[PATH_MAX + 128];
    const char *name = name_of(region, buffer, sizeof(buffer));
    if (is_cut)
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

/* 0 or -errno */
static int write_copy(const struct storage_region *region, int fd, struct storage_range range)
{
    uint64_t done = 0;
    while (done < range.length) {
        ssize_t step = pwrite(fd, region->base + range.offset + done, range.length - done,
                              (off_t)(region->file_offset + range.offset + done));
        int result = step == 0 ? -EIO : step > 0 ? 0 : -errno;
        if (result < 0 && result != -EINTR)
            return result;
        done += step > 0 ? (uint64_t)step : 0;
    }
    return 0;
}

/* As system calls do, returns -1 with errno. When a window is freed, the owner of a view's mapping
 * may unmap it before the view is flushed. The file stays open, so a view flushes the file. */
static int write_back(const struct storage_region *region, int fd, struct storage_range range)
{
    if (region->is_copy || (region->is_view && fd >= 0))
        return storage_fdatasync(fd);
    uintptr_t first = (uintptr_t)region->base + range.offset, last = first + range.length;
    first &= -storage_page_size();
    int result;
    while ((result = msync((void *)first, last - first, MS_SYNC)) < 0 && errno == EINTR)
        ;
    return result;
}

int storage_region_check(struct storage_region *region, int fd, struct storage_error *error)
{
    if (region->length && is_truncated(region, fd))
        set_failed(region, EIO);
    if (atomic_load_explicit(region->failed, memory_order_relaxed) == 0)
        return 0;
    return report(region, is_truncated(region, fd), error);
}

int storage_region_fail_cut(struct storage_region *region, struct storage_error *error)
{
    set_failed(region, EIO);
    return report(region, 1, error);
}

int storage_region_flush(struct storage_region *region, int fd, struct storage_range range,
                         struct storage_error *error)
{
    if (region->length == 0 || range.length == 0)
        return 0;
    if (atomic_load_explicit(region->failed, memory_order_relaxed) == 0) {
        int written = 0, is_short = is_truncated(region, fd);
        if (region->is_copy && !is_short)
            written = write_copy(region, fd, range);
        if (written < 0 && written != -EIO)
            return storage_fail(error, written,
                                "%s: cannot write to this file: %s; the window has all data in "
                                "memory, and may be synchronised again",
                                region->file.path ? region->file.path : "another rank's file",
                                strerror(-written));
        if (is_short || written < 0)
            set_failed(region, EIO);
        else if (write_back(region, fd, range) < 0)
            set_failed(region, errno);
    }
    /* Checked again: the SIGBUS handler may have replaced a page meanwhile. */
    if (atomic_load_explicit(region->failed, memory_order_relaxed) == 0)
        return 0;
    return report(region, is_truncated(region, fd), error);
}
