/* src/mpi/lifetime/free.h: the end of a window. */
#ifndef ONESPACE_MPI_LIFETIME_FREE_H
#define ONESPACE_MPI_LIFETIME_FREE_H

#include "mpi/window/window.h"

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

#endif
