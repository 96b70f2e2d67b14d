/* src/storage/region/hot.c: which places of a region are put into, or got from, again and again.
 *
 * A put by pwrite has no faults, but enters the kernel each time. Stores take a fault per page
 * after each write-back, and cost only the copy from then on. The future is unknown, so this is the
 * ski-rental problem: a place is written by pwrite until that has happened several times within a
 * few milliseconds, and stored into as long as that goes on. Likewise what is got that often is in
 * memory, and the kernel need not be asked.
 *
 * A word holds the place, the time unit of its last use, and how many uses followed one another.
 * Any thread writes it; relaxed, since nothing else depends on it, and a lost update only delays
 * the change. Places that share a word displace one another. */
#include <time.h>

#include "storage/region/region.h"

enum { PLACE = 64 << 10, UNIT_NS = 1 << 24, ENOUGH = 4, COUNT_BITS = 8, UNIT_BITS = 24 };

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    uint64_t ns = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
    return ns / UNIT_NS & ((1 << UNIT_BITS) - 1);
}

int storage_region_is_hot(struct storage_region *region, uint64_t offset)
{
    uint64_t place = offset / PLACE, unit = now();
    _Atomic uint64_t *word = &region->hot[place % STORAGE_HOT_WORDS];
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    uint64_t count = seen & ((1 << COUNT_BITS) - 1);
    uint64_t last = seen >> COUNT_BITS & ((1 << UNIT_BITS) - 1);
    int is_other = seen >> (COUNT_BITS + UNIT_BITS) != place;
    if (is_other || (last != unit && (count < ENOUGH || unit - last > 1)))
        count = 0;
    int is_hot = count >= ENOUGH;
    count += count < ENOUGH;
    uint64_t next = (place << UNIT_BITS | unit) << COUNT_BITS | count;
    if (next != seen)
        atomic_store_explicit(word, next, memory_order_relaxed);
    return is_hot;
}
