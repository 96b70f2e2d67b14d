/* src/mpi/lifetime/lifetime.h: creates and frees windows. */
#ifndef ONESPACE_MPI_LIFETIME_LIFETIME_H
#define ONESPACE_MPI_LIFETIME_LIFETIME_H

#include "mpi/rma/window.h"

/* MPI_Win_allocate and MPI_Win_allocate_shared. */

/* Creates a window if a provider wants it. *is_ours, the same on all ranks, says so; otherwise
 * nothing was done. Collective. MPI_SUCCESS with *base and *handle set, or an error class, after
 * the communicator's error handler was called. */
int window_create(const char *call, size_t size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                  int is_shared, void *base, MPI_Win *handle, int *is_ours);

/* the end of a window. */

/* MPI_Win_free in four steps, so that MPI_Finalize can free all windows although their order may
 * differ between ranks that have several threads. Only await_others and destroy wait for other
 * ranks; for windows that MPI serves, close does, inside MPI. destroy calls the window's error
 * handler. */
void window_leave(struct window *window);
int window_await_others(struct window *window);
void window_close(struct window *window);
int window_destroy(struct window *window);

/* Frees this process's structures of a window; its handle, if it had one, is freed already. */
void window_discard(struct window *window);

/* MPI_Finalize frees the windows that the program has left. */

/* To be called before the layer keeps anything; only the first call has an effect. */
void finalize_hook_install(void);

/* the MPI handle of a window whose communication is the layer's. */

/* An MPI window of this rank alone and without memory. */
int handle_create_empty(MPI_Info info, MPI_Comm self, MPI_Win *handle);
/* What the layer's own copies need of MPI: the window's group and a communicator. Local. */
int find_own_group(struct window *window, const struct window_request *request);
/* Makes such a window the handle. Local. */
int handle_create(struct window *window, const struct window_request *request);

#endif
