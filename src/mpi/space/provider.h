/* src/mpi/space/provider.h: windows of ranks that are tasks of one space. */
#ifndef ONESPACE_MPI_SPACE_PROVIDER_H
#define ONESPACE_MPI_SPACE_PROVIDER_H

#include "mpi/window/provider.h"

extern const struct window_provider provider_space;

#endif
