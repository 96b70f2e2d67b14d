/* src/task/spawn/child.h: making the kernel task of a child, and its first steps. Freestanding. */
#ifndef ONESPACE_TASK_CHILD_H
#define ONESPACE_TASK_CHILD_H

#include "registry/child.h"

/* Runs as the new kernel task, on its own stack, with all signals blocked. Never returns. */
void child_main(void *argument);
/* Reports success to the spawner. */
void child_announce(struct space_slot *slot);
/* Makes the kernel task of a prepared child: called by a task for its own child (to the kernel, a
 * sibling of the task) or by the reaper for the root's. The pid or -errno. */
long child_clone(struct child *child, int as_sibling);

#endif
