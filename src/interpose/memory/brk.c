/* src/interpose/memory/brk.c: a program break for each task.
 *
 * System calls are avoided, because they take the lock on the memory map that all tasks share, and
 * unmapping interrupts all of their CPUs. Memory is mapped in large steps and stays mapped when the
 * break shrinks; its pages are released except for a small part of the heap. Kept pages are zeroed
 * when they are used again, which is faster than releasing a page and faulting it in again. If the
 * kernel refuses that because the pages are locked, or the program has changed mappings below the
 * break, everything above the break is unmapped. So the heap grows by memory as from the kernel:
 * zero, writable, not locked. As with the kernel's break, the rest of the page that holds the break
 * keeps its contents.
 *
 * The task's libc calls from one thread at a time; the words are atomic, relaxed, for other members
 * that read them. */
#include <sys/mman.h>

#include "arch/copy.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/memory/memory.h"
#include "space/intervals.h"

#define BREAK_STEP (32 * LAYOUT_MIB)
/* The memory kept above the break is at most max(BREAK_KEPT_BYTES, heap / BREAK_KEPT_DIVISOR), so
 * that a task takes little more memory than a process. */
#define BREAK_KEPT_BYTES   (32u << 10)
#define BREAK_KEPT_DIVISOR 48

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

/* Maps up to `wanted`, in large steps, or exactly if a limit forbids those: 0 or -errno. */
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

/* Maps new pages above the break in place of what the program may have mapped there. */
static long map_new_pages(uintptr_t from, size_t size)
{
    long result = raw(__NR_mmap, from, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return raw_failed(result) ? result : 0;
}

/* Zeroes kept pages: 0 or -errno. If the program has made them read-only, the guarded copy fails
 * and they are mapped anew. A forked child may lack them (MADV_DONTFORK) and may block the signal:
 * it always maps them anew. */
static long zero_pages(uintptr_t from, uintptr_t end)
{
    static const char zeroes[ARCH_PAGE_MIN];
    if (from < end && !process_in_space())
        return map_new_pages(from, end - from);
    for (uintptr_t page = from; page < end; page += ARCH_PAGE_MIN)
        if (arch_guarded_copy((void *)page, zeroes, ARCH_PAGE_MIN) != 0)
            return map_new_pages(page_floor(page), end - page_floor(page));
    return 0;
}

static long grow(struct space_slot *self, uintptr_t now, uintptr_t wanted)
{
    struct space_interpose *interpose = &self->interpose;
    uint32_t kept = atomic_load_explicit(&interpose->break_kept_pages, memory_order_relaxed);
    uintptr_t from = page_ceiling(now), end = from + (uint64_t)kept * ARCH_PAGE;
    long result = map_break(self, wanted);
    if (result != 0)
        return result;
    end = page_ceiling(wanted) < end ? page_ceiling(wanted) : end;
    result = zero_pages(from, end);
    if (result == 0)
        atomic_store_explicit(&interpose->break_kept_pages,
                              kept - (uint32_t)((end - from) / ARCH_PAGE), memory_order_relaxed);
    return result;
}

/* How many bytes may stay mapped above a break that is lowered to `above`. */
static uint64_t max_kept_bytes(const struct space_slot *self, uintptr_t above)
{
    const struct space_interpose *interpose = &self->interpose;
    uint64_t part = (above - low_of(self)) / BREAK_KEPT_DIVISOR;
    if (has_flag(interpose, SPACE_BREAK_RESERVED))
        return UINT64_MAX;
    if (has_flag(interpose, SPACE_BREAK_CHANGED))
        return 0;
    return part > BREAK_KEPT_BYTES ? part : BREAK_KEPT_BYTES;
}

/* Discards `size` bytes above the break except the first `keep`, or unmaps all. Returns the bytes
 * that stay, or -errno. */
static long discard_or_unmap(struct space_interpose *interpose, uintptr_t above, size_t size,
                             size_t keep)
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

/* Discards memory down to half of the maximum once the maximum is exceeded, so that the next small
 * shrinks need no system call. */
static long shrink(struct space_slot *self, uintptr_t now, uintptr_t wanted)
{
    struct space_interpose *interpose = &self->interpose;
    uintptr_t above = page_ceiling(wanted);
    uint64_t max = max_kept_bytes(self, above);
    uint64_t size = page_ceiling(now) - above +
                    (uint64_t)ARCH_PAGE *
                        atomic_load_explicit(&interpose->break_kept_pages, memory_order_relaxed);
    if (size > max) {
        long result = discard_or_unmap(interpose, above, size, page_floor(max / 2));
        if (result < 0)
            return result;
        size = (uint64_t)result;
    }
    atomic_store_explicit(&interpose->break_kept_pages, (uint32_t)(size / ARCH_PAGE),
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

void brk_discarded(const struct space_slot *self, uintptr_t wanted, uintptr_t *start,
                   uintptr_t *end)
{
    uint64_t now = atomic_load_explicit(&self->interpose.break_now, memory_order_relaxed);
    int shrinks = wanted >= low_of(self) && wanted < now;
    *start = shrinks ? page_ceiling(wanted) : 0;
    *end = shrinks ? page_ceiling(now) : 0;
}

/* Maps `size` bytes after the mapped ones without populating them, even under mlockall: 0 or
 * -errno. */
static long reserve(struct space_interpose *interpose, size_t size)
{
    uint64_t mapped = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    long result = area_reserve(mapped, size);
    if (result != 0)
        return result;
    raw(__NR_munlock, mapped, size); /* has an effect only under mlockall */
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

int brk_is_reserved(const struct space_slot *self)
{
    return has_flag(&self->interpose, SPACE_BREAK_RESERVED);
}

void brk_unreserve(struct space_slot *self)
{
    atomic_fetch_and_explicit(&self->interpose.break_flags, ~(uint32_t)SPACE_BREAK_RESERVED,
                              memory_order_relaxed);
}

void brk_record_change(struct space_slot *self, uintptr_t start, size_t size)
{
    if (start < high_of(self) && start + size > low_of(self))
        atomic_fetch_or_explicit(&self->interpose.break_flags, SPACE_BREAK_CHANGED,
                                 memory_order_relaxed);
}
