/* src/steer/loader.h: what the dynamic linker asks for while it loads libraries. */
#ifndef ONESPACE_STEER_LOADER_H
#define ONESPACE_STEER_LOADER_H

#include "space/registry.h"

/* In place of mmap, munmap, mprotect and openat at sites in ld.so. */
long loader_mmap(struct space_slot *self, const long arguments[6]);
long loader_munmap(struct space_slot *self, uintptr_t address, size_t size);
long loader_mprotect(struct space_slot *self, const long arguments[6]);
long loader_openat(const long arguments[6]);

#endif
