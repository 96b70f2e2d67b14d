/* src/interpose/memory/map.c: mmap, munmap, mremap, mprotect: a task's mappings lie in its own
 * range.
 *
 * If that is not possible, the kernel chooses an address, and the mapping is recorded, so that the
 * reaper can unmap it when the task has ended. */
#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "arch/code/patch.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/memory/memory.h"
#include "interpose/patch/patch.h"
#include "space/intervals.h"
#include "space/locks.h"
#include "space/shared_mappings.h"

/* ---- Mappings outside the range ----
 *
 * An entry that outlived its mapping would unmap another member's memory later. Therefore it is
 * removed before the mapping is, and comes back if the kernel refuses. Entries are changed under
 * the member's lock (space/locks.h). The reaper reads the table without the lock, when all of the
 * task's threads have ended. */

static void count_lost(struct space_slot *self, unsigned lost)
{
    if (!lost)
        return;
    counter_add(&self->interpose.out_of_range_lost, lost);
    counter_add(&space_registry()->overflows.mappings, lost);
}

/* The addresses are about to be unmapped: the entries count again only if that fails. The reaper
 * ignores them, because another member may have mapped there already. */
static void suspend_entries(struct space_slot *self, uintptr_t start, uintptr_t end)
{
    count_lost(self, intervals_cut(self, INTERVALS_OUT_OF_RANGE, start, end, INTERVAL_TENTATIVE));
}

static int always(uintptr_t start)
{
    (void)start;
    return 1;
}

static int never(uintptr_t start)
{
    (void)start;
    return 0;
}

/* After a failed mremap: some kernels have unmapped the mapping that was to be replaced. */
static int is_unmapped(uintptr_t start)
{
    unsigned char resident;
    return raw(__NR_mincore, start, ARCH_PAGE, &resident) == -ENOMEM;
}

/* An address inside an entry needs no further one, but another task may have mapped over it. */
static void add_entry(struct space_slot *self, uintptr_t start, size_t size)
{
    /* A forked child's mappings end with it. A mapping in another slot's range, which this task
     * makes when it spawns, belongs to that slot's task. */
    if (!process_in_space() || layout_slot_of(start) != LAYOUT_SLOTS)
        return;
    count_lost(self, intervals_add(self, INTERVALS_OUT_OF_RANGE, start, start + size) != 0);
    intervals_remove_from_others(space_registry(), self, start, start + size);
}

void out_of_range_add(struct space_slot *self, uintptr_t start, size_t size)
{
    uint64_t signals = member_lock(self);
    add_entry(self, start, size);
    member_unlock(self, signals);
}

static long out_of_range_mmap(struct space_slot *self, const long a[6])
{
    /* Locked around the call, with signals blocked: a task that ends between a mapping and its
     * entry leaks the mapping. */
    uint64_t signals = member_lock(self);
    long result = raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (!raw_failed(result))
        add_entry(self, (uintptr_t)result, page_ceiling((uintptr_t)a[1]));
    member_unlock(self, signals);
    return result;
}

/* A member may unmap memory that another has mapped. Before it is unmapped, because a third may map
 * there right after. If the kernel refuses, the mapping stays until the space ends. */
static void forget_others(struct space_slot *self, uintptr_t start, uintptr_t end)
{
    intervals_remove_from_others(space_registry(), self, start, end);
}

static long out_of_range_munmap(struct space_slot *self, uintptr_t start, size_t size)
{
    if (!process_in_space() || page_floor(start) != start)
        return raw(__NR_munmap, start, size);
    uint64_t signals = member_lock(self);
    suspend_entries(self, start, start + page_ceiling(size));
    if (start < INTERVAL_ADDRESSES && size <= INTERVAL_ADDRESSES - start) /* not refused */
        forget_others(self, start, start + page_ceiling(size));
    long result = raw(__NR_munmap, start, size);
    intervals_settle(self, INTERVALS_OUT_OF_RANGE, result == 0 ? always : never);
    member_unlock(self, signals);
    return result;
}

