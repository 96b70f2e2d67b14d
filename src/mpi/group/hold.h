/* src/mpi/group/hold.h: keeps the memory of other tasks while this process uses windows in it.
 *
 * The memory of a rank that ends without freeing its windows must stay mapped: the other ranks
 * would fault. A hold lasts until it is released or this process ends. */
#ifndef ONESPACE_MPI_GROUP_HOLD_H
#define ONESPACE_MPI_GROUP_HOLD_H

/* Lets others hold this task; to be called before any of them tries. 0 or -errno. */
int hold_offer(void);
/* Holds task `id`; calls nest. Nothing to do for the task itself. 0 or -errno. */
int hold_acquire(int id);
void hold_release(int id);

#endif
