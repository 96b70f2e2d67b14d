/* src/mpi/lifetime/free.h: the end of a window. */
#ifndef ONESPACE_MPI_LIFETIME_FREE_H
#define ONESPACE_MPI_LIFETIME_FREE_H

#include "mpi/window/window.h"

/* MPI_Win_free, in four steps, so that MPI_Finalize can free many windows without being
 * stopped by their order, which may differ between ranks that have several threads. Only the second
 * and the last wait for others; of windows that MPI serves it does so itself, in the third. The
 * last calls the window's error handler. */
void window_leave(struct window *window);
int window_await_others(struct window *window);
void window_close(struct window *window);
int window_destroy(struct window *window);

/* Frees what this process has of a window whose handle, if it had one, is freed. */
void window_discard(struct window *window);

#endif
