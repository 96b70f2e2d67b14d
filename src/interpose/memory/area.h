/* src/interpose/memory/area.h: addresses for mappings in a task's own range.
 *
 * Addresses are allocated upwards from a cursor (one for files, one for the rest). Unmapping the
 * last mapping moves the cursor back; at the end of an area the search starts over.
 * MAP_FIXED_NOREPLACE makes every attempt safe, so the cursors are only hints and need no lock:
 * relaxed atomics. */
#ifndef ONESPACE_INTERPOSE_MEMORY_AREA_H
#define ONESPACE_INTERPOSE_MEMORY_AREA_H

#include "registry/space.h"

enum { AREA_TRIES = 64 }; /* addresses tried before giving up */

static inline uintptr_t range_of(const struct space_slot *self)
{
    return layout_range(space_slot_index(space_registry(), self));
}

static inline int in_range(const struct space_slot *self, uintptr_t start, size_t size)
{
    uintptr_t low = range_of(self);
    return start >= low && size <= LAYOUT_RANGE && start - low <= LAYOUT_RANGE - size;
}

struct area {
    _Atomic uint64_t *next;
    uintptr_t start, end;
};

static inline struct area area_for(struct space_slot *self, int is_file)
{
    uintptr_t range = range_of(self);
    return is_file ? (struct area){&self->interpose.files_next, range + LAYOUT_FILES,
                                   range + LAYOUT_MAPPINGS}
                   : (struct area){&self->interpose.mappings_next, range + LAYOUT_MAPPINGS,
                                   range + LAYOUT_BREAK};
}

/* The next address for `size` bytes, or 0 if the area is too small. */
uintptr_t area_take(const struct area *area, size_t size, size_t align);
/* Moves the cursor back when its last mapping goes. */
void area_give_back(const struct area *area, uintptr_t address, size_t size);

#endif
