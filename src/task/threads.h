/* src/task/threads.h: tasks in thread mode: threads of their spawner's process.
 *
 * Nobody reaps a thread, so the keeper watches: a task's exit announces itself in `exited`, and is
 * complete when none of its threads is left. A thread is a task's when the head of its robust list,
 * which lies in its libc's memory, is in the task's range. */
#ifndef ONESPACE_TASK_THREADS_H
#define ONESPACE_TASK_THREADS_H

#include "space/registry.h"

/* In the process that the task's thread joins, by the newborn: what ends left threads. */
void threads_prepare(void);
/* What _exit does in such a task: ends the task, not the process. In a child that the task has
 * made, ends the child. */
_Noreturn void threads_exit(struct space_slot *self, int status);
/* A task's libc sets a handler for the signal that ends threads: keeps it for later. Whether that
 * was such a call. */
int threads_took_handler(struct space_slot *self, const long arguments[6], long *result);

/* By the keeper: looks after all such tasks. The time in ns until it wants to look again, 0: when
 * something happens. */
uint64_t threads_watch(struct space *space);
/* By the keeper: the process of `owner` is gone or runs another program, and they with it. */
void threads_gone_with(struct space *space, const struct space_slot *owner, int status);

#endif
