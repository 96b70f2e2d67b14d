/* src/space/robust.h: a robust futex that tells of a main thread's end and of execve. */
#ifndef ONESPACE_SPACE_ROBUST_H
#define ONESPACE_SPACE_ROBUST_H

#include "space/registry.h"

/* Links the slot's node into the calling thread's robust list. Freestanding; by the task itself. */
void robust_attach(struct space_slot *slot);
/* Unlinks it again: the slot is about to be unmapped. */
void robust_detach(struct space_slot *slot);

#endif
