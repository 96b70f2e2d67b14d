/* src/interpose/memory/out_of_range.c: record mappings outside the task's range, which the reaper
 * unmaps when the task has ended.
 *
 * Removal cannot fail: an entry that outlived its mapping would unmap another member's memory
 * later. Changes are made under the member's lock (space/lock.h); the reaper reads the table when
 * all of the task's threads have ended, without the lock. */
#include "interpose/memory/memory.h"

#include "base/page.h"
#include "base/raw.h"
#include "space/lock.h"

static void store_entry(struct space_interpose *interpose, uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < SPACE_OUT_OF_RANGE_MAX; i++) {
        if (interpose->out_of_range[i].end == 0) {
            interpose->out_of_range[i].start = start;
            interpose->out_of_range[i].end = end;
            return;
        }
    }
    space_count(&interpose->out_of_range_lost, 1);
    space_count(&space_registry()->overflows.mappings, 1);
}

static void cut_entries(struct space_interpose *interpose, uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < SPACE_OUT_OF_RANGE_MAX; i++) {
        struct space_out_of_range *entry = &interpose->out_of_range[i], old = *entry;
        if (old.end <= start || old.start >= end)
            continue;
        entry->end = 0;
        if (old.start < start)
            store_entry(interpose, old.start, start);
        if (old.end > end)
            store_entry(interpose, end, old.end);
    }
}

static void add_locked(struct space_interpose *interpose, uintptr_t start, size_t size)
{
    /* A forked child's mappings end with it. A mapping in another slot's range, which this task
     * makes when it spawns, belongs to that slot's task. */
    if (!space_marked() || layout_slot_of(start) != LAYOUT_SLOTS)
        return;
    cut_entries(interpose, start, start + size); /* MAP_FIXED over an older one */
    store_entry(interpose, start, start + size);
}

void out_of_range_add(struct space_slot *self, uintptr_t start, size_t size)
{
    uint64_t signals = space_lock(self);
    add_locked(&self->interpose, start, size);
    space_unlock(self, signals);
}

long out_of_range_mmap(struct space_slot *self, const long a[6])
{
    /* Locked around the call, with signals blocked: a task that ends between a mapping and its
     * entry leaks the mapping. */
    uint64_t signals = space_lock(self);
    long result = raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (!raw_failed(result))
        add_locked(&self->interpose, (uintptr_t)result, page_ceiling((uintptr_t)a[1]));
    space_unlock(self, signals);
    return result;
}

void out_of_range_remove(struct space_slot *self, uintptr_t start, size_t size)
{
    if (!space_marked())
        return;
    uint64_t signals = space_lock(self);
    cut_entries(&self->interpose, start, start + size);
    space_unlock(self, signals);
}

void out_of_range_forget(struct space_slot *self, uintptr_t start)
{
    if (!space_marked())
        return;
    uint64_t signals = space_lock(self);
    for (unsigned i = 0; i < SPACE_OUT_OF_RANGE_MAX; i++)
        if (self->interpose.out_of_range[i].end && self->interpose.out_of_range[i].start == start)
            self->interpose.out_of_range[i].end = 0;
    space_unlock(self, signals);
}
