/* src/interpose/memory/brk.c: a program break for each task.
 *
 * System calls are avoided, since they take the lock on the memory map that all tasks share, and
 * unmapping interrupts all of their CPUs: memory is mapped in large steps, and stays mapped when
 * the break shrinks, without its pages but for a small part of the heap. Those must be zero when
 * they are used again; zeroing a page is faster than releasing it and faulting it in again.
 * Where the pages cannot be released because they are locked, or the program has changed mappings
 * below the break, all above it is unmapped. So growth gets memory as from the kernel: zero,
 * writable, not locked. As with the kernel's break, the rest of the page that holds the break keeps
 * its contents.
 *
 * The task's libc calls from one thread at a time; the words are atomic, relaxed, for other members
 * that read them. */
#include "interpose/memory/memory.h"

#include <sys/mman.h>

#include "arch/copy.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/memory/area.h"
#include "space/intervals.h"
#include "space/registry.h"

#define BREAK_STEP (32 * LAYOUT_MIB)
/* At most this much free memory stays above the break, or a 48th of the heap if that is more: a
 * task may take little more memory than a process. */
#define BREAK_KEPT      (32u << 10)
#define BREAK_KEPT_PART 48

static uintptr_t low_of(const struct space_slot *self)
{
    return range_of(self) + LAYOUT_BREAK;
}

static uintptr_t high_of(const struct space_slot *self)
{
    return range_of(self) + LAYOUT_STACK - LAYOUT_MIB;
}

static int has_flag(const struct space_interpose *interpose, uint32_t flag)
{
    return (atomic_load_explicit(&interpose->break_flags, memory_order_relaxed) & flag) != 0;
}

