/* src/storage/region/region.h: memory that is backed by a file.
 *
 *   region.c       a mapping of a range of the file at any offset
 *   memory_part.c  memory beside storage, at contiguous addresses; available memory
 *   bulk_copy.c    large copies into a region and out of it
 *   flush.c        makes ranges durable; a failure is final
 *   dirty_pages.c  which ranges were stored into
 *   sigbus.c       turns SIGBUS in a region into an error of the next flush
 *
 * All of it works in plain processes and in tasks of a space. Functions return 0 or -errno; after a
 * failure `struct storage_error` says what was wrong and how to fix it. */
#ifndef ONESPACE_STORAGE_REGION_REGION_H
#define ONESPACE_STORAGE_REGION_REGION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "storage/file/file.h"

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
    int in_reservation; /* inside a reservation of the caller */
    int is_view;        /* of a mapping with another owner */
    int is_copy;        /* memory that the range was read into; flushes write it to the file */
    unsigned style;     /* enum storage_style */
    struct storage_direct *direct;           /* for styles that use direct I/O; or NULL */
    struct storage_changes *changes;         /* dirty_pages.c; NULL: not tracked */
    _Atomic uint64_t hot[STORAGE_HOT_WORDS]; /* bulk_copy.c */
    /* *failed: 0, or the errno of the first flush or access that failed; final. Set once, from 0,
     * by any thread and by the signal handler in sigbus.c (relaxed: it guards no data). Mapping
     * points it to `failed_here`; views of one range may share a word. */
    _Atomic int *failed;
    _Atomic int failed_here;
};

/* Reserves `length` bytes of addresses, whole pages, for a mapping of a file from `offset` on,
 * which begins `before` bytes behind the first. NULL: errno says why.
 *
 * A mapping at addresses congruent to its offset modulo storage_folio_max() gets one entry of the
 * page table for 2 MiB, which `sequential` windows want. Windows with versions must not: Linux 6.8
 * does not report stores into such memory that it has taken back before the next commit (6.12.117
 * and 6.18.44 do); into persistent memory perhaps none (not tried). */
void *storage_reserve(size_t length, uint64_t offset, size_t before, unsigned style);

/* Records a put or get. Whether the range was used so often lately that loads and stores are better
 * than system calls. */
int storage_region_is_hot(struct storage_region *region, uint64_t offset);

/* Maps [file_offset, + length) of region->file, at `at` (with the right offset in its page, inside
 * a reservation of the caller) or anywhere when it is NULL. style: enum storage_style. */
int storage_region_map(struct storage_region *region, uint64_t file_offset, size_t length, void *at,
                       unsigned style, struct storage_error *error);
/* The same in shared memory in place of the file, for devices that cannot write to its pages: whole
 * pages from `memory_offset` of the descriptor on. The owner then calls storage_region_read. Sets
 * region->is_copy. */
int storage_region_map_copy(struct storage_region *region, uint64_t file_offset, size_t length,
                            void *at, int memory, uint64_t memory_offset, unsigned style,
                            struct storage_error *error);
/* Reads the range from region->file into the copy. */
int storage_region_read(struct storage_region *region, struct storage_error *error);
/* A view of a range that another task of this space, or this process as part of a larger region,
 * has mapped at `base`. region->file may have no descriptor. */
int storage_region_view(struct storage_region *region, uint64_t file_offset, size_t length,
                        void *base, struct storage_error *error);
/* Unmaps, without flushing. A reservation of the caller stays reserved. */
void storage_region_unmap(struct storage_region *region);

/* Durable when it returns 0: data, file size, and the metadata that leads to them. The range counts
 * from the region's first byte and lies inside it. fd: of its file, for reading and writing; or -1
 * if this process has none and the region is no copy. -EIO and others: the region has failed, now
 * or before, and stays so: what is on the device is unknown. Only a copy whose file cannot be
 * written to (-ENOSPC and others but -EIO) has not, and may be flushed again. Any thread, at any
 * time. */
