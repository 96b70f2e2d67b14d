/* src/interpose/memory/map.c: mmap and munmap: a task's mappings lie in its own range.
 *
 * If that is not possible, the kernel chooses an address, and the mapping is recorded
 * (out_of_range.c). */
#include "interpose/memory/memory.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "arch/code/patch.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/memory/area.h"
#include "interpose/patch/patch.h"
#include "space/intervals.h"
#include "space/registry.h"

/* mmap in the task's range: the address, or -errno. */
static long map_in_area(struct space_slot *self, enum area_kind kind, size_t size, size_t align,
                        const long a[6])
{
    for (int tries = 0; tries < AREA_TRIES; tries++) {
        uintptr_t place = area_claim(self, kind, size, align);
        if (!place)
            break;
        long result = raw(__NR_mmap, place, a[1], a[2], a[3] | MAP_FIXED_NOREPLACE, a[4], a[5]);
        if (!raw_failed(result))
            return result;
        if (result != -EEXIST) {
            area_release(self, place, size);
            return result;
        }
        area_mark_conflict(self, place, size, tries);
    }
    return -EEXIST;
}

/* The area for a file. Where the trampolines are in reach of a part of the area for files only,
 * that is kept for the small ones: a libc comes behind all libraries that the program names before
 * it. */
static enum area_kind area_for(size_t size)
{
    return ARCH_PATCH_REACH < LAYOUT_MAPPINGS && size > ARCH_PATCH_REACH / 8 ? AREA_MAPPINGS
                                                                             : AREA_FILES;
}

long map_among_files(struct space_slot *self, const long a[6])
{
    size_t size = page_ceiling((size_t)a[1]);
    return map_in_area(self, area_for(size), size, ARCH_PAGE, a);
}

/* The size of the huge pages that MAP_HUGETLB asks for; by default that of most machines. */
static size_t huge_page(long flags)
{
    unsigned log = (unsigned)flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
    return log ? (size_t)1 << log : ARCH_HUGE_PAGE;
}

/* Files first try the area for files, whose code is in reach of the trampolines. Files of huge
 * pages are known by the kernel's refusal of an address that is not aligned to one. */
static long map_in_range(struct space_slot *self, const long a[6])
{
    size_t size = page_ceiling((size_t)a[1]), huge = huge_page(a[3]);
    int is_file = !(a[3] & MAP_ANONYMOUS) && (a[3] & MAP_TYPE) == MAP_PRIVATE;
    long result = -EEXIST;
    if ((a[3] & (ARCH_MAP_LOW | MAP_GROWSDOWN)) || huge > LAYOUT_GIB)
        return -EEXIST;
    if (is_file && area_for(size) == AREA_FILES)
        result = map_in_area(self, AREA_FILES, size, ARCH_PAGE, a);
    if (result == -EEXIST && !(a[3] & MAP_HUGETLB))
        result = map_in_area(self, AREA_MAPPINGS, size,
                             !is_file && size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE, a);
    if (result == -EINVAL || (result == -EEXIST && (a[3] & MAP_HUGETLB)))
        result = map_in_area(self, AREA_MAPPINGS, round_up(size, huge), huge, a);
    return result;
}

