/* src/spawn/attach.h: a task becomes a member for all to see. */
#ifndef ONESPACE_RUNTIME_ATTACH_H
#define ONESPACE_RUNTIME_ATTACH_H

#include "space/registry.h"

/* Called by the agent of each task, on the task's main thread, when its libraries are loaded.
 * `link_map` is the first of its dynamic linker's, 0: none. */
void task_loaded(struct space_slot *self, uintptr_t link_map);

#endif