static long out_of_range_mremap(struct space_slot *self, const long a[6], int keeps_old)
{
    if (!process_in_space())
        return raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    uintptr_t before = (uintptr_t)a[0], wanted = (uintptr_t)a[4];
    size_t old_size = page_ceiling((size_t)a[1]), size = page_ceiling((size_t)a[2]);
    uint64_t signals = member_lock(self);
    if (!keeps_old) {
        suspend_entries(self, before, before + old_size);
        if ((a[3] & MREMAP_MAYMOVE) || size < old_size)
            forget_others(self, before, before + old_size);
    }
    if (a[3] & MREMAP_FIXED)
        suspend_entries(self, wanted, wanted + size);
    long result = raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    if (raw_failed(result)) {
        intervals_settle(self, INTERVALS_OUT_OF_RANGE, is_unmapped);
    } else {
        intervals_settle(self, INTERVALS_OUT_OF_RANGE, always);
        add_entry(self, (uintptr_t)result, size);
    }
    member_unlock(self, signals);
    return result;
}

/* shmdt is given no size, and the entry may cover more than the attachment: the pages that are gone
 * are found by testing each. */
long out_of_range_shmdt(struct space_slot *self, uintptr_t start)
{
    uintptr_t low, high, end = start;
    if (!process_in_space())
        return raw(__NR_shmdt, start);
    uint64_t signals = member_lock(self);
    int is_known =
        intervals_find(self, INTERVALS_OUT_OF_RANGE, start, INTERVAL_ADDRESSES, &low, &high) &&
        low == start;
    if (is_known)
        forget_others(self, start, high);
    long result = raw(__NR_shmdt, start);
    while (result == 0 && is_known && end < high && is_unmapped(end))
        end += ARCH_PAGE;
    if (end > start)
        count_lost(self, intervals_cut(self, INTERVALS_OUT_OF_RANGE, start, end, 0));
    member_unlock(self, signals);
    return result;
}

/* ---- mmap ---- */

/* mmap in an area of the task's range: the address, or -errno. */
static long mmap_in_area(struct space_slot *self, enum area_kind kind, size_t size, size_t align,
                         const long a[6])
{
    for (int tries = 0; tries < AREA_TRIES; tries++) {
        uintptr_t start = area_claim(self, kind, size, align);
        if (!start)
            break;
        long result = raw(__NR_mmap, start, a[1], a[2], a[3] | MAP_FIXED_NOREPLACE, a[4], a[5]);
        if (!raw_failed(result))
            return result;
        if (result != -EEXIST) {
            area_release(self, start, size);
            return result;
        }
        area_mark_conflict(self, start, size, tries);
    }
    return -EEXIST;
}

/* The area for a file. If trampolines reach only a part of the area for files, that part is kept
 * for small files: a libc is mapped after all libraries that the program names before it. */
static enum area_kind area_for(size_t size)
{
    return ARCH_PATCH_REACH < LAYOUT_MAPPINGS && size > ARCH_PATCH_REACH / 8 ? AREA_MAPPINGS
                                                                             : AREA_FILES;
}

long mmap_in_files(struct space_slot *self, const long a[6])
{
    size_t size = page_ceiling((size_t)a[1]);
    return mmap_in_area(self, area_for(size), size, ARCH_PAGE, a);
}

/* The size of the huge pages that MAP_HUGETLB asks for; by default that of most machines. */
static size_t huge_page(long flags)
{
    unsigned log = (unsigned)flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
    return log ? (size_t)1 << log : ARCH_HUGE_PAGE;
}

/* Files first try the area for files, whose code is in reach of the trampolines. Files of huge
 * pages are known by the kernel's refusal of an address that is not aligned to one. */
static long mmap_in_range(struct space_slot *self, const long a[6])
{
    size_t size = page_ceiling((size_t)a[1]), huge = huge_page(a[3]);
    int is_file = !(a[3] & MAP_ANONYMOUS) && (a[3] & MAP_TYPE) == MAP_PRIVATE;
    long result = -EEXIST;
    if ((a[3] & (ARCH_MAP_LOW | MAP_GROWSDOWN)) || huge > LAYOUT_GIB)
        return -EEXIST;
    if (is_file && area_for(size) == AREA_FILES)
        result = mmap_in_area(self, AREA_FILES, size, ARCH_PAGE, a);
    if (result == -EEXIST && !(a[3] & MAP_HUGETLB))
        result = mmap_in_area(self, AREA_MAPPINGS, size,
                              !is_file && size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE, a);
    if (result == -EINVAL || (result == -EEXIST && (a[3] & MAP_HUGETLB)))
        result = mmap_in_area(self, AREA_MAPPINGS, round_up(size, huge), huge, a);
    return result;
}

