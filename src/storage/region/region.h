/* src/storage/region/region.h: memory that is backed by a file.
 *
 *   region.c     a mapping of a range of the file at any offset
 *   part.c       plain memory beside storage, at contiguous addresses
 *   available.c  how much memory there is
 *   bulk.c       large copies into a region and out of it
 *   hot.c        which places are used so often that loads and stores are better for them
 *   direct.c     direct I/O, for what is written once or read once
 *   flush.c      making ranges durable; a failure stays
 *   changes.c    which ranges were stored into
 *   guard.c      a page that cannot be had is an error at the next flush, not SIGBUS
 *
 * All of it works in plain processes and in tasks of a space. Functions return 0 or -errno; after a
 * failure `struct storage_error` says what was wrong and how to fix it. */
#ifndef ONESPACE_STORAGE_REGION_REGION_H
#define ONESPACE_STORAGE_REGION_REGION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/file/file.h"

struct storage_changes;
struct storage_past_cache;

/* A range of a file in memory. One process's view; other processes have their own of the same
 * file. */
enum { STORAGE_OFTEN = 64 };
struct storage_region {
    struct storage_file file;
    uint64_t file_offset; /* of the first byte; any */
    char *base;           /* address of that byte, at the same place in its page */
    size_t length;        /* bytes; 0: nothing is mapped */
    void *mapping;        /* whole pages around it */
    size_t mapping_length;
    int is_placed;                         /* inside a reservation of the caller's */
    int is_borrowed;                       /* the mapping is somebody else's */
    unsigned style;                        /* enum storage_style */
    struct storage_past_cache *past;       /* of styles that want it; or NULL */
    struct storage_changes *changes;       /* changes.c; NULL: not tracked */
    _Atomic uint64_t often[STORAGE_OFTEN]; /* hot.c */
    /* *failed: 0 or the errno of the first flush or access that failed; it stays. Any thread sets
     * it, the signal handler in guard.c too, once, from 0 (relaxed: nothing else depends on it).
     * Mapping points it to `failed_here`; those who have views of one range may share a word. */
    _Atomic int *failed;
    _Atomic int failed_here;
};

/* Notes a put or get; whether there were so many at this place of late that stores and loads are
 * better than system calls. */
int storage_region_is_used_often(struct storage_region *region, uint64_t offset);

/* Maps [file_offset, + length) of region->file, at `at` (which has the right place in its page, in
 * a reservation of the caller's) or anywhere when it is NULL. style: enum storage_style. */
int storage_region_map(struct storage_region *region, uint64_t file_offset, size_t length, void *at,
                       unsigned style, struct storage_error *error);
/* A view of a range that another task of this space has mapped at `base`, or this process as part
 * of something larger. region->file may have no descriptor. */
int storage_region_borrow(struct storage_region *region, uint64_t file_offset, size_t length,
                          void *base, struct storage_error *error);
/* Unmaps, without flushing. A reservation that was given is the caller's again, still reserved. */
void storage_region_unmap(struct storage_region *region);

/* Durable when it returns 0: data, file size, and what leads to it. The range counts from the
 * region's first byte and lies in it. -EIO and others: the region has failed, now or before, and
 * stays so: what is on the device is not known. Any thread, at any time. */
int storage_region_flush(struct storage_region *region, struct storage_range range,
                         struct storage_error *error);

/* Bytes from which on the next two pay. */
#define STORAGE_BULK ((size_t)64 << 10)

/* memmove to and from the region at an offset, without a fault for each page. fd: of its file, for
 * reading and writing, or -1. What cannot be copied so is copied by stores and loads, and fails as
 * those do. Watching for changes goes by stores, so it keeps them. Any thread. */
void storage_region_store(struct storage_region *region, int fd, uint64_t offset, const void *from,
                          size_t size);
void storage_region_load(struct storage_region *region, int fd, uint64_t offset, void *to,
                         size_t size);

/* ---- Memory ---- */

/* A window, or a part of one, as plain memory beside a range of a file: contiguous addresses. */
struct storage_layout {
    uint64_t file_offset;
    uint64_t storage_length, memory_length; /* bytes; memory's is whole pages, unless it is all */
    int storage_first;
};

/* Divides `size` bytes as the hints say (factor: the one in force, not AUTO). -EINVAL: the offset
 * cannot lie beside memory. */
int storage_layout_divide(struct storage_layout *layout, const struct storage_hints *hints,
                          double factor, uint64_t size, struct storage_error *error);

/* A layout in memory. */
struct storage_part {
    struct storage_layout layout;
    struct storage_region region; /* of the storage part, if there is one */
    char *base;                   /* of both parts */
    void *reservation;            /* of pages around both, or around the memory; NULL: none */
    size_t reservation_length;
};

/* Maps part->layout; part->region.file is set. memory: a descriptor of shared memory for the memory
 * part, or -1 for memory of this address space. */
int storage_part_map(struct storage_part *part, int memory, unsigned style,
                     struct storage_error *error);
void storage_part_unmap(struct storage_part *part);

/* How many bytes this process could fill without swapping: what the machine has, or less when its
 * cgroup allows less. */
uint64_t storage_memory_available(void);

/* ---- Changes ---- */

/* Begins to watch for stores. 0, or -ENOTSUP: the kernel has no way (Linux 6.7: PAGEMAP_SCAN), and
 * storage_region_changes says so too, by naming everything. */
int storage_region_track(struct storage_region *region);

/* Replaces *changes by what was stored into since storage_region_track or the last call, from the
 * region's first byte on, and begins anew. Returns 0, or 1: it is not known, so the one range is
 * the whole region. -errno: no memory.
 *
 * Stores of this address space are seen (all tasks of a space; threads; system calls that write
 * into the memory); not those of other processes, nor pwrite. No store may happen during the call:
 * it may be named or not.  */
int storage_region_changes(struct storage_region *region, struct storage_ranges *changes);

#endif