int storage_region_flush(struct storage_region *region, int fd, struct storage_range range,
                         struct storage_error *error);

/* 0, or the error of a region that has failed, now or before: what is in memory is not what was
 * stored. fd: as for storage_region_flush. */
int storage_region_check(struct storage_region *region, int fd, struct storage_error *error);

/* For a caller that has found the file cut: the region fails, as if storage_region_check had. */
int storage_region_fail_cut(struct storage_region *region, struct storage_error *error);

/* Copies to and from the region at an offset, without a fault per page; for 64 KiB and more. fd: of
 * its file, for reading and writing, or -1; not used for a copy. Loads and stores copy the bytes
 * that system calls cannot copy. A tracked region is only stored into, because only stores are
 * tracked. Any thread.
 */
void storage_region_store(struct storage_region *region, int fd, uint64_t offset, const void *from,
                          size_t size);
void storage_region_load(struct storage_region *region, int fd, uint64_t offset, void *to,
                         size_t size);

/* ---- Memory ---- */

/* A window, or a part of one, may be memory beside a range of a file, at contiguous addresses. */
struct storage_layout {
    uint64_t file_offset;
    uint64_t storage_length, memory_length; /* bytes; memory that storage follows is whole pages */
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

/* Maps part->layout; part->region.file and .is_copy are set. memory: a descriptor of shared memory
 * for the memory part and, from the next page on, the copy; or -1 for memory of this address space,
 * and no copy.
 */
int storage_part_map(struct storage_part *part, int memory, unsigned style,
                     struct storage_error *error);
void storage_part_unmap(struct storage_part *part);

/* Bytes that this process could fill without swapping: the machine's available memory, or less if
 * the cgroup allows less. */
uint64_t storage_memory_available(void);

/* ---- Dirty ranges ---- */

/* Appends a range. 0 or -ENOMEM. */
int storage_ranges_add(struct storage_ranges *ranges, uint64_t offset, uint64_t length);

/* Starts tracking stores. 0; -ENOTSUP: the kernel cannot (PAGEMAP_SCAN needs Linux 6.7); -EBUSY: a
 * userfaultfd of another library has registered the memory, and a mapping can have only one. After
 * a failure storage_region_changes reports the whole region. */
int storage_region_track(struct storage_region *region);

/* Replaces *changes by the ranges stored into since storage_region_track or the last call, counted
 * from the region's first byte, and restarts tracking. 0; 1: unknown, so the only range is the
 * whole region; or -errno: out of memory.
 *
 * Tracks the stores of this address space: of all tasks of a space, of threads, and of system calls
 * that write into the memory. Not those of other processes, and not pwrite. There must be no store
 * during the call. */
int storage_region_changes(struct storage_region *region, struct storage_ranges *changes);

/* ---- Shared by the files of this directory ---- */

static inline size_t storage_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Whole pages for so many bytes. */
static inline uint64_t storage_page_up(uint64_t bytes)
{
    uint64_t page = storage_page_size();
    return (bytes + page - 1) & -page;
}

/* The largest folio of the page cache, and its alignment: what a full page of page table entries
 * maps. 2 MiB where pages have 4 KiB, more where they are larger. */
static inline size_t storage_folio_max(void)
{
    size_t page = storage_page_size();
    return page / 8 * page;
}

/* bulk_copy.c: the state of direct I/O of one region. NULL: out of memory, or no direct I/O. */
struct storage_direct *storage_direct_new(void);
void storage_direct_free(struct storage_direct *direct);

/* sigbus.c: registers the region with the SIGBUS handler: a page that cannot be read is replaced by
 * private zeroes, and region->failed is set. 0 or -errno (-EAGAIN: too many regions). */
int sigbus_register(struct storage_region *region);
void sigbus_unregister(struct storage_region *region);

/* dirty_pages.c: call it before the region is unmapped. */
void storage_region_untrack(struct storage_region *region);

#endif
