/* src/registry/intervals.h: tables of address intervals, some for each member.
 *
 * An interval is one word, so that any member and the reaper can change it by compare-and-swap: no
 * lock is held across programs, and a task that is killed in between leaves no torn entry. What
 * does not fit into a slot's own words spills into memory in the range of slot 0, which is mapped
 * when it is first needed and stays (space/intervals.h). */
#ifndef ONESPACE_REGISTRY_INTERVALS_H
#define ONESPACE_REGISTRY_INTERVALS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "arch/constants.h"
#include "registry/layout.h"

enum space_interval_kind {
    INTERVALS_OUT_OF_RANGE, /* mappings outside the task's range, because the program asked so */
    INTERVALS_SEALED,       /* what the program has sealed by mseal */
    INTERVALS_DONTFORK,     /* what the program wants no forked child to have (MADV_DONTFORK) */
    INTERVALS_AIO,          /* contexts of asynchronous I/O: the first page of each one's ring */
    INTERVALS_KINDS
};

enum {
    INTERVALS_IN_SLOT = 256,
    INTERVALS_SPILLED = 16384,
    INTERVALS_MOST = INTERVALS_IN_SLOT + INTERVALS_SPILLED,
    INTERVALS_SPILL_BYTES = INTERVALS_SPILLED * 8,
};

/* A word: page number of the start << 28 | pages << 1 | in doubt. 0: unused. Pages of the smallest
 * size: addresses below 2^48, intervals of less than 512 GiB. */
enum { INTERVAL_DOUBT = 1, INTERVAL_PAGES_BITS = 27, INTERVAL_START_SHIFT = 28 };
#define INTERVAL_PAGES_MOST ((UINT64_C(1) << INTERVAL_PAGES_BITS) - 1)
#define INTERVAL_ADDRESSES  (UINT64_C(1) << 48)

struct space_intervals {
    /* No word at or above this index was ever used by this task. Raised by compare-and-swap before
     * the word is written. */
    _Atomic uint32_t used;
    _Atomic uint32_t has_spill; /* sticky: the spilled words are mapped; release */
    /* By the member's threads, and by members that map over one of its intervals: always by
     * compare-and-swap. */
    _Atomic uint64_t words[INTERVALS_IN_SLOT];
};

#define LAYOUT_INTERVALS (LAYOUT_REGION + 12 * LAYOUT_GIB)

static_assert(LAYOUT_SLOTS * UINT64_C(1) * INTERVALS_KINDS * INTERVALS_SPILL_BYTES <= LAYOUT_GIB,
              "below the channels");

static inline uintptr_t intervals_spill(unsigned slot, enum space_interval_kind kind)
{
    return LAYOUT_INTERVALS + ((uintptr_t)slot * INTERVALS_KINDS + kind) * INTERVALS_SPILL_BYTES;
}

static inline uintptr_t interval_start(uint64_t word)
{
    return (word >> INTERVAL_START_SHIFT) * ARCH_PAGE_MIN;
}

static inline uintptr_t interval_end(uint64_t word)
{
    return interval_start(word) + (word >> 1 & INTERVAL_PAGES_MOST) * ARCH_PAGE_MIN;
}

/* An interval that counts: used, and not in doubt. */
static inline int interval_is_certain(uint64_t word)
{
    return word && !(word & INTERVAL_DOUBT);
}

#endif
