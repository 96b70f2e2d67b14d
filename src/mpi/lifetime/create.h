/* src/mpi/lifetime/create.h: MPI_Win_allocate and MPI_Win_allocate_shared. */
#ifndef ONESPACE_MPI_LIFETIME_CREATE_H
#define ONESPACE_MPI_LIFETIME_CREATE_H

#include "mpi/window/window.h"

/* Creates a window if a provider wants it. *is_ours, the same on all ranks, says so; otherwise
 * nothing was done. Collective. MPI_SUCCESS with *base and *handle set, or an error class, after
 * the communicator's error handler was called. */
int create_window(const char *call, size_t size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                  int is_shared, void *base, MPI_Win *handle, int *is_ours);

#endif
