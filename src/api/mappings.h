/* src/api/mappings.h: what a space maps when it begins. */
#ifndef ONESPACE_RUNTIME_MAPPINGS_H
#define ONESPACE_RUNTIME_MAPPINGS_H

#include "space/registry.h"

/* Maps the registry, the mark and the page of trampolines, and fences the program break. 0, or
 * -errno with nothing mapped; -ENOMEM also if the region is not free. Called by the root. */
long space_map(struct space *space);
/* Unmaps all that, and the memory of ended tasks. */
void space_unmap(struct space *space);

#endif
