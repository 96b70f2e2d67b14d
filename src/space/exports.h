/* src/space/exports.h: named exports, in one table of the space with open addressing. */
#ifndef ONESPACE_SPACE_EXPORTS_H
#define ONESPACE_SPACE_EXPORTS_H

#include "registry/space.h"

/* 0, -EEXIST, -ENOSPC. Called by the owner's threads only. */
long exports_add(struct space *space, struct space_slot *owner, const char *name, void *address,
                 uint64_t size);
/* 0 or -ENOENT. */
long exports_remove(struct space *space, struct space_slot *owner, const char *name);
/* 0 or -ENOENT. */
long exports_find(struct space *space, int32_t owner, const char *name, void **address,
                  uint64_t *size);
/* Reaper: removes everything that the member exported. Freestanding. */
void exports_drop(struct space *space, struct space_slot *owner);

#endif
