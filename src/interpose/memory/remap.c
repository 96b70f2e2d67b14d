/* src/interpose/memory/remap.c: mremap: what lies in the task's range stays there. */
#include "interpose/memory/memory.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/memory/area.h"

/* Whether the old addresses stay mapped: the pages alone move, or, with size 0, are shared. */
static int leaves_old(const long a[6])
{
    return a[1] == 0 || (a[3] & MREMAP_DONTUNMAP);
}

long remap_into_range(struct space_slot *self, const long a[6])
{
    size_t size = page_ceiling((size_t)a[2]);
    size_t align = size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE;
    for (int tries = 0; tries < AREA_TRIES; tries++) {
        uintptr_t place = area_claim(self, AREA_MAPPINGS, size, align);
        if (!place)
            break;
        /* Reserve the addresses first: MREMAP_FIXED replaces whatever is there. */
        long result = area_reserve(place, size);
        if (result == -EEXIST) {
            area_mark_conflict(self, place, size, tries);
            continue;
        }
        if (result == 0) {
            result = raw(__NR_mremap, a[0], a[1], a[2], a[3] | MREMAP_FIXED, place);
            if (!raw_failed(result))
                return result;
            raw(__NR_munmap, place, size);
        }
        area_release(self, place, size);
        return result;
    }
    return -EEXIST;
}

/* In place if possible, else elsewhere in the range; -EEXIST: there is no room in it. */
static long remap_in_range(struct space_slot *self, const long a[6])
{
    if (leaves_old(a))
        return remap_into_range(self, a);
    long result = raw(__NR_mremap, a[0], a[1], a[2], a[3] & ~(long)MREMAP_MAYMOVE);
    return result == -ENOMEM ? remap_into_range(self, a) : result;
}

/* Brings the bitmap up to date after a call on a mapping in the range that succeeded. */
static void note(struct space_slot *self, const long a[6], uintptr_t now)
{
    uintptr_t before = (uintptr_t)a[0];
    size_t old_size = page_ceiling((size_t)a[1]), size = page_ceiling((size_t)a[2]);
    if (in_range(self, now, size))
        area_mark_used(self, now, size);
    if (leaves_old(a) || !in_range(self, before, old_size))
        return;
    if (now != before)
        area_release(self, before, old_size);
    else if (size < old_size)
        area_release(self, before + size, old_size - size);
}

/* Of a mapping that tasks share; where it is moved to is this task's alone. */
static long remap_shared(struct space_slot *self, const long a[6], size_t size)
{
    long result = shared_mremap(self, a);
    if (raw_failed(result) || shared_windows_contain((uintptr_t)result))
        return result;
    if (in_range(self, (uintptr_t)result, size))
        area_mark_used(self, (uintptr_t)result, size);
    else
        out_of_range_add(self, (uintptr_t)result, size);
    return result;
}

long interpose_mremap(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    size_t old_size = page_ceiling((size_t)a[1]), size = page_ceiling((size_t)a[2]);
    int is_plain = size && size >= (size_t)a[2] && old_size >= (size_t)a[1] &&
                   (a[0] | (a[3] & MREMAP_FIXED ? a[4] : 0)) % ARCH_PAGE == 0;
    int is_ours = is_plain && in_range(self, (uintptr_t)a[0], old_size);
    long result = -EEXIST;
    if ((a[3] & MREMAP_FIXED) && shared_windows_contain((uintptr_t)a[4]) && process_in_space())
        return -ENOMEM;
    if (shared_windows_contain((uintptr_t)a[0]))
        return remap_shared(self, a, size);
    brk_note_change(self, (uintptr_t)a[0], old_size);
    if (a[3] & MREMAP_FIXED)
        brk_note_change(self, (uintptr_t)a[4], size);
    if (is_ours && (a[3] & (MREMAP_MAYMOVE | MREMAP_FIXED)) == MREMAP_MAYMOVE)
        result = remap_in_range(self, a);
    if (result == -EEXIST)
        result = is_plain ? out_of_range_mremap(self, a, leaves_old(a))
                          : raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    if (!raw_failed(result) && is_plain)
        note(self, a, (uintptr_t)result);
    return result;
}
