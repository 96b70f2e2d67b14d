/* src/mpi/lifetime/create.h: MPI_Win_allocate and MPI_Win_allocate_shared. */
#ifndef ONESPACE_MPI_LIFETIME_CREATE_H
#define ONESPACE_MPI_LIFETIME_CREATE_H

#include "mpi/window/window.h"

/* Makes a window if a provider wants it: *is_ours says so, on all ranks alike; else nothing was
 * done. Collective. MPI_SUCCESS with *base and *handle set, or an error code that the
 * communicator's error handler has been given. */
int create_window(const char *call, size_t size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                  int is_shared, void *base, MPI_Win *handle, int *is_ours);

#endif
