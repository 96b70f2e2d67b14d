/* src/mpi/lifetime/handle.h: the MPI handle of a window whose communication is the layer's. */
#ifndef ONESPACE_MPI_LIFETIME_HANDLE_H
#define ONESPACE_MPI_LIFETIME_HANDLE_H

#include "mpi/window/window.h"

/* An MPI window of this rank alone and without memory. */
int handle_make_empty(MPI_Info info, MPI_Comm self, MPI_Win *handle);
/* What the layer's own copies need of MPI: the window's group and a communicator. Local. */
int handle_find_own(struct window *window, const struct window_request *request);
/* Makes such a window the handle. Local. */
int handle_make(struct window *window, const struct window_request *request);

#endif
