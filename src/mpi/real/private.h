/* src/mpi/real/private.h: a communicator of this process alone, on which the library is asked what
 * it accepts. */
#ifndef ONESPACE_MPI_REAL_PRIVATE_H
#define ONESPACE_MPI_REAL_PRIVATE_H

#include "mpi/real/real.h"

/* Made at the first call; errors are returned. MPI_COMM_NULL: there is none, because MPI is about
 * to end or is out of resources. For one call that involves no other rank; any thread. */
MPI_Comm private_communicator(void);
/* MPI_Finalize: frees it, and from then on there is none. */
void private_communicator_end(void);

#endif
