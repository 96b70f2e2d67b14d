/* src/task/end.h: what the keeper does when a task ends or leaves. Freestanding. */
#ifndef ONESPACE_TASK_END_H
#define ONESPACE_TASK_END_H

#include <sys/resource.h>

#include "space/registry.h"

/* The task is gone: status to its waiters, all that it had in the registry undone. usage NULL: its
 * times are in the slot already. */
void task_ended(struct space *space, struct space_slot *slot, int status,
                const struct rusage *usage);
/* The task executes another program: it is no member any more, but its process lives. */
void task_left(struct space *space, struct space_slot *slot);

#endif
