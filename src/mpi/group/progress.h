/* src/mpi/group/progress.h: let MPI work while the layer waits.
 *
 * MPI promises that a send to a rank goes on while that rank is in any call that waits. The call
 * that does so in every library is MPI_Test on a request that is not complete (MPI_Iprobe does not
 * if there is a message to find), so one such request lives as long as anybody may wait. */
#ifndef ONESPACE_MPI_GROUP_PROGRESS_H
#define ONESPACE_MPI_GROUP_PROGRESS_H

#include "mpi/real/real.h"

/* Before the first wait and after the last; counted. MPI_SUCCESS or an error. */
int progress_hold(void);
void progress_release(void);

/* MPI ends: nothing of it is called any more. */
void progress_end(void);

/* Lets MPI work once; by any thread that is in an MPI call. MPI_SUCCESS or an error. */
int progress_make(void);

/* A request that completes when MPI is told so, and whose status is empty. */
int progress_request(MPI_Request *request);

#endif