/* 0 or -errno. In large steps, or exactly where a limit forbids those. */
static long map_break(struct space_slot *self, uintptr_t wanted)
{
    struct space_interpose *interpose = &self->interpose;
    uint64_t mapped = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    if (wanted <= mapped)
        return 0;
    uintptr_t ends[2] = {round_up(wanted, BREAK_STEP), page_ceiling(wanted)};
    long result = -1;
    for (unsigned i = 0; i < 2 && raw_failed(result); i++) {
        uintptr_t end = ends[i] > high_of(self) ? high_of(self) : ends[i];
        result = raw(__NR_mmap, mapped, end - mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (!raw_failed(result))
            atomic_store_explicit(&interpose->break_mapped, end, memory_order_relaxed);
    }
    return raw_failed(result) ? result : 0;
}

/* Maps pages above the break anew, in place of whatever the program has made of them. */
static long replace(uintptr_t from, size_t size)
{
    long result = raw(__NR_mmap, from, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return raw_failed(result) ? result : 0;
}

/* 0 or -errno. The program may have made the pages read-only; a copy that faults is ended. A forked
 * child may lack them (MADV_DONTFORK), and may block the signal: it maps them. */
static long make_zero(uintptr_t from, uintptr_t end)
{
    static const char zeroes[ARCH_PAGE_MIN];
    if (from < end && !process_in_space())
        return replace(from, end - from);
    for (uintptr_t page = from; page < end; page += ARCH_PAGE_MIN)
        if (arch_guarded_copy((void *)page, zeroes, ARCH_PAGE_MIN) != 0)
            return replace(page_floor(page), end - page_floor(page));
    return 0;
}

static long grow(struct space_slot *self, uintptr_t now, uintptr_t wanted)
{
    struct space_interpose *interpose = &self->interpose;
    uint32_t kept = atomic_load_explicit(&interpose->break_kept, memory_order_relaxed);
    uintptr_t from = page_ceiling(now), end = from + (uint64_t)kept * ARCH_PAGE;
    long result = map_break(self, wanted);
    if (result != 0)
        return result;
    end = page_ceiling(wanted) < end ? page_ceiling(wanted) : end;
    result = make_zero(from, end);
    if (result == 0)
        atomic_store_explicit(&interpose->break_kept, kept - (uint32_t)((end - from) / ARCH_PAGE),
                              memory_order_relaxed);
    return result;
}

/* How many bytes may stay above a break that is lowered to `above`. */
static uint64_t most_kept(const struct space_slot *self, uintptr_t above)
{
    const struct space_interpose *interpose = &self->interpose;
    uint64_t part = (above - low_of(self)) / BREAK_KEPT_PART;
    if (has_flag(interpose, SPACE_BREAK_RESERVED))
        return UINT64_MAX;
    if (has_flag(interpose, SPACE_BREAK_CHANGED))
        return 0;
    return part > BREAK_KEPT ? part : BREAK_KEPT;
}

/* Releases `size` bytes above the break but for the first `keep`: the bytes that stay, or -errno.
 */
static long release(struct space_interpose *interpose, uintptr_t above, size_t size, size_t keep)
{
    uint64_t mapped = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    if (!has_flag(interpose, SPACE_BREAK_CHANGED) &&
        raw(__NR_madvise, above + keep, size - keep, MADV_DONTNEED) == 0)
        return (long)keep;
    long result = raw(__NR_munmap, above, mapped - above);
    if (result == 0)
        atomic_store_explicit(&interpose->break_mapped, above, memory_order_relaxed);
    return result;
}

/* Once there is too much, half of what may be kept is: the next small shrinks release nothing. */
static long shrink(struct space_slot *self, uintptr_t now, uintptr_t wanted)
{
    struct space_interpose *interpose = &self->interpose;
    uintptr_t above = page_ceiling(wanted);
    uint64_t most = most_kept(self, above);
    uint64_t size =
        page_ceiling(now) - above +
        (uint64_t)ARCH_PAGE * atomic_load_explicit(&interpose->break_kept, memory_order_relaxed);
    if (size > most) {
        long result = release(interpose, above, size, page_floor(most / 2));
        if (result < 0)
            return result;
        size = (uint64_t)result;
    }
    atomic_store_explicit(&interpose->break_kept, (uint32_t)(size / ARCH_PAGE),
                          memory_order_relaxed);
    return 0;
}

long interpose_brk(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t wanted = (uintptr_t)a[0];
    (void)nr;
    struct space_interpose *interpose = &self->interpose;
    uint64_t now = atomic_load_explicit(&interpose->break_now, memory_order_relaxed);
    if (wanted < low_of(self) || wanted > high_of(self) || wanted == now ||
        (wanted < now && intervals_overlap(self, INTERVALS_SEALED, page_ceiling(wanted), now)) ||
        (wanted > now ? grow : shrink)(self, now, wanted) != 0)
        return (long)now;
    atomic_store_explicit(&interpose->break_now, wanted, memory_order_relaxed);
    return (long)wanted;
}

/* Maps `size` bytes behind what is mapped, with no more memory than is used then, whatever the
 * space locks in future: 0 or -errno. */
static long reserve(struct space_interpose *interpose, size_t size)
{
    uint64_t mapped = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    long result = area_reserve(mapped, size);
    if (result != 0)
        return result;
    raw(__NR_munlock, mapped, size); /* only to be undone where mlockall is in force */
    result = raw(__NR_mprotect, mapped, size, PROT_READ | PROT_WRITE);
    if (result != 0)
        raw(__NR_munmap, mapped, size);
    else
        atomic_store_explicit(&interpose->break_mapped, mapped + size, memory_order_relaxed);
    return result;
}

int brk_reserve(struct space_slot *self)
{
    struct space_interpose *interpose = &self->interpose;
    if (has_flag(interpose, SPACE_BREAK_RESERVED))
        return 0;
    uint64_t mapped = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    size_t size = high_of(self) - mapped;
    while (size && reserve(interpose, size) != 0)
        size = page_floor(size / 2);
    atomic_fetch_or_explicit(&interpose->break_flags, SPACE_BREAK_RESERVED, memory_order_relaxed);
    return 1;
}

void brk_unreserve(struct space_slot *self)
{
    atomic_fetch_and_explicit(&self->interpose.break_flags, ~(uint32_t)SPACE_BREAK_RESERVED,
                              memory_order_relaxed);
}

void brk_note_change(struct space_slot *self, uintptr_t start, size_t size)
{
    if (start < high_of(self) && start + size > low_of(self))
        atomic_fetch_or_explicit(&self->interpose.break_flags, SPACE_BREAK_CHANGED,
                                 memory_order_relaxed);
}

long interpose_mprotect(struct space_slot *self, long nr, const long a[6])
{
    if (shared_windows_contain((uintptr_t)a[0]))
        return shared_mprotect(self, nr, a);
    brk_note_change(self, (uintptr_t)a[0], (size_t)a[1]);
    return raw(nr, a[0], a[1], a[2], a[3]);
}
