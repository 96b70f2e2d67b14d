/* src/mpi/types/reduce.h: MPI's predefined operations on elements of predefined types. */
#ifndef ONESPACE_MPI_TYPES_REDUCE_H
#define ONESPACE_MPI_TYPES_REDUCE_H

#include "mpi/types/reduce_loops.h"
#include "mpi/types/types.h"

/* The loop of an operation; NULL: it is not defined for the type. MPI_REPLACE and MPI_NO_OP have
 * none. */
reduce_function *reduce_find(MPI_Op op, const struct basic *element);
/* Whether the library's collective operations compute one of MPI's own operations on the type. That
 * is more than the MPI standard defines, such as sums of MPI_CHAR, and less than one-sided
 * operations accept. Asks the library, once for each pair. */
int reduce_is_computed(MPI_Op op, const struct basic *element);
/* For messages. */
const char *reduce_name(MPI_Op op);
/* Whether the operation is one of MPI's own, these two included. */
int reduce_is_predefined(MPI_Op op);

#endif
