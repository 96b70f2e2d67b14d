/* src/mpi/lifetime/lifetime.h: creates and frees windows. */
#ifndef ONESPACE_MPI_LIFETIME_LIFETIME_H
#define ONESPACE_MPI_LIFETIME_LIFETIME_H

#include "mpi/rma/window.h"

/* MPI_Win_allocate and MPI_Win_allocate_shared: creates a window if a provider accepts the call.
 * *is_ours, the same on all ranks: whether one did; if not, nothing was done. Collective.
 * MPI_SUCCESS with *base and *handle set, or an error class, after the communicator's error handler
 * was called. */
int window_create(const char *call, size_t size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                  int is_shared, void *base, MPI_Win *handle, int *is_ours);

/* MPI_Win_free in four steps, so that MPI_Finalize can free all windows even if ranks with several
 * threads have created them in different orders. Only await_others and destroy wait for other
 * ranks; for windows that MPI serves, close waits inside MPI. destroy calls the window's error
 * handler. */
void window_leave(struct window *window);
int window_await_others(struct window *window);
void window_close(struct window *window);
int window_destroy(struct window *window);

/* Frees this process's structures of a window; its handle, if it had one, is freed already. */
void window_discard(struct window *window);

/* Lets MPI_Finalize free the windows that the program has not freed. Call it before the layer keeps
 * any state; only the first call has an effect. */
void finalize_hook_install(void);

/* Creates an MPI window of this rank alone, without memory: the handle of a window of the layer. */
int handle_create_empty(MPI_Info info, MPI_Comm self, MPI_Win *handle);

#endif
