/* src/host/job/time_slices.h: short time slices while tasks outnumber CPUs.
 *
 * MPI libraries wait in loops. A rank that waits for one that has no CPU keeps its own until the
 * kernel's next tick preempts it, 4 ms later at 250 Hz, and so does every other rank in the queue:
 * starting 16 ranks of MPICH on two CPUs mostly consists of that. So one thread per CPU wakes every
 * millisecond while more threads are runnable than there are CPUs, unless tasks yield by
 * themselves. Each wake-up makes the scheduler choose again, and it does not choose the thread that
 * has just run. No privilege is needed. Tasks learn of the oversubscription (agent/poll.c).
 *
 * Belongs to the program that is the root of the space: the host, or `onespace run` by hand. Called
 * by one thread; the process's own affinity counts for tasks that bring none. */
#ifndef ONESPACE_HOST_TIME_SLICES_H
#define ONESPACE_HOST_TIME_SLICES_H

#include <stddef.h>

/* A task was started that may run on these CPUs (as sched_setaffinity has it; size 0: on the
 * caller's). */
void time_slices_add(const void *cpus, size_t size);
/* A task has ended. */
void time_slices_remove(void);

#endif
