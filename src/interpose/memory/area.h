/* src/interpose/memory/area.h: addresses for mappings in a task's own range.
 *
 * The range has two areas, one for files and one for the rest, and a bitmap with a bit for each of
 * their pages: set while the page is used. An area is searched from its cursor, which is behind the
 * place given last, to its end and then from its start: at most once around, a word of the bitmap
 * at a time.
 *
 * Invariant: nothing relies on the bitmap but the search. Mappings that no handler saw are missing
 * in it, and threads may claim the same place at once. Therefore every place is mapped with
 * MAP_FIXED_NOREPLACE or the like, and what is found there after all is entered
 * (area_mark_conflict). So bitmap and cursors need no lock and are consistent enough in signal
 * handlers, in forked and vforked children, and when a thread is killed: relaxed atomics. */
#ifndef ONESPACE_INTERPOSE_MEMORY_AREA_H
#define ONESPACE_INTERPOSE_MEMORY_AREA_H

#include "space/registry.h"

enum { AREA_TRIES = 64 }; /* places tried before giving up */

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

/* By the spawner, when the task's images are mapped: maps the bitmap, with the part of the area for
 * files below its cursor as used. 0 or -errno. */
long area_init(struct space_slot *self);

/* Bytes of the bitmap and what is beside it, from LAYOUT_AREA_MAP on. */
size_t area_map_size(void);

/* A place of `size` bytes, a multiple of the page size, marked as used; 0: there is none. `align`
 * is a power of two of at least a page, and of 1 GiB at most. */
uintptr_t area_claim(struct space_slot *self, enum area_kind kind, size_t size, size_t align);
/* The mapping failed because something lies in the claimed place: marks that, and releases the
 * rest. `tries`: how many places failed before. */
void area_mark_conflict(struct space_slot *self, uintptr_t place, size_t size, int tries);
/* Marks as used what was mapped at an address of the program's choice. */
void area_mark_used(struct space_slot *self, uintptr_t place, size_t size);
/* The pages are free again; of an area's last mapping the cursor moves back. */
void area_release(struct space_slot *self, uintptr_t place, size_t size);
/* Maps a place without access, to reserve it: 0, or -EEXIST and so on. */
long area_reserve(uintptr_t place, size_t size);
/* Whether nothing is mapped there. */
int area_is_free(uintptr_t place, size_t size);

/* System V segments are detached by address alone, so their sizes are kept, as far as there is room
 * for them. The place of any others is released at once, while it is still used. */
void area_record_segment(struct space_slot *self, uintptr_t place, size_t size);
void area_forget_segment(struct space_slot *self, uintptr_t place);

#endif
