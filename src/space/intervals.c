/* src/space/intervals.c: see intervals.h. Freestanding. */
#include "space/intervals.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/raw.h"
#include "space/registry.h"

static struct space_intervals *table_of(const struct space_slot *slot,
                                        enum space_interval_kind kind)
{
    return &((struct space_slot *)slot)->interpose.intervals[kind];
}

uint32_t intervals_used(const struct space_slot *slot, enum space_interval_kind kind)
{
    return atomic_load_explicit(&table_of(slot, kind)->used, memory_order_acquire);
}

_Atomic uint64_t *intervals_word(const struct space_slot *slot, enum space_interval_kind kind,
                                 uint32_t index)
{
    if (index < INTERVALS_IN_SLOT)
        return &((struct space_slot *)slot)->interpose.interval_words[kind][index];
    uintptr_t overflow = intervals_overflow(slot_index(space_registry(), slot), kind);
    return (_Atomic uint64_t *)overflow + (index - INTERVALS_IN_SLOT);
}

static uint64_t load(const struct space_slot *slot, enum space_interval_kind kind, uint32_t index)
{
    return atomic_load(intervals_word(slot, kind, index));
}

static uint64_t make_word(uintptr_t start, uintptr_t end, uint64_t tentative)
{
    return (uint64_t)(start / ARCH_PAGE_MIN) << INTERVAL_START_SHIFT |
           (uint64_t)((end - start) / ARCH_PAGE_MIN) << 1 | tentative;
}

/* ---- New entries ---- */

/* The memory stays mapped for the slot's next task. */
static int map_overflow(struct space_slot *slot, enum space_interval_kind kind)
{
    struct space_intervals *table = table_of(slot, kind);
    if (atomic_load_explicit(&table->has_overflow, memory_order_acquire))
        return 0;
    uintptr_t overflow = intervals_overflow(slot_index(space_registry(), slot), kind);
    long result = raw(__NR_mmap, overflow, INTERVALS_OVERFLOW_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result) && result != -EEXIST)
        return -1;
    atomic_store_explicit(&table->has_overflow, 1, memory_order_release);
    return 0;
}

/* Adds a word: its index, or -1. */
static int extend_table(struct space_slot *slot, enum space_interval_kind kind)
{
    struct space_intervals *table = table_of(slot, kind);
    uint32_t used = atomic_load_explicit(&table->used, memory_order_acquire);
    do
        if (used == INTERVALS_MAX || (used >= INTERVALS_IN_SLOT && map_overflow(slot, kind) != 0))
            return -1;
    while (!atomic_compare_exchange_weak_explicit(&table->used, &used, used + 1,
                                                  memory_order_release, memory_order_acquire));
    return (int)used;
}

/* Stores the word in an unused one: 0, or -1 if the table is full. */
static int store_word(struct space_slot *slot, enum space_interval_kind kind, uint64_t word)
{
    uint32_t used = intervals_used(slot, kind);
    for (uint32_t i = 0;; i++) {
        uint64_t unused = 0;
        int index = i < used ? (int)i : extend_table(slot, kind);
        if (index < 0)
            return -1;
        if (load(slot, kind, (uint32_t)index) == 0 &&
            atomic_compare_exchange_strong(intervals_word(slot, kind, (uint32_t)index), &unused,
                                           word))
            return 0;
    }
}

static void remove_word(struct space_slot *slot, enum space_interval_kind kind, uint64_t word)
{
    uint32_t used = intervals_used(slot, kind);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t expected = word;
        if (load(slot, kind, i) == word &&
            atomic_compare_exchange_strong(intervals_word(slot, kind, i), &expected, 0))
            return;
    }
}

/* Extends an entry that [start, end) touches or overlaps. Returns whether there is one. */
static int extend_entry(struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                        uintptr_t end)
{
    uint32_t used = intervals_used(slot, kind);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = load(slot, kind, i);
        uintptr_t low = interval_start(word), high = interval_end(word);
        if (!interval_is_certain(word) || high < start || low > end)
            continue;
        low = start < low ? start : low;
        high = end > high ? end : high;
        if ((high - low) / ARCH_PAGE_MIN <= INTERVAL_MAX_PAGES &&
            atomic_compare_exchange_strong(intervals_word(slot, kind, i), &word,
                                           make_word(low, high, 0)))
            return 1;
    }
    return 0;
}

