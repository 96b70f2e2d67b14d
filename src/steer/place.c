/* src/steer/place.c: place a task's mappings in its own range, and give it a program break there.
 *
 * Places are taken upwards from a cursor (one for files, one for the rest); a mapping that is given
 * back while it is the last one moves the cursor back, and at the end of an area the search starts
 * over. MAP_FIXED_NOREPLACE makes every attempt safe, so the cursors are mere hints and need no
 * lock: relaxed atomics. Where the range cannot serve, the kernel chooses, and the mapping is
 * remembered as a foreign one. */
#include "steer/steer.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/shm.h>

enum { PLACE_TRIES = 64 };
#define BREAK_STEP (32 * LAYOUT_MIB)
#define BREAK_KEPT (32u << 10)

static uintptr_t range_of(const struct space_slot *self)
{
    return layout_range(space_slot_index(space_registry(), self));
}

static int in_range(const struct space_slot *self, uintptr_t start, size_t size)
{
    uintptr_t low = range_of(self);
    return start >= low && size <= LAYOUT_RANGE && start - low <= LAYOUT_RANGE - size;
}

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) & -to;
}

struct area {
    _Atomic uint64_t *next;
    uintptr_t start, end;
};

static struct area area_for(struct space_slot *self, int is_file)
{
    uintptr_t range = range_of(self);
    return is_file ? (struct area){&self->steer.files_next, range + LAYOUT_FILES,
                                   range + LAYOUT_MAPPINGS}
                   : (struct area){&self->steer.mappings_next, range + LAYOUT_MAPPINGS,
                                   range + LAYOUT_BREAK};
}

