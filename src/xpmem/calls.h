/* src/xpmem/calls.h: XPMEM's calls among the members of a space.
 *
 * They run in the root's copy of the library, on the caller's thread: libxpmem.so.0 calls them
 * through the registry, so that only one library knows the layout of the tables. Results as in
 * xpmem.h, with -errno for failures, tested in the order of the kernel module. Freestanding and
 * lock-free; only a process's first call makes system calls.
 *
 * A permit holds its segment's owner (space/member.h): an attachment may be used until its permit
 * is released, whatever becomes of the owner. */
#ifndef ONESPACE_XPMEM_CALLS_H
#define ONESPACE_XPMEM_CALLS_H

#include "space/member.h"

/* Put the operations into the registry, and empty a member's tables when it ends. */
extern const struct member_hooks xpmem_hooks;

int64_t call_make(struct space_slot *self, uintptr_t address, size_t size, int permit_type,
                  uintptr_t permit_value);
long call_remove(struct space_slot *self, int64_t segid);
int64_t call_get(struct space_slot *self, int64_t segid, int flags, int permit_type);
long call_release(struct space_slot *self, int64_t apid);
long call_attach(struct space_slot *self, int64_t apid, int64_t offset, size_t size, uintptr_t at);

#endif
