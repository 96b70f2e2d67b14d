/* src/mpi/lifetime/providers.h: the table of providers. */
#ifndef ONESPACE_MPI_LIFETIME_PROVIDERS_H
#define ONESPACE_MPI_LIFETIME_PROVIDERS_H

#include "mpi/window/provider.h"

/* The providers in the order in which they are asked; NULL ends the table. */
extern const struct window_provider *const providers[];

#endif
