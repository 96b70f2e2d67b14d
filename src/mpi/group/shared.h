/* src/mpi/group/shared.h: memory of rank 0 that other tasks look at, and that it frees when none
 * does.
 *
 * Nobody is waited for: rank 0 retires its block, and it goes when the last of the others has left.
 * Their holds keep it while rank 0 itself ends. */
#ifndef ONESPACE_MPI_GROUP_SHARED_H
#define ONESPACE_MPI_GROUP_SHARED_H

#include <stddef.h>

enum { SHARED_LINE = 128 }; /* bytes that processors pass on together */

/* Zeroed and aligned to SHARED_LINE, for `others` ranks beside the caller; NULL: no memory. */
void *shared_new(size_t size, int others);
/* One of the others: will not touch it again. */
void shared_leave(void *block);
/* The owner: may be called when the others still use it. */
void shared_retire(void *block);
/* The owner: now, since the others never knew of it. */
void shared_free(void *block);

#endif
