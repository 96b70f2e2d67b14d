/* src/space/intervals.h: tables of address intervals, some for each member.
 *
 * An interval is one word, so that any member and the reaper can change it by compare-and-swap: no
 * lock is held across programs, and a task that is killed in between leaves no torn entry. A slot
 * has room for some words; the rest go to an overflow in the range of slot 0, which is mapped when
 * it is first needed and stays. */
#ifndef ONESPACE_SPACE_INTERVALS_H
#define ONESPACE_SPACE_INTERVALS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "arch/constants.h"
#include "space/layout.h"

struct space;
struct space_slot;

enum space_interval_kind {
    INTERVALS_OUT_OF_RANGE, /* mappings outside the task's range, at addresses that the program
                               chose */
    INTERVALS_SEALED,       /* memory that the program has sealed by mseal */
    INTERVALS_DONTFORK,     /* memory that the program has marked MADV_DONTFORK */
    INTERVALS_AIO,          /* contexts of asynchronous I/O: the first page of each one's ring */
    INTERVALS_REGISTERED,   /* other members' memory that it has registered with a device */
    INTERVALS_KINDS
};

enum {
    INTERVALS_IN_SLOT = 256,
    INTERVALS_OVERFLOW = 16384,
    INTERVALS_MAX = INTERVALS_IN_SLOT + INTERVALS_OVERFLOW,
    INTERVALS_OVERFLOW_BYTES = INTERVALS_OVERFLOW * 8,
};

/* A word: page number of the start << 28 | pages << 1 | tentative. 0: unused. Pages of the smallest
 * size: addresses below 2^48, intervals of less than 512 GiB. */
enum { INTERVAL_TENTATIVE = 1, INTERVAL_PAGES_BITS = 27, INTERVAL_START_SHIFT = 28 };
#define INTERVAL_MAX_PAGES ((UINT64_C(1) << INTERVAL_PAGES_BITS) - 1)
#define INTERVAL_ADDRESSES (UINT64_C(1) << 48)

/* The words are apart (space_interpose), so that few pages are touched where tables are empty. */
struct space_intervals {
    /* No word at or above this index is used. Raised by compare-and-swap before the word is
     * written. */
    _Atomic uint32_t used;
    _Atomic uint32_t has_overflow; /* sticky: the words of the overflow are mapped; release */
    _Atomic uint32_t merges;       /* counts entries that were made one (merge_entry) */
};

#define LAYOUT_INTERVALS (LAYOUT_REGION + 12 * LAYOUT_GIB)

static_assert(LAYOUT_INTERVALS +
                      LAYOUT_SLOTS * UINT64_C(1) * INTERVALS_KINDS * INTERVALS_OVERFLOW_BYTES <=
                  LAYOUT_INSITU,
              "below the channels");

static inline uintptr_t intervals_overflow(unsigned slot, enum space_interval_kind kind)
{
    return LAYOUT_INTERVALS + ((uintptr_t)slot * INTERVALS_KINDS + kind) * INTERVALS_OVERFLOW_BYTES;
}

static inline uintptr_t interval_start(uint64_t word)
{
    return (word >> INTERVAL_START_SHIFT) * ARCH_PAGE_MIN;
}

static inline uintptr_t interval_end(uint64_t word)
{
    return interval_start(word) + (word >> 1 & INTERVAL_MAX_PAGES) * ARCH_PAGE_MIN;
}

/* Whether the word is used and not tentative. */
static inline int interval_is_certain(uint64_t word)
{
    return word && !(word & INTERVAL_TENTATIVE);
}

/* Adjacent intervals become one entry, and no entry contains another. A member's threads call these
 * functions with its lock held (space/locks.h); any member may cut another's table, and all read
 * without a lock. An entry is split by storing its upper part and then shortening it: a task that
 * is killed in between leaves two entries that overlap, and loses nothing. Freestanding. */

/* The number of words that may be in use, for intervals_word. Acquire. */
uint32_t intervals_used(const struct space_slot *slot, enum space_interval_kind kind);
/* The word with an index below that number. */
_Atomic uint64_t *intervals_word(const struct space_slot *slot, enum space_interval_kind kind,
                                 uint32_t index);

/* Adds [start, end), whole pages: 0, or -1 if the table is too full for all of it. */
int intervals_add(struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                  uintptr_t end);
/* Removes [start, end). With `tentative` INTERVAL_TENTATIVE, the removed parts stay as tentative
 * entries until intervals_settle. Returns the number of entries that were lost because the table is
 * full.
 */
unsigned intervals_cut(struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                       uintptr_t end, uint64_t tentative);
/* Lowers the number of words that may be in use, if the last ones are unused; returns it. For
 * tables that no other member changes. */
uint32_t intervals_trim(struct space_slot *slot, enum space_interval_kind kind);
/* Removes the tentative entries for which `is_gone` is true, and makes the others certain again. */
void intervals_settle(struct space_slot *slot, enum space_interval_kind kind,
                      int (*is_gone)(uintptr_t start));

/* Finds the lowest entry that overlaps [start, end): 1 and the common part, or 0. */
int intervals_find(const struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                   uintptr_t end, uintptr_t *found_start, uintptr_t *found_end);
int intervals_overlap(const struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                      uintptr_t end);
int intervals_contain(const struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                      uintptr_t end);

/* `owner` has mapped [start, end): removes it from all other members' out-of-range intervals. */
void intervals_remove_from_others(struct space *space, const struct space_slot *owner,
                                  uintptr_t start, uintptr_t end);

/* Calls MADV_DOFORK for [start, end), except for parts that members other than `owner` have marked
 * MADV_DONTFORK. Returns 0, or -errno of the first part that fails. */
long intervals_unmark_dontfork(struct space *space, const struct space_slot *owner, uintptr_t start,
                               uintptr_t end);

/* Empties all tables of a slot without a task. */
void intervals_clear(struct space_slot *slot);

#endif
