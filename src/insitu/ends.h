/* src/insitu/ends.h: what the keeper does for members that ended. */
#ifndef ONESPACE_INSITU_ENDS_H
#define ONESPACE_INSITU_ENDS_H

#include "space/registry.h"

/* Keeper: the member is gone. What it held goes back, and its channels end. Freestanding. */
void insitu_drop(struct space *space, struct space_slot *slot);

#endif
