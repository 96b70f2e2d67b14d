/* src/interpose/memory/brk.c: a program break for each task. */
#include "interpose/memory/memory.h"

#include <sys/mman.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/memory/area.h"

#define BREAK_STEP (32 * LAYOUT_MIB)
#define BREAK_KEPT (32u << 10)

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
static long map_break(struct space_interpose *interpose, uintptr_t wanted, uintptr_t high)
{
    uint64_t mapped = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    if (wanted <= mapped)
        return 0;
    uintptr_t end = round_up(wanted, BREAK_STEP);
    if (end > high)
        end = high;
    long result = raw(__NR_mmap, mapped, end - mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result))
        return result;
    atomic_store_explicit(&interpose->break_mapped, end, memory_order_relaxed);
    return 0;
}

/* Releases the pages between `from` and `to`, all above the new break. All of it reads as zero
 * afterwards. */
static void release_break(uintptr_t from, uintptr_t to)
{
    uintptr_t first_page = page_ceiling(from), end = page_ceiling(to);
    write_zeroes(from, (first_page < to ? first_page : to) - from);
    if (end > first_page)
        raw(__NR_madvise, first_page, end - first_page, MADV_DONTNEED);
}

/* The program break of this task alone. System calls are avoided, since they take the lock on the
 * memory map that all tasks share, and unmapping interrupts all of their CPUs: memory is mapped in
 * large steps, and the first BREAK_KEPT bytes above the break stay when it shrinks. Memory that
 * growth adds must be zero, and zeroing that much is faster than releasing a page and faulting it
 * in again. The task's libc calls from one thread at a time; the words are atomic, relaxed, for
 * other members that read them. */
long interpose_brk(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t wanted = (uintptr_t)a[0];
    (void)nr;
    struct space_interpose *interpose = &self->interpose;
    uintptr_t low = range_of(self) + LAYOUT_BREAK,
              high = range_of(self) + LAYOUT_STACK - LAYOUT_MIB;
    uint64_t now = atomic_load_explicit(&interpose->break_now, memory_order_relaxed);
    uint64_t kept = atomic_load_explicit(&interpose->break_kept, memory_order_relaxed);
    if (wanted < low || wanted > high || wanted == now || map_break(interpose, wanted, high) != 0)
        return (long)now;
    if (wanted > now) {
        uint64_t grown = wanted - now, dirty = kept < grown ? kept : grown;
        write_zeroes(now, dirty);
        kept -= dirty;
    } else {
        kept += now - wanted;
        if (kept > BREAK_KEPT) {
            release_break(wanted, wanted + kept);
            kept = 0;
        }
    }
    atomic_store_explicit(&interpose->break_kept, (uint32_t)kept, memory_order_relaxed);
    atomic_store_explicit(&interpose->break_now, wanted, memory_order_relaxed);
    return (long)wanted;
}
