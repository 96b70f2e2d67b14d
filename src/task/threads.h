/* src/task/threads.h: tasks in thread mode: threads of their spawner's process.
 *
 * The kernel does not report the end of another process's thread, so the reaper polls: a task's
 * exit sets `exited`, and is complete when none of its threads is left. A thread belongs to the
 * task in whose range the head of its robust list lies, since that is in its libc's memory. */
#ifndef ONESPACE_TASK_THREADS_H
#define ONESPACE_TASK_THREADS_H

#include "registry/space.h"

/* Called by the reaper: ends such tasks that have no thread left. The time in ns until the next
 * call is due; 0: at the next event. */
uint64_t threads_watch(struct space *space);
/* Called by the reaper: the process of `owner` has ended or executed another program, and with it
 * all tasks that are its threads have ended. */
void threads_gone_with(struct space *space, const struct space_slot *owner, int status);

#endif
