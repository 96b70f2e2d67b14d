/* src/interpose/memory/area.c: addresses for mappings in a task's own range: see memory.h. */
#include "interpose/memory/memory.h"

#include <sys/mman.h>

#include "base/page.h"
#include "base/raw.h"

enum { AREA_SEGMENTS = 64, WORD_BITS = 64, DOUBLINGS_MAX = 20 };

/* Bit n is page n of the range, in pages of the smallest size: a larger page has several bits. */
#define AREA_PAGES (LAYOUT_BREAK / ARCH_PAGE_MIN)

struct area_segment {
    _Atomic uint64_t start, size; /* start 0: unused */
};

/* Written by the task's threads, and by area_init before there are any. */
struct area_map {
    _Atomic uint64_t words[AREA_PAGES / WORD_BITS];
    struct area_segment segments[AREA_SEGMENTS];
};

static_assert(LAYOUT_AREA_MAP + sizeof(struct area_map) <= LAYOUT_FILES, "below the areas");

static struct area_map *map_of(const struct space_slot *self)
{
    return (struct area_map *)(range_of(self) + LAYOUT_AREA_MAP);
}

/* The first page in [page, end) whose bit is set (flip 0) or clear (flip ~0), or `end`. */
static uint64_t find_bit(const struct area_map *map, uint64_t page, uint64_t end, uint64_t flip)
{
    while (page < end) {
        uint64_t word = atomic_load_explicit(&map->words[page / WORD_BITS], memory_order_relaxed);
        word = (word ^ flip) >> page % WORD_BITS;
        if (word) {
            page += (uint64_t)__builtin_ctzll(word);
            return page < end ? page : end;
        }
        page = round_up(page + 1, WORD_BITS);
    }
    return end;
}

/* The first page of a run of `pages` unused pages in [from, end), or `end`: one pass. */
static uint64_t find_run(const struct area_map *map, uint64_t from, uint64_t end, uint64_t pages,
                         uint64_t align)
{
    uint64_t start = round_up(from, align);
    while (start < end && pages <= end - start) {
        uint64_t used = find_bit(map, start, start + pages, 0);
        if (used == start + pages)
            return start;
        start = round_up(find_bit(map, used, end, ~UINT64_C(0)), align);
    }
    return end;
}

/* The bits of [page, end) in the word that holds `page`. */
static uint64_t mask_of(uint64_t page, uint64_t end)
{
    uint64_t next = round_up(page + 1, WORD_BITS), mask = ~UINT64_C(0) << page % WORD_BITS;
    return end < next ? mask & ~(~UINT64_C(0) << end % WORD_BITS) : mask;
}

static void change_bits(struct area_map *map, uint64_t page, uint64_t end, int is_used)
{
    for (uint64_t next; page < end; page = next) {
        _Atomic uint64_t *word = &map->words[page / WORD_BITS];
        uint64_t mask = mask_of(page, end);
        next = round_up(page + 1, WORD_BITS);
        if (mask == ~UINT64_C(0))
            atomic_store_explicit(word, is_used ? mask : 0, memory_order_relaxed);
        else if (is_used)
            atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
        else
            atomic_fetch_and_explicit(word, ~mask, memory_order_relaxed);
    }
}

/* The same for addresses; those outside the areas have no bits. */
static void change(struct space_slot *self, uintptr_t start, size_t size, int is_used)
{
    uint64_t page = (start - range_of(self)) / ARCH_PAGE_MIN, end = page + size / ARCH_PAGE_MIN;
    change_bits(map_of(self), page, end < AREA_PAGES ? end : AREA_PAGES, is_used);
}

struct area {
    _Atomic uint64_t *next;
    uintptr_t start, end;
};

static struct area area_of(struct space_slot *self, enum area_kind kind)
{
    uintptr_t range = range_of(self);
    return kind == AREA_FILES ? (struct area){&self->interpose.files_next, range + LAYOUT_FILES,
                                              range + LAYOUT_MAPPINGS}
                              : (struct area){&self->interpose.mappings_next,
                                              range + LAYOUT_MAPPINGS, range + LAYOUT_BREAK};
}

/* Makes the kernel map a page of its own for the bits at this address. A search that read them
 * first would map the zero page, and replacing that interrupts each CPU that runs a task of the
 * space. */
static void touch(struct space_slot *self, uintptr_t address)
{
    uint64_t page = (address - range_of(self)) / ARCH_PAGE_MIN;
    atomic_store_explicit(&map_of(self)->words[page / WORD_BITS], 0, memory_order_relaxed);
}

long area_init(struct space_slot *self)
{
    long result =
        raw(__NR_mmap, map_of(self), page_ceiling(sizeof(struct area_map)), PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result))
        return result;
    struct area files = area_of(self, AREA_FILES);
    uint64_t next = atomic_load_explicit(files.next, memory_order_relaxed);
    touch(self, files.start);
    touch(self, area_of(self, AREA_MAPPINGS).start);
    change(self, files.start, page_ceiling(next - files.start), 1);
    return 0;
}

size_t area_map_size(void)
{
    return page_ceiling(sizeof(struct area_map));
}

