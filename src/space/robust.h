/* src/space/robust.h: a robust futex that tells of a main thread's end and of execve. */
#ifndef ONESPACE_SPACE_ROBUST_H
#define ONESPACE_SPACE_ROBUST_H

#include "registry/space.h"

/* Links the slot's node into the calling thread's robust list. Freestanding; by the task itself. */
void robust_attach(struct space_slot *slot);
/* Unlinks it again: the slot is about to be unmapped. */
void robust_detach(struct space_slot *slot);
/* Whether the member's address space is surely still this one: it has neither ended nor executed
 * another program, and is not about to. Freestanding; for any slot, by any member. */
int robust_is_here(const struct space_slot *slot);

#endif