static long map_anywhere(struct space_slot *self, const long a[6])
{
    int is_fixed = (a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
    if (!is_fixed || !in_range(self, (uintptr_t)a[0], (size_t)a[1]))
        return out_of_range_mmap(self, a);
    brk_note_change(self, (uintptr_t)a[0], (size_t)a[1]);
    long result = raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (!raw_failed(result))
        area_mark_used(self, (uintptr_t)result, page_ceiling((size_t)a[1]));
    return result;
}

static int is_code(const long a[6])
{
    return (a[2] & PROT_EXEC) && !(a[2] & PROT_WRITE) && (a[3] & MAP_TYPE) == MAP_PRIVATE &&
           !(a[3] & MAP_ANONYMOUS) && a[4] >= 0;
}

static long map_at(struct space_slot *self, const long a[6])
{
    long result = map_anywhere(self, a);
    if (is_code(a) && !raw_failed(result) && in_range(self, (uintptr_t)result, (size_t)a[1]))
        interpose_patch_loaded(self, (uintptr_t)result, (size_t)a[1], (int)a[4], a[5]);
    return result;
}

/* Whether an address that is only a hint may be granted: in the range of another slot the mapping
 * would be unmapped when that slot's task, present or future, ends. (Intel MPI's heap asks for
 * addresses 64 GiB apart.) */
static int may_be_at(const struct space_slot *self, const long a[6])
{
    return in_range(self, (uintptr_t)a[0], (size_t)a[1]) ||
           (layout_slot_of((uintptr_t)a[0]) == LAYOUT_SLOTS &&
            !shared_windows_contain((uintptr_t)a[0]));
}

/* Below this lie the addresses that a program wants for what other machinery reaches: a GPU's
 * channels end there. */
#define LOW_ADDRESSES (UINT64_C(1) << 40)
enum { LOW_TRIES = 256 };

/* The end of what some member has of [start, end) as an out-of-range mapping; 0: nothing. */
static uintptr_t end_of_occupied(uintptr_t start, uintptr_t end)
{
    const struct space *space = space_registry();
    uint32_t highest = atomic_load_explicit(&space->highest, memory_order_relaxed);
    uintptr_t low, high, last = 0;
    for (uint32_t i = 1; i <= highest; i++)
        if (intervals_find(&space->slots[i], INTERVALS_OUT_OF_RANGE, start, end, &low, &high) &&
            high > last)
            last = high;
    return last;
}

/* The hint is taken, and lies below LOW_ADDRESSES: the next place from there on that is free and
 * below it, too. Libraries of GPUs cannot use what lies higher. The address or -errno. */
static long map_low(struct space_slot *self, const long a[6])
{
    size_t size = page_ceiling((size_t)a[1]);
    size_t align = size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE;
    uintptr_t place = round_up((uintptr_t)a[0], align);
    for (int tries = 0; tries < LOW_TRIES && size <= LOW_ADDRESSES; tries++) {
        if (place > LOW_ADDRESSES - size)
            break;
        uintptr_t occupied = end_of_occupied(place, place + size);
        if (!occupied) {
            const long b[6] = {(long)place, a[1], a[2], a[3], a[4], a[5]};
            long result = out_of_range_mmap(self, b);
            if (result != -EEXIST)
                return result;
            occupied = place + size; /* the root's, or one that no handler saw */
        }
        place = round_up(occupied, align);
    }
    return -EEXIST;
}

/* Wherever a place in the range cannot be had, the call is made as the program made it: devices
 * choose addresses themselves (the rings of io_uring), and what fails fails with the kernel's
 * error. */
long interpose_place(struct space_slot *self, const long a[6])
{
    long b[6] = {(long)page_floor((uintptr_t)a[0]), a[1], a[2], a[3], a[4], a[5]};
    int is_file = !(a[3] & MAP_ANONYMOUS) && (a[3] & MAP_TYPE) == MAP_PRIVATE;
    if (a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE))
        return shared_windows_contain((uintptr_t)a[0]) ? shared_mmap_at(self, a) : map_at(self, a);
    if (page_ceiling((size_t)a[1]) < (size_t)a[1])
        return raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (a[0] && !may_be_at(self, a))
        b[0] = 0;
    long result = b[0] ? NOT_SHARED : shared_mmap(self, a);
    if (result != NOT_SHARED)
        return result;
    result = -EEXIST;
    /* ld.so passes the linked address even of a position independent program: not a hint. */
    if (b[0] && !is_file) {
        b[3] |= MAP_FIXED_NOREPLACE;
        result = map_anywhere(self, b);
        if (result == -EEXIST && (uintptr_t)b[0] < LOW_ADDRESSES)
            result = map_low(self, b);
        b[3] = a[3];
    }
    if (raw_failed(result))
        result = map_in_range(self, a);
    return raw_failed(result) ? map_anywhere(self, b) : result;
}

long interpose_mmap(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    long result = interpose_place(self, a);
    if (is_code(a) && !(a[3] & MAP_FIXED) && a[5] == 0 && !raw_failed(result) &&
        in_range(self, (uintptr_t)result, (size_t)a[1]))
        interpose_patch_beginning(self, (uintptr_t)result, (size_t)a[1], (int)a[4]);
    return result;
}

long interpose_munmap(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t address = (uintptr_t)a[0];
    size_t size = page_ceiling((size_t)a[1]);
    (void)nr;
    if (shared_windows_contain(address))
        return shared_munmap(self, a);
    if (!in_range(self, address, size))
        return out_of_range_munmap(self, address, (size_t)a[1]);
    brk_note_change(self, address, size);
    long result = raw(__NR_munmap, address, a[1]);
    if (result == 0)
        area_release(self, address, size);
    return result;
}
