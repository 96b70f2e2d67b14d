/* src/task/end.h: what the reaper does when tasks end or leave. Freestanding. */
#ifndef ONESPACE_TASK_END_H
#define ONESPACE_TASK_END_H

#include <sys/resource.h>

#include "registry/space.h"

struct task_end {
    struct space_slot *slot; /* its times are noted (space_note_times) */
    int status;              /* of wait(2) */
};
enum { TASK_ENDS = 32 }; /* at once */

/* The tasks are gone: status to their waiters, all that they had in the registry undone. At most
 * TASK_ENDS. */
void task_ended(struct space *space, const struct task_end *ends, unsigned count);
/* The task executes another program: it is no member any more, but its process lives. */
void task_left(struct space *space, struct space_slot *slot);

#endif
