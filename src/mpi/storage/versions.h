/* src/mpi/storage/versions.h: versions of a window on storage. */
#ifndef ONESPACE_MPI_STORAGE_VERSIONS_H
#define ONESPACE_MPI_STORAGE_VERSIONS_H

#include "mpi/storage/window.h"

/* The last step of making a window: if its ranks want versions (all or none), its bytes become
 * those of the newest. An error class, the same on all ranks. */
int storage_versions_open(struct window *window, const char *call);
/* Local, before the part is unmapped. */
void storage_versions_close(struct storage_window *storage);

#endif
