/* src/interpose/memory/map.c: mmap, munmap and mremap: a task's mappings lie in its own range.
 *
 * If that is not possible, the kernel chooses an address, and the mapping is recorded
 * (out_of_range.c). */
#include "interpose/memory/memory.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/memory/area.h"
#include "interpose/patch.h"

/* mmap in the task's range; -EEXIST if no free address was found. */
static long map_in_range(struct space_slot *self, size_t size, int is_file, const long a[6])
{
    struct area area = area_for(self, is_file);
    size_t align = !is_file && size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE;
    for (int tries = 0; tries < AREA_TRIES; tries++) {
        uintptr_t place = area_take(&area, size, align);
        if (!place)
            break;
        long result = raw(__NR_mmap, place, a[1], a[2], a[3] | MAP_FIXED_NOREPLACE, a[4], a[5]);
        if (result != -EEXIST)
            return result;
    }
    return -EEXIST;
}

static long map_anywhere(struct space_slot *self, const long a[6])
{
    int stays =
        (a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE)) && in_range(self, (uintptr_t)a[0], (size_t)a[1]);
    return stays ? raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5])
                 : out_of_range_mmap(self, a);
}

static long map_at(struct space_slot *self, const long a[6])
{
    long result = map_anywhere(self, a);
    int is_code = (a[2] & PROT_EXEC) && !(a[2] & PROT_WRITE) && (a[3] & MAP_PRIVATE) &&
                  !(a[3] & MAP_ANONYMOUS) && a[4] >= 0;
    if (is_code && !raw_failed(result) && in_range(self, (uintptr_t)result, (size_t)a[1]))
        interpose_patch_loaded(self, (uintptr_t)result, (size_t)a[1], (int)a[4], a[5]);
    return result;
}

/* The address is a hint: the program uses what it gets. It is ignored (-EEXIST) if it is occupied
 * or in the range of another slot: the mapping would be unmapped when that slot's task, present or
 * future, ends. (Intel MPI's heap asks for addresses 64 GiB apart.) */
static long map_at_hint(struct space_slot *self, const long a[6])
{
    if (!in_range(self, (uintptr_t)a[0], (size_t)a[1]) &&
        layout_slot_of((uintptr_t)a[0]) != LAYOUT_SLOTS)
        return -EEXIST;
    long b[6] = {(long)page_floor((uintptr_t)a[0]), a[1], a[2],
                 a[3] | MAP_FIXED_NOREPLACE,        a[4], a[5]};
    long result = map_anywhere(self, b);
    return result == -EPERM || result == -ENOMEM ? -EEXIST : result;
}

long interpose_mmap(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    size_t size = page_ceiling((size_t)a[1]);
    int flags = (int)a[3], is_file = !(flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE);
    if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
        return map_at(self, a);
    if ((flags & (MAP_32BIT | MAP_HUGETLB | MAP_GROWSDOWN)) || size < (size_t)a[1])
        return map_anywhere(self, a);
    long result = -EEXIST;
    /* ld.so passes the linked address even of a position independent program: not a hint. */
    if (a[0] && !is_file)
        result = map_at_hint(self, a);
    if (result == -EEXIST && is_file)
        result = map_in_range(self, size, 1, a);
    if (result == -EEXIST)
        result = map_in_range(self, size, 0, a);
    return result == -EEXIST ? map_anywhere(self, a) : result;
}

long interpose_munmap(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t address = (uintptr_t)a[0];
    size_t size = (size_t)a[1];
    (void)nr;
    size_t rounded = page_ceiling(size);
    int ours = in_range(self, address, rounded);
    if (!ours) /* first: once unmapped, the addresses may be another task's */
        out_of_range_remove(self, address, rounded);
    long result = raw(__NR_munmap, address, size);
    if (result == 0 && ours) {
        struct area mappings = area_for(self, 0), files = area_for(self, 1);
        area_give_back(&mappings, address, rounded);
        area_give_back(&files, address, rounded);
    }
    return result;
}

/* Moves a mapping within the range, to grow it: the kernel would move it out of the range. */
static long move_in_range(struct space_slot *self, const long a[6])
{
    struct area area = area_for(self, 0);
    size_t size = page_ceiling((size_t)a[2]);
    size_t align = size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE;
    for (int tries = 0; tries < AREA_TRIES; tries++) {
        uintptr_t place = area_take(&area, size, align);
        if (!place)
            break;
        /* Reserve the addresses first: MREMAP_FIXED replaces whatever is there. */
        long held = raw(__NR_mmap, place, size, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (held == -EEXIST)
            continue;
        if (raw_failed(held))
            return held;
        long result =
            raw(__NR_mremap, a[0], a[1], a[2], a[3] | MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if (raw_failed(result))
            raw(__NR_munmap, place, size);
        return result;
    }
    return -EEXIST;
}

long interpose_mremap(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    uintptr_t address = (uintptr_t)a[0];
    size_t old_size = page_ceiling((size_t)a[1]), size = page_ceiling((size_t)a[2]);
    long result;
    if (in_range(self, address, old_size) &&
        (a[3] & (MREMAP_MAYMOVE | MREMAP_FIXED)) == MREMAP_MAYMOVE && size >= (size_t)a[2]) {
        result = raw(__NR_mremap, a[0], a[1], a[2], a[3] & ~(long)MREMAP_MAYMOVE);
        if (result == -ENOMEM)
            result = move_in_range(self, a);
        if (result != -EEXIST)
            return result;
    }
    if (!in_range(self, address, old_size))
        out_of_range_remove(self, address, old_size);
    result = raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    int failed = raw_failed(result);
    uintptr_t now = failed ? address : (uintptr_t)result;
    if (!in_range(self, now, failed ? old_size : size))
        out_of_range_add(self, now, failed ? old_size : size);
    return result;
}
