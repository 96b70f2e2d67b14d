/* src/storage/region/region.h: memory that is backed by a file. */
#ifndef ONESPACE_STORAGE_REGION_REGION_H
#define ONESPACE_STORAGE_REGION_REGION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "storage/file/file.h"

/* memory that is backed by a file.
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

struct storage_changes;
struct storage_direct;

/* A range of a file in memory, as one process sees it; other processes have their own region of the
 * same file. */
enum { STORAGE_HOT_WORDS = 64 };
struct storage_region {
    struct storage_file file;
    uint64_t file_offset; /* of the first byte; any */
    char *base;           /* address of that byte, with the same offset in its page */
    size_t length;        /* bytes; 0: nothing is mapped */
    void *mapping;        /* whole pages around it */
    size_t mapping_length;
    int is_placed;                           /* inside a reservation of the caller */
    int is_borrowed;                         /* the mapping belongs to somebody else */
    unsigned style;                          /* enum storage_style */
    struct storage_direct *direct;           /* for styles that want direct I/O; or NULL */
    struct storage_changes *changes;         /* changes.c; NULL: not tracked */
    _Atomic uint64_t hot[STORAGE_HOT_WORDS]; /* hot.c */
    /* *failed: 0, or the errno of the first flush or access that failed; final. Set once, from 0,
     * by any thread and by the signal handler in guard.c (relaxed: nothing else depends on it).
     * Mapping points it to `failed_here`; views of one range may share a word. */
    _Atomic int *failed;
    _Atomic int failed_here;
};

/* Notes a put or get. Whether there were so many at this offset lately that loads and stores are
 * better than system calls. */
int storage_region_is_hot(struct storage_region *region, uint64_t offset);

/* Maps [file_offset, + length) of region->file, at `at` (with the right offset in its page, inside
 * a reservation of the caller) or anywhere when it is NULL. style: enum storage_style. */
int storage_region_map(struct storage_region *region, uint64_t file_offset, size_t length, void *at,
                       unsigned style, struct storage_error *error);
/* A view of a range that another task of this space, or this process as part of a larger region,
 * has mapped at `base`. region->file may have no descriptor. */
int storage_region_borrow(struct storage_region *region, uint64_t file_offset, size_t length,
                          void *base, struct storage_error *error);
/* Unmaps, without flushing. A reservation of the caller stays reserved. */
void storage_region_unmap(struct storage_region *region);

/* Durable when it returns 0: data, file size, and the metadata that leads to them. The range counts
 * from the region's first byte and lies inside it. -EIO and others: the region has failed, now or
 * before, and stays so: what is on the device is unknown. Any thread, at any time. */
int storage_region_flush(struct storage_region *region, struct storage_range range,
                         struct storage_error *error);

/* memmove to and from the region at an offset, without a fault per page; for 64 KiB and more. fd:
 * of its file, for reading and writing, or -1. What system calls cannot copy is copied by loads and
 * stores, and fails as those do. Tracking sees stores only, so a tracked region is always stored
 * into. Any thread. */
void storage_region_store(struct storage_region *region, int fd, uint64_t offset, const void *from,
                          size_t size);
void storage_region_load(struct storage_region *region, int fd, uint64_t offset, void *to,
                         size_t size);

/* ---- Memory ---- */

/* A window, or a part of one, may be memory beside a range of a file, at contiguous addresses. */
struct storage_layout {
    uint64_t file_offset;
    uint64_t storage_length,
        memory_length; /* bytes; memory_length is whole pages, unless storage_length is 0 */
    int storage_first;
};

/* Divides `size` bytes as the hints say (factor: the resolved one, not AUTO). -EINVAL: storage at
 * this offset cannot follow memory. */
int storage_layout_divide(struct storage_layout *layout, const struct storage_hints *hints,
                          double factor, uint64_t size, struct storage_error *error);

/* A layout, mapped. */
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

/* How many bytes this process could fill without swapping: what the machine has available, or less
 * when its cgroup allows less. */
uint64_t storage_memory_available(void);

/* ---- Changes ---- */

/* Adds a range behind the others. 0 or -ENOMEM. */
int storage_ranges_add(struct storage_ranges *ranges, uint64_t offset, uint64_t length);

/* Starts tracking stores. 0; -ENOTSUP: the kernel cannot (PAGEMAP_SCAN is of Linux 6.7); or -EBUSY:
 * a userfaultfd of another library has registered the memory, and a mapping has room for one only.
 * After a failure storage_region_changes reports the whole region. */
int storage_region_track(struct storage_region *region);

/* Replaces *changes by the ranges stored into since storage_region_track or the last call, counted
 * from the region's first byte, and starts anew. Returns 0; 1: not known, so the only range is the
 * whole region; or -errno: out of memory.
 *
 * Stores of this address space are seen: of all tasks of a space, of threads, and of system calls
 * that write into the memory; not those of other processes, nor pwrite. A store that happens during
 * the call may or may not be reported, so there must be none. */
int storage_region_changes(struct storage_region *region, struct storage_ranges *changes);

/* ---- Shared by the files of this directory ---- */

/* what the files of this directory share besides region.h. */

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
