/* src/space/group.h: the tasks of a space that were started together, and how they wait for one
 * another.
 *
 * `space->group` names the current group: its id in the upper half, below it its number of tasks
 * and a count of joins. A slot belongs to a group from group_join until group_leave, and
 * `slot->group` is that group's id, 0 otherwise. The next group begins when no slot belongs to the
 * current one.
 *
 * Members wait for one another on words of 64 bits (`space->barrier`, `space->group_loaded`), so
 * that a task may be killed at any instruction and still leave them consistent:
 *
 *   bits 63..48  group        the lower bits of the id of the group that used the word last
 *   bits 47..32  generation   advanced when all have arrived *and* when a member leaves
 *   bit  31      broken       a member has left: all waits of this group fail
 *   bits 30..0   arrived      members that have arrived in this generation
 *
 * Waiters sleep on the upper half. Both events that end a wait change that half in the same
 * compare-and-swap that makes them visible, so a waiter that looked too early does not sleep: the
 * word has changed. A word of an earlier group counts as a new generation with no arrivals.
 *
 * Writers: each member (arrivals, withdrawals), the reaper and a spawner that fails (group_leave).
 * All orderings are sequentially consistent: a wait that succeeds publishes all that its members
 * wrote before they arrived. Freestanding. */
#ifndef ONESPACE_SPACE_GROUP_H
#define ONESPACE_SPACE_GROUP_H

#include "registry/space.h"

/* The spawner, before clone: adds the slot to the current group, or to the next one, which begins
 * if the current one has no member left and had this number already or has another size. */
void group_join(struct space *space, struct space_slot *slot);
/* The reaper, when a member has ended or left, or the spawner that could not make it: breaks the
 * group's barriers, wakes those that wait there, and takes the slot out of its group. */
void group_leave(struct space *space, struct space_slot *slot);
/* The number of tasks of the current group, 0 before the first one. */
uint32_t group_ntasks(const struct space *space);
/* Whether a member with that number was started in the current group. */
int group_has_had(const struct space *space, uint32_t number);

/* Arrives at `word` as a member of its group: 1 if all have arrived now, 0 if the caller must wait,
 * -EOWNERDEAD. *generation is for the functions below. */
int group_arrive(_Atomic uint64_t *word, const struct space_slot *self, uint32_t *generation);
/* Waits until all have arrived: 0, -EOWNERDEAD, -ETIMEDOUT: then the caller still counts as
 * arrived. */
int group_await(_Atomic uint64_t *word, uint32_t generation, uint64_t deadline);
/* Takes the arrival back: -ETIMEDOUT; or what group_await had returned a moment later. */
int group_withdraw(_Atomic uint64_t *word, uint32_t generation);

/* A member whose libraries are loaded waits for the others (ONESPACE_SPAWN_TOGETHER). */
void group_await_loaded(struct space *space, const struct space_slot *self);

#endif
