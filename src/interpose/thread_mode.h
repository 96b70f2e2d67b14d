/* src/interpose/thread_mode.h: the end of a task that is a thread of its spawner's process.
 *
 * Its exit must not be the process's, and the threads that it leaves behind must go: a signal ends
 * them. The reaper watches for the rest (task/threads.h). */
#ifndef ONESPACE_INTERPOSE_THREAD_MODE_H
#define ONESPACE_INTERPOSE_THREAD_MODE_H

#include "registry/space.h"

/* The signal that ends a task's left threads. glibc keeps it for setuid in programs with threads
 * and lets no program block it or handle it otherwise; such uses are passed on. */
enum { THREAD_MODE_SIGNAL = 33 };

/* In the process that the task's thread joins, by the child: what ends left threads. */
void thread_mode_prepare(void);
/* What _exit does in such a task: ends the task, not the process. In a child that the task has
 * made, ends the child. */
_Noreturn void thread_mode_exit(struct space_slot *self, int status);
/* A task's libc sets a handler for the signal that ends threads: keeps it for later. Whether that
 * was such a call. */
int thread_mode_took_handler(struct space_slot *self, const long arguments[6], long *result);

#endif
