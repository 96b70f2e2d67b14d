/* src/space/robust.h: a robust futex by which the kernel reports a main thread's end and execve. */
#ifndef ONESPACE_SPACE_ROBUST_H
#define ONESPACE_SPACE_ROBUST_H

#include "registry/space.h"

/* Links the slot's node into the calling thread's robust list. Freestanding; by the task itself. */
void robust_attach(struct space_slot *slot);
/* Unlinks it: the slot is about to be unmapped. */
void robust_detach(struct space_slot *slot);
/* Whether the member is certain to be in this address space: it has neither ended nor executed
 * another program, and is not in execve. Freestanding; for any slot, by any member. */
int robust_is_here(const struct space_slot *slot);

#endif
