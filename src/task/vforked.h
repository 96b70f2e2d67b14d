/* src/task/vforked.h: children by vfork or posix_spawn that outlive the task that made them.
 *
 * Until it executes its program such a child runs in the task's memory, on its stack. It has no
 * slot. If the task is killed meanwhile, its memory is held until no process without a slot is left
 * in this address space; the hold is the task's own (space/holds.h). Reaper only; freestanding. */
#ifndef ONESPACE_TASK_VFORKED_H
#define ONESPACE_TASK_VFORKED_H

#include "registry/space.h"

/* The reaper of a fresh space begins: nothing is held. */
void vforked_begin(void);
/* Holds the memory of these tasks, which were killed, if such a child may be in it. Before
 * holds_wanted, after holds_drop. */
void vforked_hold(struct space *space, struct space_slot *const *killed, unsigned count);
/* Releases what nobody uses any more: ns after which to look again, or 0. */
uint64_t vforked_watch(struct space *space);

#endif
