/* src/host/job/oversubscribed.h: tells tasks whether they outnumber the CPUs that they may use.
 *
 * Belongs to the program that is the root of the space: the host, or `onespace run` by hand. Called
 * by one thread; the process's own affinity counts for tasks that bring none. Who reads it:
 * agent/mpi.c. */
#ifndef ONESPACE_HOST_OVERSUBSCRIBED_H
#define ONESPACE_HOST_OVERSUBSCRIBED_H

#include <stddef.h>

/* A task was started that may run on these CPUs (as sched_setaffinity has it; size 0: on the
 * caller's). */
void oversubscribed_add(const void *cpus, size_t size);
/* A task has ended. */
void oversubscribed_remove(void);

#endif
