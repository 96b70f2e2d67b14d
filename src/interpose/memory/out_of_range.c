/* src/interpose/memory/out_of_range.c: record mappings outside the task's range, which the reaper
 * unmaps when the task has ended.
 *
 * An entry that outlived its mapping would unmap another member's memory later. Therefore it is
 * removed before the mapping is, and comes back if the kernel refuses. Changes are made under the
 * member's lock (space/locks.h); the reaper reads the table when all of the task's threads have
 * ended, without the lock. */
#include "interpose/memory/memory.h"

#include <errno.h>
#include <linux/mman.h>

#include "base/page.h"
#include "base/raw.h"
#include "space/intervals.h"
#include "space/locks.h"

static const enum space_interval_kind OURS = INTERVALS_OUT_OF_RANGE;

static void count_lost(struct space_slot *self, unsigned lost)
{
    if (!lost)
        return;
    counter_add(&self->interpose.out_of_range_lost, lost);
    counter_add(&space_registry()->overflows.mappings, lost);
}

/* The addresses are being unmapped, and the entries count again only if that fails. The reaper
 * leaves them alone, as what lies there may be another member's already. */
static void doubt(struct space_slot *self, uintptr_t start, uintptr_t end)
{
    count_lost(self, intervals_cut(self, OURS, start, end, INTERVAL_DOUBT));
}

static int is_gone(uintptr_t start)
{
    (void)start;
    return 1;
}

static int is_there(uintptr_t start)
{
    (void)start;
    return 0;
}

/* After an mremap that failed: it may have unmapped what it was to replace before it failed, and
 * which kernel does so differs. */
static int is_unmapped(uintptr_t start)
{
    unsigned char resident;
    return raw(__NR_mincore, start, ARCH_PAGE, &resident) == -ENOMEM;
}

/* An address inside an entry needs no other one, but another task may have mapped over it. */
static void add_locked(struct space_slot *self, uintptr_t start, size_t size)
{
    /* A forked child's mappings end with it. A mapping in another slot's range, which this task
     * makes when it spawns, belongs to that slot's task. */
    if (!process_in_space() || layout_slot_of(start) != LAYOUT_SLOTS)
        return;
    count_lost(self, intervals_add(self, OURS, start, start + size) != 0);
    intervals_remove_from_others(space_registry(), self, start, start + size);
}

void out_of_range_add(struct space_slot *self, uintptr_t start, size_t size)
{
    uint64_t signals = member_lock(self);
    add_locked(self, start, size);
    member_unlock(self, signals);
}

long out_of_range_mmap(struct space_slot *self, const long a[6])
{
    /* Locked around the call, with signals blocked: a task that ends between a mapping and its
     * entry leaks the mapping. */
    uint64_t signals = member_lock(self);
    long result = raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (!raw_failed(result))
        add_locked(self, (uintptr_t)result, page_ceiling((uintptr_t)a[1]));
    member_unlock(self, signals);
    return result;
}

long out_of_range_munmap(struct space_slot *self, uintptr_t start, size_t size)
{
    if (!process_in_space() || page_floor(start) != start)
        return raw(__NR_munmap, start, size);
    uint64_t signals = member_lock(self);
    doubt(self, start, start + page_ceiling(size));
    long result = raw(__NR_munmap, start, size);
    intervals_resolve_doubts(self, OURS, result == 0 ? is_gone : is_there);
    member_unlock(self, signals);
    return result;
}

long out_of_range_mremap(struct space_slot *self, const long a[6], int leaves_old)
{
    if (!process_in_space())
        return raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    uintptr_t before = (uintptr_t)a[0], wanted = (uintptr_t)a[4];
    size_t old_size = page_ceiling((size_t)a[1]), size = page_ceiling((size_t)a[2]);
    uint64_t signals = member_lock(self);
    if (!leaves_old)
        doubt(self, before, before + old_size);
    if (a[3] & MREMAP_FIXED)
        doubt(self, wanted, wanted + size);
    long result = raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    if (raw_failed(result)) {
        intervals_resolve_doubts(self, OURS, is_unmapped);
    } else {
        intervals_resolve_doubts(self, OURS, is_gone);
        add_locked(self, (uintptr_t)result, size);
    }
    member_unlock(self, signals);
    return result;
}

/* shmdt is not given the size, and the entry may hold more than the attachment: what has gone is
 * found by looking. */
long out_of_range_shmdt(struct space_slot *self, uintptr_t start)
{
    uintptr_t low, high, end = start;
    if (!process_in_space())
        return raw(__NR_shmdt, start);
    uint64_t signals = member_lock(self);
    int is_known =
        intervals_find(self, OURS, start, INTERVAL_ADDRESSES, &low, &high) && low == start;
    long result = raw(__NR_shmdt, start);
    while (result == 0 && is_known && end < high && is_unmapped(end))
        end += ARCH_PAGE;
    if (end > start)
        count_lost(self, intervals_cut(self, OURS, start, end, 0));
    member_unlock(self, signals);
    return result;
}