static long mmap_as_requested(struct space_slot *self, const long a[6])
{
    int is_fixed = (a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
    if (!is_fixed || !in_range(self, (uintptr_t)a[0], (size_t)a[1]))
        return out_of_range_mmap(self, a);
    brk_record_change(self, (uintptr_t)a[0], (size_t)a[1]);
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

static long mmap_fixed(struct space_slot *self, const long a[6])
{
    long result = mmap_as_requested(self, a);
    if (is_code(a) && !raw_failed(result) && in_range(self, (uintptr_t)result, (size_t)a[1]))
        interpose_patch_loaded(self, (uintptr_t)result, (size_t)a[1], (int)a[4], a[5]);
    return result;
}

/* Whether an address that is only a hint may be used. A mapping in the range of another slot would
 * be unmapped when that slot's task, present or future, ends. (Intel MPI's heap asks for addresses
 * 64 GiB apart.) */
static int may_use_hint(const struct space_slot *self, const long a[6])
{
    return in_range(self, (uintptr_t)a[0], (size_t)a[1]) ||
           (layout_slot_of((uintptr_t)a[0]) == LAYOUT_SLOTS &&
            !shared_windows_contain((uintptr_t)a[0]));
}

/* Devices may reach only addresses below this: a GPU's channels end there. */
#define LOW_ADDRESS_END (UINT64_C(1) << 40)
enum { LOW_ADDRESS_TRIES = 256 };

/* The end of the last out-of-range mapping of a member in [start, end); 0 if there is none. */
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

/* The address of the hint is in use and below LOW_ADDRESS_END: maps at the next free address below
 * that end, because libraries of GPUs cannot use a higher one. The address or -errno. */
static long mmap_low(struct space_slot *self, const long a[6])
{
    size_t size = page_ceiling((size_t)a[1]);
    size_t align = size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE;
    uintptr_t start = round_up((uintptr_t)a[0], align);
    for (int tries = 0; tries < LOW_ADDRESS_TRIES && size <= LOW_ADDRESS_END; tries++) {
        if (start > LOW_ADDRESS_END - size)
            break;
        uintptr_t occupied = end_of_occupied(start, start + size);
        if (!occupied) {
            const long b[6] = {(long)start, a[1], a[2], a[3], a[4], a[5]};
            long result = out_of_range_mmap(self, b);
            if (result != -EEXIST)
                return result;
            occupied = start + size; /* the root's, or a mapping that no handler saw */
        }
        start = round_up(occupied, align);
    }
    return -EEXIST;
}

/* If no address in the range can be used, the call is made as the program made it: devices choose
 * addresses themselves (the rings of io_uring), and errors are the kernel's. */
long interpose_mmap_unpatched(struct space_slot *self, const long a[6])
{
    long b[6] = {(long)page_floor((uintptr_t)a[0]), a[1], a[2], a[3], a[4], a[5]};
    int is_file = !(a[3] & MAP_ANONYMOUS) && (a[3] & MAP_TYPE) == MAP_PRIVATE;
    if (a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE))
        return shared_windows_contain((uintptr_t)a[0]) ? shared_mmap_at(self, a)
                                                       : mmap_fixed(self, a);
    if (page_ceiling((size_t)a[1]) < (size_t)a[1])
        return raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (a[0] && !may_use_hint(self, a))
        b[0] = 0;
    long result = b[0] ? NOT_SHARED : shared_mmap(self, a);
    if (result != NOT_SHARED)
        return result;
    result = -EEXIST;
    /* ld.so passes the linked address even of a position-independent program: no hint. */
    if (b[0] && !is_file) {
        b[3] |= MAP_FIXED_NOREPLACE;
        result = mmap_as_requested(self, b);
        if (result == -EEXIST && (uintptr_t)b[0] < LOW_ADDRESS_END)
            result = mmap_low(self, b);
        b[3] = a[3];
    }
    if (raw_failed(result))
        result = mmap_in_range(self, a);
    return raw_failed(result) ? mmap_as_requested(self, b) : result;
}

long interpose_mmap(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    long result = interpose_mmap_unpatched(self, a);
    if (is_code(a) && !(a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE)) && a[5] == 0 &&
        !raw_failed(result) && in_range(self, (uintptr_t)result, (size_t)a[1]))
        interpose_patch_beginning(self, (uintptr_t)result, (size_t)a[1], (int)a[4]);
    return result;
}

