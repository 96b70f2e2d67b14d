/* src/xpmem/calls.h: XPMEM's calls among the members of a space.
 *
 * They run in the root's copy of the library, on the caller's thread: libxpmem.so.0 reaches them
 * through the registry, so that what lies there is known to one library only. Results as in
 * xpmem.h, with -errno for failures, in the order in which the kernel module looks for them.
 * Freestanding, lock-free, and without a system call but for the first of a process.
 *
 * A permit holds its segment's owner (space/holds.h): an attachment may be used until its permit is
 * released, whatever becomes of the owner. */
#ifndef ONESPACE_XPMEM_CALLS_H
#define ONESPACE_XPMEM_CALLS_H

#include "task/hooks.h"

/* What the root puts in the registry, and what a member's end undoes. */
extern const struct layer_hooks xpmem_hooks;

int64_t call_make(struct space_slot *self, uintptr_t address, size_t size, int permit_type,
                  uintptr_t permit_value);
long call_remove(struct space_slot *self, int64_t segid);
int64_t call_get(struct space_slot *self, int64_t segid, int flags, int permit_type);
long call_release(struct space_slot *self, int64_t apid);
long call_attach(struct space_slot *self, int64_t apid, int64_t offset, size_t size, uintptr_t at);

#endif