/* ---- Removing ---- */

/* Cuts [start, end) out of one entry: 0, or 1 if the entry has changed and must be tried again. */
static int cut_entry(struct space_slot *slot, enum space_interval_kind kind, uint32_t index,
                     uint64_t word, uintptr_t start, uintptr_t end, uint64_t tentative,
                     unsigned *lost)
{
    uintptr_t low = interval_start(word), high = interval_end(word);
    uintptr_t from = low < start ? start : low, to = high > end ? end : high;
    uint64_t left = low < from ? make_word(low, from, 0) : 0;
    uint64_t right = high > to ? make_word(to, high, 0) : 0;
    uint64_t middle = tentative ? make_word(from, to, tentative) : 0, expected = word;
    if (!left) { /* the word itself can become one of the others */
        left = right ? right : middle;
        right = right ? middle : 0;
        middle = 0;
    }
    int has_right = right && store_word(slot, kind, right) == 0;
    int has_middle = middle && store_word(slot, kind, middle) == 0;
    if (!atomic_compare_exchange_strong(intervals_word(slot, kind, index), &expected, left)) {
        if (has_right)
            remove_word(slot, kind, right);
        if (has_middle)
            remove_word(slot, kind, middle);
        return 1;
    }
    *lost += right && !(right & INTERVAL_TENTATIVE) && !has_right;
    return 0;
}

/* Cuts [start, end) out of the entry with that index, however often another member changes it. */
static void cut_word(struct space_slot *slot, enum space_interval_kind kind, uint32_t index,
                     uintptr_t start, uintptr_t end, uint64_t tentative, unsigned *lost)
{
    uint64_t word;
    do
        word = load(slot, kind, index);
    while (interval_is_certain(word) && interval_start(word) < end && interval_end(word) > start &&
           cut_entry(slot, kind, index, word, start, end, tentative, lost) != 0);
}

unsigned intervals_cut(struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                       uintptr_t end, uint64_t tentative)
{
    unsigned lost = 0;
    uint32_t merges;
    do {
        merges = atomic_load(&table_of(slot, kind)->merges);
        uint32_t used = intervals_used(slot, kind);
        for (uint32_t i = 0; i < used; i++)
            cut_word(slot, kind, i, start, end, tentative, &lost);
    } while (atomic_load(&table_of(slot, kind)->merges) != merges);
    return lost;
}

void intervals_settle(struct space_slot *slot, enum space_interval_kind kind,
                      int (*is_gone)(uintptr_t start))
{
    uint32_t used = intervals_used(slot, kind);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = load(slot, kind, i);
        if (word & INTERVAL_TENTATIVE)
            atomic_store(intervals_word(slot, kind, i),
                         is_gone(interval_start(word)) ? 0 : word & ~(uint64_t)INTERVAL_TENTATIVE);
    }
}

void intervals_remove_from_others(struct space *space, const struct space_slot *owner,
                                  uintptr_t start, uintptr_t end)
{
    uint32_t highest = atomic_load_explicit(&space->highest, memory_order_relaxed);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *slot = &space->slots[i];
        if (slot != owner && intervals_used(slot, INTERVALS_OUT_OF_RANGE))
            (void)intervals_cut(slot, INTERVALS_OUT_OF_RANGE, start, end, 0);
    }
}

long intervals_unmark_dontfork(struct space *space, const struct space_slot *owner, uintptr_t start,
                               uintptr_t end)
{
    uint32_t highest = atomic_load_explicit(&space->highest, memory_order_relaxed);
    long result = 0;
    while (start < end) {
        uintptr_t low, high, next = end, after = end;
        for (uint32_t i = 1; i <= highest; i++)
            if (&space->slots[i] != owner &&
                intervals_find(&space->slots[i], INTERVALS_DONTFORK, start, end, &low, &high) &&
                low < next) {
                next = low;
                after = high;
            }
        if (next > start) {
            long failed = raw(__NR_madvise, start, next - start, MADV_DOFORK);
            result = result ? result : failed;
        }
        start = after;
    }
    return result;
}

uint32_t intervals_trim(struct space_slot *slot, enum space_interval_kind kind)
{
    uint32_t used = intervals_used(slot, kind);
    while (used && load(slot, kind, used - 1) == 0)
        used--;
    atomic_store(&table_of(slot, kind)->used, used);
    return used;
}

