/* src/task/threads.h: tasks in thread mode: threads of their spawner's process.
 *
 * Nobody reaps a thread, so the reaper watches: a task's exit announces itself in `exited`, and is
 * complete when none of its threads is left. A thread is a task's when the head of its robust list,
 * which lies in its libc's memory, is in the task's range. */
#ifndef ONESPACE_TASK_THREADS_H
#define ONESPACE_TASK_THREADS_H

#include "registry/space.h"

/* By the reaper: looks after all such tasks. The time in ns until it wants to look again, 0: when
 * something happens. */
uint64_t threads_watch(struct space *space);
/* By the reaper: the process of `owner` is gone or runs another program, and they with it. */
void threads_gone_with(struct space *space, const struct space_slot *owner, int status);

#endif
