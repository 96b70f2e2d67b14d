/* src/mpi/collectives/nodes.h: operations on communicators whose ranks are in several spaces, on
 * several nodes: what happens within a space is the layer's, and between them the MPI library's.
 *
 * The ranks of a space are a communicator of their own, and so are the first of each: the leaders.
 */
#ifndef ONESPACE_MPI_COLLECTIVES_NODES_H
#define ONESPACE_MPI_COLLECTIVES_NODES_H

#include "mpi/collectives/operations.h"
#include "mpi/group/group.h"
#include "mpi/pmpi/pmpi.h"

struct nodes;

/* Collective. NULL: no two ranks share a space, or all do, or a space has no memory for an engine;
 * or, with *error set, MPI failed. */
struct nodes *nodes_new(MPI_Comm comm, const struct group *group, int *error);
/* Collective. `nodes` may be NULL. */
void nodes_free(struct nodes *nodes);

/* As those in operations.h: 1 when the operation is done. 0: it is the MPI library's, as it is best
 * for much data, which all ranks' links can carry at once. root: a rank, or ENGINE_EVERYBODY. */
int nodes_barrier(const struct nodes *nodes, int *result);
int nodes_broadcast(const struct nodes *nodes, const struct one *data, int root, int *result);
int nodes_gather(const struct nodes *nodes, const struct one *from, const struct many *to, int root,
                 int *result);
int nodes_scatter(const struct nodes *nodes, const struct many *from, const struct one *to,
                  int root, int *result);
int nodes_alltoall(const struct nodes *nodes, const struct many *from, const struct many *to,
                   int *result);
int nodes_reduce(const struct nodes *nodes, const struct reduction *call, int root, int *result);
int nodes_scan(const struct nodes *nodes, const struct reduction *call, int is_exclusive,
               int *result);

#endif