/* Searches from the cursor to the end, then from the start: an address, or 0. */
static uintptr_t find_free(struct space_slot *self, const struct area *area, size_t size,
                           size_t align)
{
    const struct area_map *map = map_of(self);
    uintptr_t range = range_of(self);
    uint64_t next = atomic_load_explicit(area->next, memory_order_relaxed);
    uint64_t first = (area->start - range) / ARCH_PAGE_MIN,
             end = (area->end - range) / ARCH_PAGE_MIN;
    uint64_t from = next < area->start ? first : page_ceiling(next - range) / ARCH_PAGE_MIN;
    uint64_t found = find_run(map, from, end, size / ARCH_PAGE_MIN, align / ARCH_PAGE_MIN);
    if (found >= end)
        found = find_run(map, first, end, size / ARCH_PAGE_MIN, align / ARCH_PAGE_MIN);
    return found < end ? range + found * ARCH_PAGE_MIN : 0;
}

/* Marks pages as used: 0 if another thread did so first. The first word decides. Claims that
 * overlap only in later words both succeed, and the kernel decides. */
static int claim(struct space_slot *self, uintptr_t start, size_t size)
{
    uint64_t page = (start - range_of(self)) / ARCH_PAGE_MIN, end = page + size / ARCH_PAGE_MIN;
    _Atomic uint64_t *word = &map_of(self)->words[page / WORD_BITS];
    uint64_t mask = mask_of(page, end);
    uint64_t before = atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
    if (before & mask) {
        atomic_fetch_and_explicit(word, ~(mask & ~before), memory_order_relaxed);
        return 0;
    }
    change_bits(map_of(self), round_up(page + 1, WORD_BITS), end, 1);
    return 1;
}

uintptr_t area_claim(struct space_slot *self, enum area_kind kind, size_t size, size_t align)
{
    struct area area = area_of(self, kind);
    for (int tries = 0; size && tries < AREA_TRIES; tries++) {
        uintptr_t start = find_free(self, &area, size, align);
        if (!start)
            break;
        /* First: a signal handler that leaves by longjmp may lose the claim, but the next search
         * does not have to pass it. */
        atomic_store_explicit(area.next, start + size, memory_order_relaxed);
        if (claim(self, start, size))
            return start;
    }
    return 0;
}

void area_mark_used(struct space_slot *self, uintptr_t start, size_t size)
{
    change(self, start, size, 1);
}

void area_release(struct space_slot *self, uintptr_t start, size_t size)
{
    change(self, start, size, 0);
    for (enum area_kind kind = AREA_FILES; kind <= AREA_MAPPINGS; kind++) {
        struct area area = area_of(self, kind);
        uint64_t end = start + size;
        if (start >= area.start && end <= area.end)
            atomic_compare_exchange_strong_explicit(area.next, &end, start, memory_order_relaxed,
                                                    memory_order_relaxed);
    }
}

long area_reserve(uintptr_t start, size_t size)
{
    long result = raw(__NR_mmap, start, size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return raw_failed(result) ? result : 0;
}

int area_is_free(uintptr_t start, size_t size)
{
    return area_reserve(start, size) == 0 && raw(__NR_munmap, start, size) == 0;
}

/* Finds the first mapped page by bisection. Only that page is marked: usually it is another
 * thread's, whose munmap clears it. A mapping that no handler saw may be large, so each failed try
 * doubles the marked pages. */
void area_mark_conflict(struct space_slot *self, uintptr_t start, size_t size, int tries)
{
    uintptr_t low = start, high = start + size;
    while (high - low > ARCH_PAGE) {
        size_t half = page_floor((high - low) / 2);
        if (area_is_free(low, half))
            low += half;
        else
            high = low + half;
    }
    change(self, start, size, 0);
    change(self, low, (size_t)ARCH_PAGE << (tries < DOUBLINGS_MAX ? tries : DOUBLINGS_MAX), 1);
}

void area_record_segment(struct space_slot *self, uintptr_t start, size_t size)
{
    struct area_segment *segments = map_of(self)->segments;
    for (unsigned i = 0; i < AREA_SEGMENTS; i++) {
        uint64_t unused = 0;
        if (!atomic_compare_exchange_strong_explicit(&segments[i].start, &unused, start,
                                                     memory_order_relaxed, memory_order_relaxed))
            continue;
        atomic_store_explicit(&segments[i].size, size, memory_order_relaxed);
        return;
    }
    area_release(self, start, size);
}

/* The record of the segment attached at `start`, or NULL. */
static struct area_segment *find_segment(const struct space_slot *self, uintptr_t start)
{
    struct area_segment *segments = map_of(self)->segments;
    for (unsigned i = 0; i < AREA_SEGMENTS; i++)
        if (atomic_load_explicit(&segments[i].start, memory_order_relaxed) == start)
            return &segments[i];
    return NULL;
}

size_t area_segment_size(const struct space_slot *self, uintptr_t start)
{
    const struct area_segment *segment = find_segment(self, start);
    return segment ? atomic_load_explicit(&segment->size, memory_order_relaxed) : 0;
}

void area_forget_segment(struct space_slot *self, uintptr_t start)
{
    struct area_segment *segment = find_segment(self, start);
    if (!segment)
        return;
    area_release(self, start, atomic_load_explicit(&segment->size, memory_order_relaxed));
    atomic_store_explicit(&segment->start, 0, memory_order_relaxed);
}
