/* src/task/end.h: what the reaper does when tasks end or leave. Freestanding. */
#ifndef ONESPACE_TASK_END_H
#define ONESPACE_TASK_END_H

#include "registry/space.h"

struct task_end {
    struct space_slot *slot; /* its times are noted (space_note_times) */
    int status;              /* of wait(2) */
};
enum { TASK_ENDS = 32 }; /* of one call */

/* The tasks, TASK_ENDS at most, have ended: undoes what they had in the registry and hands their
 * status to the waiters. */
void task_ended(struct space *space, const struct task_end *ends, unsigned count);
/* The task has executed another program: its process lives, but is no longer a member. */
void task_left(struct space *space, struct space_slot *slot);

#endif
