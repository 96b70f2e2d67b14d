/* src/mpi/collectives/fold.h: reductions of much data by functions of the program, or of types with
 * gaps. Operands are combined in the order of the ranks.
 *
 * All ranks of a space must come here in the same call, which each decides by what MPI has them
 * give alike: the number of items, the bytes of data in one, and the operation. Where these lie in
 * an item may differ. */
#ifndef ONESPACE_MPI_COLLECTIVES_FOLD_H
#define ONESPACE_MPI_COLLECTIVES_FOLD_H

#include "mpi/collectives/communicator.h"
#include "mpi/collectives/operations.h"

struct fold {
    struct communicator *communicator;
    const struct reduction *call;
    struct shape shape;    /* of its type */
    reduce_function *loop; /* of a predefined operation; NULL: call->op is a function */
};

/* MPI_SUCCESS or an error class. root: a rank, or ENGINE_EVERYBODY. */
int fold_reduce(const struct fold *fold, int root);
int fold_scan(const struct fold *fold, int is_exclusive);
/* Of `count` items of each rank the caller gets `items`, from `first` on. */
int fold_reduce_scatter(const struct fold *fold, size_t count, size_t first, size_t items);

#endif
