/* src/storage/region/hot.c: which places of a region are put into, or got from, again and again.
 *
 * A put by pwrite has no faults and enters the kernel each time. Stores have a fault for each page
 * after each write-back and cost a copy from then on. Nobody says what comes; so, as with renting
 * and buying, a place is written until it has been written several times within a few milliseconds,
 * and stored into as long as that goes on. Likewise what is got so often is in memory, without
 * asking the kernel whether it is.
 *
 * A word holds the place, the time unit of its last use and how many there were in a row. Any
 * thread writes it; relaxed, since nothing else depends on it, and what is lost only delays the
 * change. Places that share a word displace one another. */
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

int storage_region_is_used_often(struct storage_region *region, uint64_t offset)
{
    uint64_t place = offset / PLACE, unit = now();
    _Atomic uint64_t *word = &region->often[place % STORAGE_OFTEN];
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    uint64_t count = seen & ((1 << COUNT_BITS) - 1);
    uint64_t last = seen >> COUNT_BITS & ((1 << UNIT_BITS) - 1);
    if (seen >> (COUNT_BITS + UNIT_BITS) != place)
        count = 0;
    else if (last != unit && (count < ENOUGH || unit - last > 1))
        count = 0;
    int is_often = count >= ENOUGH;
    count += count < ENOUGH;
    uint64_t next = (place << UNIT_BITS | unit) << COUNT_BITS | count;
    if (next != seen)
        atomic_store_explicit(word, next, memory_order_relaxed);
    return is_often;
}