/* ---- munmap, mprotect ---- */

long interpose_munmap(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t address = (uintptr_t)a[0];
    size_t size = page_ceiling((size_t)a[1]);
    (void)nr;
    if (shared_windows_contain(address))
        return shared_munmap(self, a);
    if (!in_range(self, address, size))
        return out_of_range_munmap(self, address, (size_t)a[1]);
    brk_record_change(self, address, size);
    long result = raw(__NR_munmap, address, a[1]);
    if (result == 0)
        area_release(self, address, size);
    return result;
}

long interpose_mprotect(struct space_slot *self, long nr, const long a[6])
{
    if (shared_windows_contain((uintptr_t)a[0]))
        return shared_mprotect(self, nr, a);
    brk_record_change(self, (uintptr_t)a[0], (size_t)a[1]);
    return raw(nr, a[0], a[1], a[2], a[3]);
}

/* ---- mremap ---- */

long mremap_into_range(struct space_slot *self, const long a[6])
{
    size_t size = page_ceiling((size_t)a[2]);
    size_t align = size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE;
    for (int tries = 0; tries < AREA_TRIES; tries++) {
        uintptr_t start = area_claim(self, AREA_MAPPINGS, size, align);
        if (!start)
            break;
        /* Reserve the addresses first: MREMAP_FIXED replaces whatever is there. */
        long result = area_reserve(start, size);
        if (result == -EEXIST) {
            area_mark_conflict(self, start, size, tries);
            continue;
        }
        if (result == 0) {
            result = raw(__NR_mremap, a[0], a[1], a[2], a[3] | MREMAP_FIXED, start);
            if (!raw_failed(result))
                return result;
            raw(__NR_munmap, start, size);
        }
        area_release(self, start, size);
        return result;
    }
    return -EEXIST;
}

/* In start if possible, else elsewhere in the range; -EEXIST if the range is full. */
static long mremap_in_range(struct space_slot *self, const long a[6])
{
    if (mremap_keeps_old(a))
        return mremap_into_range(self, a);
    long result = raw(__NR_mremap, a[0], a[1], a[2], a[3] & ~(long)MREMAP_MAYMOVE);
    return result == -ENOMEM ? mremap_into_range(self, a) : result;
}

/* Updates the bitmap after a successful call on a mapping in the range. */
static void update_bitmap(struct space_slot *self, const long a[6], uintptr_t now)
{
    uintptr_t before = (uintptr_t)a[0];
    size_t old_size = page_ceiling((size_t)a[1]), size = page_ceiling((size_t)a[2]);
    if (in_range(self, now, size))
        area_mark_used(self, now, size);
    if (mremap_keeps_old(a) || !in_range(self, before, old_size))
        return;
    if (now != before)
        area_release(self, before, old_size);
    else if (size < old_size)
        area_release(self, before + size, old_size - size);
}

/* mremap of a mapping that tasks share. Once moved, it is this task's alone. */
static long mremap_shared(struct space_slot *self, const long a[6], size_t size)
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
    int is_in_range = is_plain && in_range(self, (uintptr_t)a[0], old_size);
    long result = -EEXIST;
    if ((a[3] & MREMAP_FIXED) && shared_windows_contain((uintptr_t)a[4]) && process_in_space())
        return -ENOMEM;
    if (shared_windows_contain((uintptr_t)a[0]))
        return mremap_shared(self, a, size);
    brk_record_change(self, (uintptr_t)a[0], old_size);
    if (a[3] & MREMAP_FIXED)
        brk_record_change(self, (uintptr_t)a[4], size);
    if (is_in_range && (a[3] & (MREMAP_MAYMOVE | MREMAP_FIXED)) == MREMAP_MAYMOVE)
        result = mremap_in_range(self, a);
    if (result == -EEXIST)
        result = is_plain ? out_of_range_mremap(self, a, mremap_keeps_old(a))
                          : raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    if (!raw_failed(result) && is_plain)
        update_bitmap(self, a, (uintptr_t)result);
    return result;
}
