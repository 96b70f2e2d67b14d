/* src/host/time_slices.h: short turns where tasks outnumber processors.
 *
 * MPI libraries wait in loops. A rank that waits for one that has no processor keeps its own until
 * the kernel's next tick takes it away, 4 ms later at 250 Hz, and so does every other rank that is
 * in line: starting 16 ranks of MPICH on two processors mostly consists of that. Here a thread for
 * each processor wakes every millisecond while more wants to run than there are processors, unless
 * tasks give way by themselves. Waking makes the scheduler choose anew, and what has just run is
 * not chosen. No privilege is needed. Tasks are told of the crowd (agent/poll.c).
 *
 * Belongs to the program that is the root of the space: the host, or `onespace run` by hand. Called
 * by one thread; the process's own affinity counts for tasks that bring none. */
#ifndef ONESPACE_HOST_TIME_SLICES_H
#define ONESPACE_HOST_TIME_SLICES_H

#include <stddef.h>

/* A task was started that may run on these processors (as sched_setaffinity has it; size 0: on the
 * caller's). */
void turns_add(const void *cpus, size_t size);
/* A task has ended. */
void turns_remove(void);

#endif
