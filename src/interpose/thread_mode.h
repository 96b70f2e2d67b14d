/* src/interpose/thread_mode.h: the end of a task that is a thread of its spawner's process.
 *
 * Its exit must not end the process, and must end the task's remaining threads: a signal ends them.
 * The reaper detects when none is left (reaper/reaper.h). */
#ifndef ONESPACE_INTERPOSE_THREAD_MODE_H
#define ONESPACE_INTERPOSE_THREAD_MODE_H

#include "space/registry.h"

/* The signal that ends a task's remaining threads. glibc reserves it for setuid in programs with
 * threads and lets no program block or handle it; glibc's own uses are passed on to its handler. */
enum { THREAD_MODE_SIGNAL = 33 };

/* Called by the child, in the process that the task's thread joins: installs the handler that ends
 * remaining threads. */
void thread_mode_install_handler(void);
/* What _exit does in such a task: ends the task, not the process. In a forked child of the task,
 * ends the child. */
_Noreturn void thread_mode_exit(struct space_slot *self, int status);
/* If this rt_sigaction of a task's libc sets a handler for THREAD_MODE_SIGNAL, records it, sets
 * *result and returns 1; else 0. */
int thread_mode_set_handler(struct space_slot *self, const long arguments[6], long *result);

#endif
