/* src/interpose/memory/out_of_range.c: record mappings outside the task's range, which the reaper
 * unmaps when the task has ended.
 *
 * An entry that outlived its mapping would unmap another member's memory later. Therefore it is
 * removed before the mapping is, and comes back if the kernel refuses. Changes are made under the
 * member's lock (space/lock.h); the reaper reads the table when all of the task's threads have
 * ended, without the lock. */
#include "interpose/memory/memory.h"

#include <errno.h>
#include <linux/mman.h>

#include "base/page.h"
#include "base/raw.h"
#include "space/lock.h"

/* In `start`: the addresses are being unmapped, and the entry is one only if that fails. The reaper
 * leaves it alone, as what lies there may be another member's already. */
enum { IN_DOUBT = SPACE_OUT_OF_RANGE_IN_DOUBT };

static int try_store(struct space_interpose *interpose, uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < SPACE_OUT_OF_RANGE_MAX; i++) {
        if (interpose->out_of_range[i].end == 0) {
            interpose->out_of_range[i].start = start;
            interpose->out_of_range[i].end = end;
            return 1;
        }
    }
    return 0;
}

static void store_entry(struct space_interpose *interpose, uintptr_t start, uintptr_t end)
{
    if (try_store(interpose, start, end))
        return;
    space_count(&interpose->out_of_range_lost, 1);
    space_count(&space_registry()->overflows.mappings, 1);
}

/* Removes [start, end) from all entries; with a `doubt`, until it is settled. */
static void cut_entries(struct space_interpose *interpose, uintptr_t start, uintptr_t end,
                        uintptr_t doubt)
{
    for (unsigned i = 0; i < SPACE_OUT_OF_RANGE_MAX; i++) {
        struct space_out_of_range *entry = &interpose->out_of_range[i], old = *entry;
        if (old.end <= start || old.start >= end || (old.start & IN_DOUBT))
            continue;
        entry->end = 0;
        if (old.start < start)
            store_entry(interpose, old.start, start);
        if (old.end > end)
            store_entry(interpose, end, old.end);
        if (doubt)
            try_store(interpose, (old.start < start ? start : old.start) | doubt,
                      old.end > end ? end : old.end);
    }
}

static void settle(struct space_interpose *interpose, int is_unmapped)
{
    for (unsigned i = 0; i < SPACE_OUT_OF_RANGE_MAX; i++) {
        struct space_out_of_range *entry = &interpose->out_of_range[i];
        if (!entry->end || !(entry->start & IN_DOUBT))
            continue;
        if (is_unmapped)
            entry->end = 0;
        entry->start &= ~(uintptr_t)IN_DOUBT;
    }
}

/* After an mremap that failed: it may have unmapped what it was to replace before it failed, and
 * which kernel does so differs. */
static void settle_by_looking(struct space_interpose *interpose)
{
    for (unsigned i = 0; i < SPACE_OUT_OF_RANGE_MAX; i++) {
        struct space_out_of_range *entry = &interpose->out_of_range[i];
        unsigned char resident;
        if (!entry->end || !(entry->start & IN_DOUBT))
            continue;
        if (raw(__NR_mincore, entry->start & ~(uintptr_t)IN_DOUBT, ARCH_PAGE, &resident) == -ENOMEM)
            entry->end = 0;
        entry->start &= ~(uintptr_t)IN_DOUBT;
    }
}

static void add_locked(struct space_interpose *interpose, uintptr_t start, size_t size)
{
    /* A forked child's mappings end with it. A mapping in another slot's range, which this task
     * makes when it spawns, belongs to that slot's task. */
    if (!space_marked() || layout_slot_of(start) != LAYOUT_SLOTS)
        return;
    cut_entries(interpose, start, start + size, 0); /* MAP_FIXED over an older one */
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

long out_of_range_munmap(struct space_slot *self, uintptr_t start, size_t size)
{
    if (!space_marked() || page_floor(start) != start)
        return raw(__NR_munmap, start, size);
    uint64_t signals = space_lock(self);
    cut_entries(&self->interpose, start, start + page_ceiling(size), IN_DOUBT);
    long result = raw(__NR_munmap, start, size);
    settle(&self->interpose, result == 0);
    space_unlock(self, signals);
    return result;
}

long out_of_range_mremap(struct space_slot *self, const long a[6], int leaves_old)
{
    if (!space_marked())
        return raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    uintptr_t before = (uintptr_t)a[0], wanted = (uintptr_t)a[4];
    size_t old_size = page_ceiling((size_t)a[1]), size = page_ceiling((size_t)a[2]);
    uint64_t signals = space_lock(self);
    if (!leaves_old)
        cut_entries(&self->interpose, before, before + old_size, IN_DOUBT);
    if (a[3] & MREMAP_FIXED)
        cut_entries(&self->interpose, wanted, wanted + size, IN_DOUBT);
    long result = raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    if (raw_failed(result)) {
        settle_by_looking(&self->interpose);
    } else {
        settle(&self->interpose, 1);
        add_locked(&self->interpose, (uintptr_t)result, size);
    }
    space_unlock(self, signals);
    return result;
}

/* shmdt is not given the size: the entry that starts at the address is the attachment. */
long out_of_range_shmdt(struct space_slot *self, uintptr_t start)
{
    if (!space_marked())
        return raw(__NR_shmdt, start);
    uint64_t signals = space_lock(self);
    for (unsigned i = 0; i < SPACE_OUT_OF_RANGE_MAX; i++)
        if (self->interpose.out_of_range[i].end && self->interpose.out_of_range[i].start == start)
            self->interpose.out_of_range[i].start |= IN_DOUBT;
    long result = raw(__NR_shmdt, start);
    settle(&self->interpose, result == 0);
    space_unlock(self, signals);
    return result;
}
