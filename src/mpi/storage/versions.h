/* src/mpi/storage/versions.h: versions of a window on storage. */
#ifndef ONESPACE_MPI_STORAGE_VERSIONS_H
#define ONESPACE_MPI_STORAGE_VERSIONS_H

#include "mpi/storage/window.h"

/* The last step of creating a window: when its ranks on storage want versions (all or none), their
 * bytes become those of the newest one. An error class, the same on all ranks. */
int storage_versions_open(struct window *window, const char *call);
/* onespace_window_commit. Collective. An error class, after a message. */
int storage_versions_commit(struct window *window, const char *call);
/* Local; 0: none. */
uint64_t storage_versions_newest(const struct storage_window *storage);
/* Local, before the part is unmapped. */
void storage_versions_close(struct storage_window *storage);

#endif
