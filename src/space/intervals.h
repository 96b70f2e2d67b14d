/* src/space/intervals.h: the tables of address intervals of the members (registry/intervals.h).
 *
 * Intervals that touch become one entry, and what lies inside an entry needs none. A member's
 * threads call these functions with its lock held (space/lock.h); any member may cut another's
 * table, and all read without a lock. An entry is split by first entering its upper part and then
 * shortening it: a task that is killed in between leaves two entries that overlap, and loses
 * nothing. Freestanding. */
#ifndef ONESPACE_SPACE_INTERVALS_H
#define ONESPACE_SPACE_INTERVALS_H

#include "registry/space.h"

/* How many words to look at, for intervals_word. Acquire. */
uint32_t intervals_used(const struct space_slot *slot, enum space_interval_kind kind);
/* The word, for an index below that. */
_Atomic uint64_t *intervals_word(const struct space_slot *slot, enum space_interval_kind kind,
                                 uint32_t index);

/* Enters [start, end), of whole pages: 0, or -1 if not all of it could be entered. */
int intervals_add(struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                  uintptr_t end);
/* Removes [start, end). With `doubt` INTERVAL_DOUBT what is removed stays as entries in doubt,
 * until intervals_settle. How many entries could not be kept, because the table is full. */
unsigned intervals_cut(struct space_slot *slot, enum space_interval_kind kind, uintptr_t start,
                       uintptr_t end, uint64_t doubt);
/* Ends all doubts: the entries of which `is_gone` says so go, the others count again. */
void intervals_settle(struct space_slot *slot, enum space_interval_kind kind,
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
void intervals_take(struct space *space, const struct space_slot *owner, uintptr_t start,
                    uintptr_t end);

/* Lets forked children have [start, end) again, but for what other members than `owner` have marked
 * (MADV_DONTFORK): 0, or -errno of the first part that fails. */
long intervals_unmark_dontfork(struct space *space, const struct space_slot *owner, uintptr_t start,
                               uintptr_t end);

/* Empties all tables of a slot that has no task. */
void intervals_clear(struct space_slot *slot);

#endif
