/* src/mpi/group/progress.h: lets MPI make progress while the layer waits.
 *
 * MPI requires that a send to a rank proceeds while that rank blocks in any MPI call. The call that
 * makes progress in every library is MPI_Test on an incomplete request (MPI_Iprobe does not when
 * there is a message to find), so one such request is kept as long as anything may wait. */
#ifndef ONESPACE_MPI_GROUP_PROGRESS_H
#define ONESPACE_MPI_GROUP_PROGRESS_H

#include "mpi/real/real.h"

/* Bracket all waits; calls are counted. MPI_SUCCESS or an error. */
int progress_hold(void);
void progress_release(void);

/* MPI_Finalize: no function of MPI is called from here on. */
void progress_end(void);

/* One step of progress, by any thread that is inside an MPI call. Does nothing while another thread
 * makes progress. MPI_SUCCESS or an error. */
int progress_make(void);

/* Progress at the end of an operation of the layer: steps until one finds nothing. The library's
 * own operation would have received what other ranks sent before they entered it, so that one
 * MPI_Iprobe finds it. Waits for another thread's step, which may have looked too early. */
int progress_poll(void);

/* A generalised request: it completes by MPI_Grequest_complete, and its status is empty. */
int progress_request(MPI_Request *request);

#endif
