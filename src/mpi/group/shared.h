/* src/mpi/group/shared.h: memory of rank 0 that other tasks use, too.
 *
 * No rank waits to free it: rank 0 retires a block, which is freed when the last of the others has
 * left. Their holds (hold.h) keep the memory while rank 0 itself ends. */
#ifndef ONESPACE_MPI_GROUP_SHARED_H
#define ONESPACE_MPI_GROUP_SHARED_H

#include <stddef.h>

enum { SHARED_LINE = 128 }; /* what CPUs transfer at once: a pair of cache lines */

/* Zeroed and aligned to SHARED_LINE, for the caller and `others` ranks; NULL: no memory. */
void *shared_new(size_t size, int others);
/* Called by one of the others: it will not touch the block again. */
void shared_leave(void *block);
/* Called by the owner; the others may still use the block. */
void shared_retire(void *block);
/* Called by the owner: frees a block whose address the others never got. */
void shared_free(void *block);

#endif
