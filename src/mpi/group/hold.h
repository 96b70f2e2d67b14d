/* src/mpi/group/hold.h: keep the memory of other tasks while this process uses windows in it.
 *
 * A rank that ends without freeing its windows must not take their memory along: the other ranks
 * would fault. A hold lasts until it is given back or this process ends. */
#ifndef ONESPACE_MPI_GROUP_HOLD_H
#define ONESPACE_MPI_GROUP_HOLD_H

/* Lets others take holds on this task. Before any of them tries. 0 or -errno. */
int hold_offer(void);
/* Takes a hold on task `id`; nothing to do for oneself. 0 or -errno. Nested calls are counted. */
int hold_take(int id);
void hold_give(int id);

#endif
