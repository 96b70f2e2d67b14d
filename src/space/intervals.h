/* src/space/intervals.h: tables of address intervals of the members. */
#ifndef ONESPACE_SPACE_INTERVALS_H
#define ONESPACE_SPACE_INTERVALS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "arch/constants.h"
#include "space/layout.h"

struct space;
struct space_slot;

/* Tables of address intervals, some for each member.
 *
 * An interval is one word, so that any member and the reaper can change it by compare-and-swap: no
 * lock is held across programs, and a task that is killed in between leaves no torn entry. What
 * does not fit into a slot's own words spills into memory in the range of slot 0, which is mapped
 * when it is first needed and stays (space/intervals.h). */

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
    INTERVALS_MAX = INTERVALS_IN_SLOT + INTERVALS_SPILLED,
    INTERVALS_SPILL_BYTES = INTERVALS_SPILLED * 8,
};

/* A word: page number of the start << 28 | pages << 1 | in doubt. 0: unused. Pages of the smallest
 * size: addresses below 2^48, intervals of less than 512 GiB. */
enum { INTERVAL_DOUBT = 1, INTERVAL_PAGES_BITS = 27, INTERVAL_START_SHIFT = 28 };
#define INTERVAL_MAX_PAGES ((UINT64_C(1) << INTERVAL_PAGES_BITS) - 1)
#define INTERVAL_ADDRESSES (UINT64_C(1) << 48)

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
    return interval_start(word) + (word >> 1 & INTERVAL_MAX_PAGES) * ARCH_PAGE_MIN;
}

/* An interval that counts: used, and not in doubt. */
static inline int interval_is_certain(uint64_t word)
{
    return word && !(word & INTERVAL_DOUBT);
}

/* The tables of address intervals of the members (space/intervals.h).
 *
 * Intervals that touch become one entry, and what lies inside an entry needs none. A member's
 * threads call these functions with its lock held (space/locks.h); any member may cut another's
 * table, and all read without a lock. An entry is split by first entering its upper part and then
 * shortening it: a task that is killed in between leaves two entries that overlap, and loses
 * nothing. Freestanding. */

/* How many words to look at, for intervals_word. Acquire. */
uint32_t intervals_used(const struct space_slot *slot, enum space_interval_kind kind);
/* The word, for an index below that. */
_Atomic uint64_t *intervals_word(const struct space_slot *slot, enum space_interval_kind kind,
                                 uint32_t index);

/* Enters [start, end), of whole pages: 0, or -1 if not all of it could be entered. */
int intervals_add(struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                  uintptr_t end);
/* Removes [start, end). With `doubt` INTERVAL_DOUBT what is removed stays as entries in doubt,
 * until intervals_resolve_doubts. How many entries could not be kept, because the table is full. */
unsigned intervals_cut(struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                       uintptr_t end, uint64_t doubt);
/* Ends all doubts: the entries of which `is_gone` says so go, the others count again. */
void intervals_resolve_doubts(struct space_slot *slot, enum space_interval_kind kind,
                              int (*is_gone)(uintptr_t start));

/* An entry that has something of [start, end), at least from *found on: 1, and the common part; 0:
 * none. The lowest one. */
int intervals_find(const struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                   uintptr_t end, uintptr_t *found_start, uintptr_t *found_end);
int intervals_overlap(const struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                      uintptr_t end);
int intervals_contain(const struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                      uintptr_t end);

/* The addresses are `owner`'s out-of-range memory from now on: no other member's. */
void intervals_remove_from_others(struct space *space, const struct space_slot *owner,
                                  uintptr_t start, uintptr_t end);

/* Lets forked children have [start, end) again, but for what other members than `owner` have marked
 * (MADV_DONTFORK): 0, or -errno of the first part that fails. */
long intervals_unmark_dontfork(struct space *space, const struct space_slot *owner, uintptr_t start,
                               uintptr_t end);

/* Empties all tables of a slot that has no task. */
void intervals_clear(struct space_slot *slot);

#endif
