/* src/xpmem/permission.h: who may get a segment.
 *
 * Members can access all of each other's memory anyway, so this protects nothing: it gives the
 * results that programs expect of file mode bits. As with the kernel module, the owner's identity
 * is that at its first call. Freestanding. */
#ifndef ONESPACE_XPMEM_PERMISSION_H
#define ONESPACE_XPMEM_PERMISSION_H

#include "space/registry.h"

/* At the caller's first call: records its identity, and the slot of its process for look-ups. */
void permission_introduce(struct space *space, struct space_slot *self);
/* Whether `self` may get a segment of `owner` with these mode bits, for reading or (flags
 * XPMEM_RDWR) for writing too. */
int permission_granted(struct space_slot *self, const struct space_slot *owner, uint32_t mode,
                       int flags);

#endif
