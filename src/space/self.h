/* src/space/self.h: which space the calling program is in, and which member it is. */
#ifndef ONESPACE_SPACE_SELF_H
#define ONESPACE_SPACE_SELF_H

#include "registry/space.h"

/* Makes the caller the root of `space` (NULL: of none any more). */
void space_set_root(struct space *space);

/* The caller's space and slot: NULL outside a space and in a forked child. */
struct space *space_mine(void);
struct space_slot *space_self(void);
/* Whether the caller's process image descends from a member by fork. */
int space_was_member(void);

#endif
