/* src/mpi/collectives/nodes.h: MPI_Allreduce on communicators whose ranks are in several spaces, on
 * several nodes. The MPI library runs all other operations of such a communicator. */
#ifndef ONESPACE_MPI_COLLECTIVES_NODES_H
#define ONESPACE_MPI_COLLECTIVES_NODES_H

#include "mpi/collectives/coll_call.h"

/* Collective. NULL: no two ranks share a space, or all do, or a space has no memory for an engine;
 * or, with *error set, MPI failed. */
struct nodes *nodes_new(MPI_Comm comm, const struct group *group, int *error);
/* Collective. NULL: nothing happens. */
void nodes_free(struct nodes *nodes);

#endif
