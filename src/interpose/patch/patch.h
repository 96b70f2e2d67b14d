/* src/interpose/patch/patch.h: finding the interposed calls of a file and turning them into jumps.
 */
#ifndef ONESPACE_INTERPOSE_PATCH_H
#define ONESPACE_INTERPOSE_PATCH_H

#include <stddef.h>

#include "arch/trampoline.h"
#include "space/registry.h"

/* The kind of code that is patched. It decides which calls are patched there (calls.h). */
enum interpose_code { CODE_LDSO, CODE_LIBC, CODE_PROGRAM };

/* ---- patch.c ---- */

/* Turns the patch sites in [code, code+size), the mapping of file `fd` at `offset`, into jumps. The
 * mapping is readable and executable, and no other thread runs in it yet. */
void interpose_patch_mapping(struct space_slot *self, uintptr_t code, size_t size, int fd,
                             long offset, enum interpose_code kind);
/* The same for code that is still writable. */
void interpose_patch_writable(struct space_slot *self, uintptr_t code, size_t size, int fd,
                              long offset, enum interpose_code kind);
/* The same for a file that ld.so has just mapped, if it is a libc, the program or UCX's libucm. */
void interpose_patch_loaded(struct space_slot *self, uintptr_t code, size_t size, int fd,
                            long offset);
/* The same for a file that has just been mapped from its beginning, if its first segment is code:
 * without -z separate-code, and by linkers other than GNU ld, headers and code are one segment. */
void interpose_patch_beginning(struct space_slot *self, uintptr_t image, size_t size, int fd);

/* ---- patch_sites.c ---- */

struct patch_sites {
    uint16_t count, left_out; /* sites in `items`; sites that did not fit */
    struct space_patch_site items[SPACE_FILE_PATCH_SITES];
};

/* Finds the patch sites of all interposed calls, and in ld.so of cpuid, in [code, code+size): the
 * mapping of `fd` (-1: unknown) at `offset`. A file is searched once per space. Returns whether it
 * was searched now, which has read all of the code. */
int patch_sites_find(uintptr_t code, size_t size, int fd, long offset, int is_loader,
                     struct patch_sites *list);

/* ---- cpuid.c ---- */

struct arch_cpuid;

/* arch_handlers.cpuid. */
void interpose_cpuid(const struct arch_cpuid *cpuid, uint64_t registers[16]);

/* Adds the cpuid instructions in code[0, size) to the list. */
void cpuid_search(const unsigned char *code, size_t size, struct patch_sites *list);
/* Turns the one at the writable `address` into a jump, if the task has a trampoline left. */
void cpuid_patch(struct space_slot *self, uintptr_t address);
/* For a task whose dynamic linker was patched at an address `moved` bytes below its own. */
void cpuid_relocate(struct arch_trampoline_data *data, unsigned count, uintptr_t moved);

#endif
