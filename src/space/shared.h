/* src/space/shared.h: who uses which shared mapping, and unmapping it when nobody does.
 *
 * An entry's state decides together with its users' bits (all sequentially consistent):
 *
 *   joining: own bit = 1                 unmapping: LIVE -> GOING
 *            LIVE and the same key?                 any bit set? back to LIVE, and look again
 *            else bit = 0, and unmap if unused      else forget the hash, unmap, FREE
 *
 * so at least one of the two sees the other, and the last to clear a bit unmaps. A task that died
 * in between leaves its slot in the state or in a bit, and the reaper goes on from there.
 *
 * All functions but the reaper's are called with the member's lock held (space/lock.h): a task's
 * bit has one writer at a time. Freestanding. */
#ifndef ONESPACE_SPACE_SHARED_H
#define ONESPACE_SPACE_SHARED_H

#include <stddef.h>

#include "registry/space.h"

/* A program that maps the same memory again gets another address, which the next task's second
 * mapping shares in turn; what it maps more often is its own affair. */
enum { SHARED_ALIKE = 2 };

/* The address of a mapping with this key that the task does not use yet, and from now on uses; 0:
 * there is none. */
uintptr_t shared_join(struct space *space, struct space_slot *self,
                      const struct space_shared_key *key);

/* An entry for a mapping of that key: its index, or -1 if none is free or the task has SHARED_ALIKE
 * of that key already. *start is where it is to be mapped. Then shared_publish() or
 * shared_abandon(). */
int shared_begin(struct space *space, struct space_slot *self, const struct space_shared_key *key,
                 uintptr_t *start);
void shared_abandon(struct space *space, int index);
/* It is mapped: others may join. The address: another's if one with that key was published
 * meanwhile. */
uintptr_t shared_publish(struct space *space, struct space_slot *self, int index);

/* The entry in whose window an address lies, which shared_holds(). */
int shared_index_of(uintptr_t address);
/* Its window, at whose start its mapping begins. */
uintptr_t shared_start_of(int index);
uintptr_t shared_end_of(int index);
/* The entries with windows of one size: *first and those that follow. Their number. */
int shared_entries(int size, int *first);
int shared_is_user(const struct space *space, const struct space_slot *slot, int index);
/* By how much the users of mappings with this key are more than the mappings. */
unsigned shared_more_users(const struct space *space, const struct space_shared_key *key);

/* The task, a user, alone uses the entry from now on: 0 if it does not. */
int shared_own(struct space *space, struct space_slot *self, int index);
/* Whether some task has done that. */
int shared_is_own(const struct space *space, int index);
/* The task uses it no more. */
void shared_release(struct space *space, struct space_slot *self, int index);
/* Reaper: the task has ended. */
void shared_drop(struct space *space, struct space_slot *slot);

#endif
