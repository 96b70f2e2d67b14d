/* src/interpose/memory/memory.h: mapping, growing and unmapping a task's memory.
 *
 * The handlers are declared in interpose/calls.h; this header has what they share. */
#ifndef ONESPACE_INTERPOSE_MEMORY_MEMORY_H
#define ONESPACE_INTERPOSE_MEMORY_MEMORY_H

#include <linux/mman.h>
#include <stddef.h>
#include <stdint.h>

#include "space/registry.h"

/* ---- area.c: addresses for mappings in the task's own range ----
 *
 * The range has two areas, one for files and one for the rest, and a bitmap with a bit for each of
 * their pages: set while the page is used. An area is searched from its cursor, which is after the
 * last claim, to its end and then from its start: at most once around, a word of the bitmap at a
 * time.
 *
 * Invariant: only the search relies on the bitmap. It lacks mappings that no handler saw, and
 * threads may claim the same addresses at once. Therefore claimed addresses are mapped with
 * MAP_FIXED_NOREPLACE or the like, and a mapping that turns out to be there is entered
 * (area_mark_conflict). So bitmap and cursors need no lock and are consistent enough in signal
 * handlers, in forked and vforked children, and when a thread is killed: relaxed atomics. */

enum { AREA_TRIES = 64 }; /* addresses to try before giving up */

enum area_kind { AREA_FILES, AREA_MAPPINGS };

static inline uintptr_t range_of(const struct space_slot *self)
{
    return layout_range(slot_index(space_registry(), self));
}

static inline int in_range(const struct space_slot *self, uintptr_t start, size_t size)
{
    uintptr_t low = range_of(self);
    return start >= low && size <= LAYOUT_RANGE && start - low <= LAYOUT_RANGE - size;
}

/* By the spawner, when the task's images are mapped: maps the bitmap and marks the part of the area
 * for files below its cursor as used. 0 or -errno. */
long area_init(struct space_slot *self);

/* Bytes of the bitmap and the table of segments, from LAYOUT_AREA_MAP on. */
size_t area_map_size(void);

/* Claims `size` bytes, a multiple of the page size: marks them as used and returns the address; 0
 * if the area is full. `align` is a power of two from a page to 1 GiB. */
uintptr_t area_claim(struct space_slot *self, enum area_kind kind, size_t size, size_t align);
/* Mapping the claimed addresses failed because something is mapped there: marks that as used and
 * releases the rest. `tries`: the number of earlier failures. */
void area_mark_conflict(struct space_slot *self, uintptr_t start, size_t size, int tries);
/* Marks a mapping at an address that the program has chosen. */
void area_mark_used(struct space_slot *self, uintptr_t start, size_t size);
/* Marks the pages as free. If they were the last claimed, the cursor moves back. */
void area_release(struct space_slot *self, uintptr_t start, size_t size);
/* Reserves addresses by a mapping without access: 0, or -errno (-EEXIST). */
long area_reserve(uintptr_t start, size_t size);
/* Whether nothing is mapped at these addresses. */
int area_is_free(uintptr_t start, size_t size);

/* shmdt is given no size, so the sizes of attached System V segments are recorded. If the table is
 * full, the addresses are marked as free at once, although they are still used. */
void area_record_segment(struct space_slot *self, uintptr_t start, size_t size);
void area_forget_segment(struct space_slot *self, uintptr_t start);

/* ---- The handlers ---- */

/* map.c: mmap without the search for patch sites at the beginning of the file. */
long interpose_mmap_unpatched(struct space_slot *self, const long arguments[6]);
/* mmap in the area for files, where libraries lie: the address or -errno. */
long mmap_in_files(struct space_slot *self, const long arguments[6]);

/* map.c: mappings outside the range, which are recorded. */
long out_of_range_shmdt(struct space_slot *self, uintptr_t start);
void out_of_range_add(struct space_slot *self, uintptr_t start, size_t size);

/* Whether mremap leaves the old addresses mapped: only the pages move, or, with size 0, are shared.
 */
static inline int mremap_keeps_old(const long arguments[6])
{
    return arguments[1] == 0 || (arguments[3] & MREMAP_DONTUNMAP);
}

/* map.c: mremap to an address in the range; the kernel would choose one outside. With an old size
 * of 0 it duplicates a shared mapping. -EEXIST: the range is full. */
long mremap_into_range(struct space_slot *self, const long arguments[6]);

/* shared.c: calls that may return, or change, a mapping that other tasks use, too. NOT_SHARED: make
 * the call as if nothing were shared. */
enum { NOT_SHARED = 0 };
long shared_mmap(struct space_slot *self, const long arguments[6]);
/* For addresses in the windows of shared mappings. */
long shared_mmap_at(struct space_slot *self, const long arguments[6]);
long shared_munmap(struct space_slot *self, const long arguments[6]);
long shared_mprotect(struct space_slot *self, long nr, const long arguments[6]);
long shared_mremap(struct space_slot *self, const long arguments[6]);

/* brk.c: from now on the break moves without a system call: its whole range is mapped and stays so.
 * 0 if that was done before. brk_unreserve undoes it. */
int brk_reserve(struct space_slot *self);
void brk_unreserve(struct space_slot *self);
/* Whether brk_reserve was called: the program may have forbidden system calls. */
int brk_is_reserved(const struct space_slot *self);
/* The program changes mappings at these addresses: records it if they are the heap's. */
void brk_record_change(struct space_slot *self, uintptr_t start, size_t size);

/* records.c: whether the task has sealed what the call would change. */
int seal_forbids(const struct space_slot *self, long nr, const long arguments[6]);

/* interpose/registrations.c: the call may unmap or discard memory: tells the members that have
 * registered it with a device. */
void notify_registrants(const struct space_slot *self, long nr, const long arguments[6]);

/* brk.c: the memory that a break lowered to `wanted` gives up: [start, end), maybe empty. */
void brk_discarded(const struct space_slot *self, uintptr_t wanted, uintptr_t *start,
                   uintptr_t *end);
/* area.c: the size of the System V segment attached at `start`, 0: unknown. */
size_t area_segment_size(const struct space_slot *self, uintptr_t start);

/* records.c: whether the advice discards the contents of pages. */
int advice_discards(long advice);

/* records.c: updates the DONTFORK marks after a call that changed the map. */
void dontfork_update(struct space_slot *self, long nr, const long arguments[6], long result);

#endif
