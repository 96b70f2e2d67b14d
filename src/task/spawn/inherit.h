/* src/task/spawn/inherit.h: what a task inherits from its spawner although another process clones
 * it. */
#ifndef ONESPACE_TASK_INHERIT_H
#define ONESPACE_TASK_INHERIT_H

#include <signal.h>

#include "onespace.h"
#include "registry/child.h"

/* Fills limits, nice value, CPU affinity, memory policy and ignored signals of a child record from
 * the attributes. What these leave unset comes from the calling thread: through the record if that
 * is the root's, through clone if it is a task's. */
void inherit_fill(struct child *child, const struct onespace_spawn_attr *attr,
                  const struct space_slot *spawner);

/* The signals that the calling process ignores: bit n-1 for signal n, as the kernel has it. */
uint64_t inherit_ignored_signals(void);
uint64_t inherit_signals_of(const sigset_t *set);

#endif