void intervals_clear(struct space_slot *slot)
{
    for (enum space_interval_kind kind = 0; kind < INTERVALS_KINDS; kind++) {
        struct space_intervals *table = table_of(slot, kind);
        /* Before a load, which would map the zero page of a new slot: replacing that interrupts
         * each CPU that runs a task of the space. */
        atomic_store(&table->has_overflow, 0);
        uint32_t used = intervals_used(slot, kind);
        for (uint32_t i = 0; i < used; i++)
            atomic_store(intervals_word(slot, kind, i), 0);
        atomic_store(&table->used, 0);
    }
}

/* ---- Adding ---- */

/* Makes one entry of the one with index `at` and another one, if they touch or overlap. Another
 * member may be cutting that one, and its search may have passed the entry that grows. So `merges`
 * is raised before the other entry is removed, and a member that cuts searches again then. If the
 * other entry was cut before, the one that has grown shrinks again. */
static void merge_entry(struct space_slot *slot, enum space_interval_kind kind, uint32_t at,
                        uint32_t other)
{
    uint64_t word = load(slot, kind, at), removed = load(slot, kind, other);
    uintptr_t low = interval_start(word), high = interval_end(word);
    uintptr_t from = interval_start(removed), to = interval_end(removed);
    if (at == other || !interval_is_certain(word) || !interval_is_certain(removed) || to < low ||
        from > high)
        return;
    from = from < low ? from : low;
    to = to > high ? to : high;
    if ((to - from) / ARCH_PAGE_MIN > INTERVAL_MAX_PAGES ||
        !atomic_compare_exchange_strong(intervals_word(slot, kind, at), &word,
                                        make_word(from, to, 0)))
        return;
    atomic_fetch_add(&table_of(slot, kind)->merges, 1);
    if (atomic_compare_exchange_strong(intervals_word(slot, kind, other), &removed, 0))
        return;
    unsigned lost = 0; /* nothing: what is cut is at the ends */
    cut_word(slot, kind, at, from, low, 0, &lost);
    cut_word(slot, kind, at, high, to, 0, &lost);
}

/* Merges the entry that holds `address` with its neighbours. */
static void merge_neighbours(struct space_slot *slot, enum space_interval_kind kind,
                             uintptr_t address)
{
    uint32_t used = intervals_used(slot, kind);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = load(slot, kind, i);
        if (!interval_is_certain(word) || address < interval_start(word) ||
            address >= interval_end(word))
            continue;
        for (uint32_t k = 0; k < used; k++)
            merge_entry(slot, kind, i, k);
        return;
    }
}

int intervals_add(struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                  uintptr_t end)
{
    const uintptr_t max_bytes = INTERVAL_MAX_PAGES * ARCH_PAGE_MIN;
    int result = end > INTERVAL_ADDRESSES ? -1 : 0;
    while (result == 0 && start < end) {
        uintptr_t next = end - start > max_bytes ? start + max_bytes : end;
        if (!intervals_contain(slot, kind, start, next)) {
            if (extend_entry(slot, kind, start, next))
                merge_neighbours(slot, kind, start);
            else
                result = store_word(slot, kind, make_word(start, next, 0));
        }
        start = next;
    }
    return result;
}

/* ---- Searching ---- */

int intervals_find(const struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                   uintptr_t end, uintptr_t *found_start, uintptr_t *found_end)
{
    uint32_t used = intervals_used(slot, kind);
    *found_start = *found_end = end;
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = load(slot, kind, i);
        uintptr_t low = interval_start(word), high = interval_end(word);
        if (!interval_is_certain(word) || high <= start || low >= end)
            continue;
        low = low < start ? start : low;
        if (low < *found_start) {
            *found_start = low;
            *found_end = high < end ? high : end;
        }
    }
    return *found_start < end;
}

int intervals_overlap(const struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                      uintptr_t end)
{
    uintptr_t low, high;
    return intervals_find(slot, kind, start, end, &low, &high);
}

int intervals_contain(const struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                      uintptr_t end)
{
    uintptr_t low, high;
    while (start < end) {
        if (!intervals_find(slot, kind, start, end, &low, &high) || low > start)
            return 0;
        start = high;
    }
    return 1;
}
