/* src/mpi/wrap/narrow.h: large counts for an MPI library whose functions take int. */
#ifndef ONESPACE_MPI_WRAP_NARROW_H
#define ONESPACE_MPI_WRAP_NARROW_H

#include "mpi/real/real.h"

/* The values of all ranks of the communicator, MPI_Count or MPI_Aint, as int. NULL: `values` is
 * NULL, which means nothing here, or *error is set, unless it was: too large, or no memory. To be
 * freed. */
int *narrow_all(const void *values, MPI_Comm comm, int *error);
/* One value; 0 with *error as above. */
int narrow_one(MPI_Count value, int *error);
/* Whether the arguments that count at the root only count here. */
int narrow_is_root(int root, MPI_Comm comm);

#endif
