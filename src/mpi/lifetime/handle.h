/* src/mpi/lifetime/handle.h: the MPI handle of a window whose communication is ours. */
#ifndef ONESPACE_MPI_LIFETIME_HANDLE_H
#define ONESPACE_MPI_LIFETIME_HANDLE_H

#include "mpi/window/window.h"

/* A window of this rank alone and without memory. */
int handle_make_empty(MPI_Info info, MPI_Comm self, MPI_Win *handle);
/* What copying needs of MPI, where this process does it: no other rank takes part. */
int handle_find_own(struct window *window, const struct window_request *request);
/* The handle is a window of this rank alone and without memory: no other rank is needed for it. */
int handle_make(struct window *window, const struct window_request *request);

#endif
