/* src/mpi/wrap/wrap.h: how the layer's own MPI functions are written. */
#ifndef ONESPACE_MPI_WRAP_WRAP_H
#define ONESPACE_MPI_WRAP_WRAP_H

#include "mpi/rma/direct.h"

/* Declares MPI_NAME and PMPI_NAME as exported, the second as another name of the first, which
 * follows. */
#define TAKE(name)                                                                                 \
    __attribute__((visibility("default"),                                                          \
                   alias("MPI_" #name))) __typeof__(PMPI_##name) PMPI_##name;                      \
    __attribute__((visibility("default"))) __typeof__(MPI_##name) MPI_##name;

/* The window, when its ranks share an address space: then the call is ours. */
static inline struct window *take_direct(MPI_Win handle)
{
    struct window *window = window_find(handle);
    return window && window->direct ? window : NULL;
}

/* A request that is complete. */
int take_request(struct window *window, int result, MPI_Request *request);

#endif
