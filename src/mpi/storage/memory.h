/* src/mpi/storage/memory.h: MPI_Alloc_mem on storage, and windows that MPI makes on such memory. */
#ifndef ONESPACE_MPI_STORAGE_MEMORY_H
#define ONESPACE_MPI_STORAGE_MEMORY_H

#include <stddef.h>

#include "mpi/real/real.h"

/* MPI_Alloc_mem: *base NULL: info does not ask for storage. MPI_Free_mem: *is_ours 0: the memory is
 * MPI's. An error class, after a message. */
int storage_memory_allocate(size_t size, MPI_Info info, void **base);
int storage_memory_free(void *base, int *is_ours);
/* Whether there is such memory; the handle of a window of MPI's may have some. */
int storage_memory_is_used(void);
/* MPI_Win_sync: makes such memory of the window durable. *is_ours: there was some. */
int storage_memory_sync(MPI_Win handle, int *is_ours);
/* MPI_Win_attach and MPI_Win_detach of such memory; base NULL: all of the window's, which is freed.
 */
void storage_memory_attach(MPI_Win handle, void *base);
void storage_memory_detach(MPI_Win handle, const void *base);
/* MPI_Finalize: frees all. */
int storage_memory_end(void);

#endif
