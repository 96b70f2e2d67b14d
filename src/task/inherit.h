/* src/task/inherit.h: what a task inherits from its spawner although another process clones it. */
#ifndef ONESPACE_TASK_INHERIT_H
#define ONESPACE_TASK_INHERIT_H

#include "onespace.h"
#include "task/birth.h"

/* Fills limits, nice value, CPU affinity and memory policy of a birth record from the attributes;
 * what these leave open from the calling thread if `from_root`, else it comes by itself. */
void inherit_fill(struct birth *birth, const struct onespace_spawn_attr *attr, int from_root);

#endif
