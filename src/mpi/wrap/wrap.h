/* src/mpi/wrap/wrap.h: how the wrappers of MPI's functions are written. */
#ifndef ONESPACE_MPI_WRAP_WRAP_H
#define ONESPACE_MPI_WRAP_WRAP_H

#include "mpi/rma/rma.h"

/* Exports MPI_NAME, whose definition follows, and PMPI_NAME as its alias. */
#define WRAP(name)                                                                                 \
    __attribute__((visibility("default"),                                                          \
                   alias("MPI_" #name))) __typeof__(PMPI_##name) PMPI_##name;                      \
    __attribute__((visibility("default"))) __typeof__(MPI_##name) MPI_##name;

/* The window if the layer does its communication and synchronisation; else NULL. */
static inline struct window *wrap_find_shared(MPI_Win handle)
{
    struct window *window = window_find(handle);
    return window && window->rma_shared ? window : NULL;
}

/* Ends a call that returns a request: the request is complete. */
int wrap_request(struct window *window, int result, MPI_Request *request);

#endif