/* The next place for `size` bytes, or 0 when the area is too small for them. */
static uintptr_t take_place(const struct area *area, size_t size, size_t align)
{
    uint64_t next = atomic_load_explicit(area->next, memory_order_relaxed), place;
    do {
        place = round_up(next, align);
        if (place < area->start || place >= area->end || size > area->end - place) {
            place = round_up(area->start, align);
            if (place >= area->end || size > area->end - place)
                return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(area->next, &next, place + size,
                                                    memory_order_relaxed, memory_order_relaxed));
    return place;
}

/* mmap at a place of the task's range; -EEXIST when none was found. */
static long map_in_range(struct space_slot *self, size_t size, int is_file, const long a[6])
{
    struct area area = area_for(self, is_file);
    size_t align = !is_file && size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE;
    for (int tries = 0; tries < PLACE_TRIES; tries++) {
        uintptr_t place = take_place(&area, size, align);
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
                 : steer_foreign_mmap(self, a);
}

static long map_at(struct space_slot *self, const long a[6])
{
    long result = map_anywhere(self, a);
    int is_code = (a[2] & PROT_EXEC) && !(a[2] & PROT_WRITE) && (a[3] & MAP_PRIVATE) &&
                  !(a[3] & MAP_ANONYMOUS) && a[4] >= 0;
    if (is_code && (unsigned long)result < -4095ul &&
        in_range(self, (uintptr_t)result, (size_t)a[1]))
        steer_patch_loaded(self, (uintptr_t)result, (size_t)a[1], (int)a[4], a[5]);
    return result;
}

/* A wish: the program looks at what it got. Ours to place if the kernel does not grant it, and if
 * it lies in the range of another task, present or to come: it would go when that one ends. (Intel
 * MPI's heap grows by wishes 64 GiB apart.) */
static long map_near(struct space_slot *self, const long a[6])
{
    if (!in_range(self, (uintptr_t)a[0], (size_t)a[1]) &&
        layout_slot_of((uintptr_t)a[0]) != LAYOUT_SLOTS)
        return -EEXIST;
    long b[6] = {a[0] & -(long)ARCH_PAGE, a[1], a[2], a[3] | MAP_FIXED_NOREPLACE, a[4], a[5]};
    long result = map_anywhere(self, b);
    return result == -EPERM || result == -ENOMEM ? -EEXIST : result;
}

long steer_mmap(struct space_slot *self, const long a[6])
{
    size_t size = round_up((size_t)a[1], ARCH_PAGE);
    int flags = (int)a[3], is_file = !(flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE);
    if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
        return map_at(self, a);
    if ((flags & (MAP_32BIT | MAP_HUGETLB | MAP_GROWSDOWN)) || size < (size_t)a[1])
        return map_anywhere(self, a);
    long result = -EEXIST;
    /* ld.so asks for the linked address of a position independent program: not a real wish. */
    if (a[0] && !is_file)
        result = map_near(self, a);
    if (result == -EEXIST && is_file)
        result = map_in_range(self, size, 1, a);
    if (result == -EEXIST)
        result = map_in_range(self, size, 0, a);
    return result == -EEXIST ? map_anywhere(self, a) : result;
}

/* Moves a cursor back when its last mapping goes. */
static void give_place_back(const struct area *area, uintptr_t address, size_t size)
{
    uint64_t end = address + size;
    if (address >= area->start && end <= area->end)
        atomic_compare_exchange_strong_explicit(area->next, &end, address, memory_order_relaxed,
                                                memory_order_relaxed);
}

long steer_munmap(struct space_slot *self, uintptr_t address, size_t size)
{
    size_t rounded = round_up(size, ARCH_PAGE);
    int ours = in_range(self, address, rounded);
    if (!ours) /* first: once unmapped, the place may be another task's */
        steer_foreign_remove(self, address, rounded);
    long result = raw(__NR_munmap, address, size);
    if (result == 0 && ours) {
        struct area mappings = area_for(self, 0), files = area_for(self, 1);
        give_place_back(&mappings, address, rounded);
        give_place_back(&files, address, rounded);
    }
    return result;
}

/* Grows or moves within the range: the kernel alone would move the mapping out of it. */
static long move_in_range(struct space_slot *self, const long a[6])
{
    struct area area = area_for(self, 0);
    size_t size = round_up((size_t)a[2], ARCH_PAGE);
    size_t align = size >= ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : ARCH_PAGE;
    for (int tries = 0; tries < PLACE_TRIES; tries++) {
        uintptr_t place = take_place(&area, size, align);
        if (!place)
            break;
        /* Hold the place first: MREMAP_FIXED replaces whatever is there. */
        long held = raw(__NR_mmap, place, size, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (held == -EEXIST)
            continue;
        if (held < 0 && held > -4096)
            return held;
        long result =
            raw(__NR_mremap, a[0], a[1], a[2], a[3] | MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if ((unsigned long)result >= -4095ul)
            raw(__NR_munmap, place, size);
        return result;
    }
    return -EEXIST;
}

long steer_mremap(struct space_slot *self, const long a[6])
{
    uintptr_t address = (uintptr_t)a[0];
    size_t old_size = round_up((size_t)a[1], ARCH_PAGE), size = round_up((size_t)a[2], ARCH_PAGE);
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
        steer_foreign_remove(self, address, old_size);
    result = raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    int failed = (unsigned long)result >= -4095ul;
    uintptr_t now = failed ? address : (uintptr_t)result;
    if (!in_range(self, now, failed ? old_size : size))
        steer_foreign_add(self, now, failed ? old_size : size);
    return result;
}

long steer_shmat(struct space_slot *self, const long a[6])
{
    struct shmid_ds segment;
    if (a[1] == 0 && raw(__NR_shmctl, a[0], IPC_STAT, &segment) == 0) {
        struct area area = area_for(self, 0);
        for (int tries = 0; tries < PLACE_TRIES; tries++) {
            uintptr_t place = take_place(&area, round_up(segment.shm_segsz, ARCH_PAGE), ARCH_PAGE);
            if (!place)
                break;
            long result = raw(__NR_shmat, a[0], place, a[2]);
            if (result != -EINVAL)
                return result;
        }
    }
    long result = raw(__NR_shmat, a[0], a[1], a[2]);
    if ((unsigned long)result < -4095ul && raw(__NR_shmctl, a[0], IPC_STAT, &segment) == 0)
        steer_foreign_add(self, (uintptr_t)result, round_up(segment.shm_segsz, ARCH_PAGE));
    return result;
}

/* The size of the attachment is not told; an entry that starts there is it. */
long steer_shmdt(struct space_slot *self, uintptr_t address)
{
    if (!in_range(self, address, ARCH_PAGE))
        steer_foreign_forget(self, address);
    return raw(__NR_shmdt, address);
}

static void write_zeroes(uintptr_t from, size_t size)
{
    uintptr_t end = from + size;
    for (; from < end && from % sizeof(uint64_t); from++)
        *(volatile char *)from = 0;
    for (; end - from >= sizeof(uint64_t); from += sizeof(uint64_t))
        *(volatile uint64_t *)from = 0;
    for (; from < end; from++)
        *(volatile char *)from = 0;
}

/* 0 or -errno; `mapped` grows in large steps. */
static long map_break(struct space_steer *steer, uintptr_t wanted, uintptr_t high)
{
    uint64_t mapped = atomic_load_explicit(&steer->break_mapped, memory_order_relaxed);
    if (wanted <= mapped)
        return 0;
    uintptr_t end = round_up(wanted, BREAK_STEP);
    if (end > high)
        end = high;
    long result = raw(__NR_mmap, mapped, end - mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if ((unsigned long)result >= -4095ul)
        return result;
    atomic_store_explicit(&steer->break_mapped, end, memory_order_relaxed);
    return 0;
}

/* What lies between `from` and `to`, all above the new break, is zero afterwards. */
static void give_break_back(uintptr_t from, uintptr_t to)
{
    uintptr_t first_page = round_up(from, ARCH_PAGE), end = round_up(to, ARCH_PAGE);
    write_zeroes(from, (first_page < to ? first_page : to) - from);
    if (end > first_page)
        raw(__NR_madvise, first_page, end - first_page, MADV_DONTNEED);
}

/* The program break of this task alone. It rarely enters the kernel, whose lock on the map all
 * tasks share and which interrupts all of their processors: memory is mapped in large steps, and
 * the first BREAK_KEPT bytes above the break stay when it shrinks. A growth must find zeroes, and
 * so few are written sooner than a page is given back and faulted in again. The task's libc calls
 * from one thread at a time; the words are atomic for those that read them beside it. */
long steer_brk(struct space_slot *self, uintptr_t wanted)
{
    struct space_steer *steer = &self->steer;
    uintptr_t low = range_of(self) + LAYOUT_BREAK,
              high = range_of(self) + LAYOUT_STACK - LAYOUT_MIB;
    uint64_t now = atomic_load_explicit(&steer->break_now, memory_order_relaxed);
    uint64_t kept = atomic_load_explicit(&steer->break_kept, memory_order_relaxed);
    if (wanted < low || wanted > high || wanted == now || map_break(steer, wanted, high) != 0)
        return (long)now;
    if (wanted > now) {
        uint64_t grown = wanted - now, dirty = kept < grown ? kept : grown;
        write_zeroes(now, dirty);
        kept -= dirty;
    } else {
        kept += now - wanted;
        if (kept > BREAK_KEPT) {
            give_break_back(wanted, wanted + kept);
            kept = 0;
        }
    }
    atomic_store_explicit(&steer->break_kept, (uint32_t)kept, memory_order_relaxed);
    atomic_store_explicit(&steer->break_now, wanted, memory_order_relaxed);
    return (long)wanted;
}
