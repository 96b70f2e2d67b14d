/* src/mpi/types/reduce.h: MPI's predefined operations on elements of predefined types. */
#ifndef ONESPACE_MPI_TYPES_REDUCE_H
#define ONESPACE_MPI_TYPES_REDUCE_H

#include "mpi/types/reduce_loops.h"
#include "mpi/types/types.h"

/* The loop of an operation; NULL: it is not defined for the type. MPI_REPLACE and MPI_NO_OP have
 * none. */
reduce_function *reduce_find(MPI_Op op, const struct basic *element);

#endif
