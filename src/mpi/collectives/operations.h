/* src/mpi/collectives/operations.h: MPI's collective operations, on communicators of one space.
 *
 * Each function returns 1 when the operation is done, with *result; or 0 when the MPI library has
 * to do it. Which of these depends only on what is equal on all ranks: the communicator, the amount
 * of data, the operation. A rank whose own arguments are wrong returns 1 with the class of the
 * error, and the ranks that need anything of it get MPI_ERR_OTHER. */
#ifndef ONESPACE_MPI_COLLECTIVES_OPERATIONS_H
#define ONESPACE_MPI_COLLECTIVES_OPERATIONS_H

#include <limits.h>

#include "mpi/collectives/shape.h"

/* What a rank gives (MPI_IN_PLACE: it is where it gets) or gets. */
struct one {
    void *buffer;
    MPI_Count count;
    MPI_Datatype type;
};
/* What a rank gives to, or gets from, each. `types`: of Alltoallw, in place of `type`. */
struct many {
    void *buffer;
    struct places places;
    MPI_Datatype type;
    const MPI_Datatype *types;
};

int collective_barrier(MPI_Comm comm, int *result);
int collective_broadcast(MPI_Comm comm, const struct one *data, int root, int *result);
/* A root that the program gives. A negative one is none, and must not be taken for
 * ENGINE_EVERYBODY. */
static inline int collective_root(int root)
{
    return root < 0 ? INT_MAX : root;
}
/* root: a rank, or ENGINE_EVERYBODY. */
int collective_gather(MPI_Comm comm, const struct one *from, const struct many *to, int root,
                      int *result);
int collective_scatter(MPI_Comm comm, const struct many *from, const struct one *to, int root,
                       int *result);
int collective_alltoall(MPI_Comm comm, const struct many *from, const struct many *to, int *result);

struct reduction {
    const void *send;
    void *receive;
    MPI_Count count;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm comm;
};
int collective_reduce(const struct reduction *call, int root, int *result);
/* Rank i gets counts[i] items, or (counts NULL) as many as any. `count` of the call is not used. */
int collective_reduce_scatter(const struct reduction *call, const struct places *places,
                              int *result);
int collective_scan(const struct reduction *call, int is_exclusive, int *result);

#endif
