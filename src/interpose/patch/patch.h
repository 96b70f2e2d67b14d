/* src/interpose/patch/patch.h: turning the interposed calls of a file into jumps. */
#ifndef ONESPACE_INTERPOSE_PATCH_H
#define ONESPACE_INTERPOSE_PATCH_H

#include <stddef.h>

#include "space/registry.h"

/* What kind of code is patched, which decides what is looked for there (calls.h). */
enum interpose_code { CODE_LDSO, CODE_LIBC, CODE_PROGRAM };

/* Turns the patch sites in [code, code+size), the mapping of file `fd` at `offset`, into jumps. The
 * mapping is readable and executable, and no other thread runs in it yet. */
void interpose_patch_mapping(struct space_slot *self, uintptr_t code, size_t size, int fd,
                             long offset, enum interpose_code kind);
/* The same for code that is still writable. */
void interpose_patch_writable(struct space_slot *self, uintptr_t code, size_t size, int fd,
                              long offset, enum interpose_code kind);
/* The same for what ld.so has just mapped, if it is a libc, the program or UCX's libucm. */
void interpose_patch_loaded(struct space_slot *self, uintptr_t code, size_t size, int fd,
                            long offset);
/* The same for a file that has just been mapped from its beginning, if its first segment is code:
 * without -z separate-code, and by other linkers than GNU ld, headers and code are one segment. */
void interpose_patch_beginning(struct space_slot *self, uintptr_t image, size_t size, int fd);

#endif
