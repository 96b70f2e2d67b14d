/* src/interpose/patch/patch_sites.h: which patch sites a file has. */
#ifndef ONESPACE_INTERPOSE_PATCH_SITES_H
#define ONESPACE_INTERPOSE_PATCH_SITES_H

#include <stddef.h>

#include "space/registry.h"

struct patch_sites {
    uint16_t count, left_out; /* kept; those that found the list full */
    struct space_patch_site items[SPACE_FILE_PATCH_SITES];
};

/* Finds the patch sites of all interposed calls, and in ld.so of cpuid, in [code, code+size): the
 * mapping of `fd` (-1: unknown) at `offset`. A file is searched once per space. Whether it was
 * now, and so all of the code read. */
int patch_sites_find(uintptr_t code, size_t size, int fd, long offset, int is_loader,
                     struct patch_sites *list);

#endif
