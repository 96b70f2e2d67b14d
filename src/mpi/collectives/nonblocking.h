/* src/mpi/collectives/nonblocking.h: short nonblocking collective operations, for communicators
 * whose ranks are all in one space.
 *
 * Each rank publishes a copy of its operand when it starts an operation, and reads the operands of
 * the others when it tests or waits. So an operation can complete on a rank as soon as the others
 * have started it, whatever they do afterwards: none must make progress for another, and the order
 * of calls that MPI allows is never restricted. That costs a second copy, so long operands are left
 * to the MPI library. */
#ifndef ONESPACE_MPI_COLLECTIVES_NONBLOCKING_H
#define ONESPACE_MPI_COLLECTIVES_NONBLOCKING_H

#include "mpi/collectives/coll_call.h"

/* Whether this process's MPI library can wait for requests of the layer's. The ranks agree on it:
 * their answers may differ. */
int nonblocking_is_possible(void);

/* Bytes of zeroed shared memory that each rank needs, a multiple of SHARED_BLOCK_ALIGN. */
size_t nonblocking_memory(void);
/* `memory`: all ranks', rank i's at i * nonblocking_memory. The caller keeps the group's other
 * ranks held. NULL: out of memory. */
struct nonblocking *nonblocking_new(const struct group *group, _Atomic uint64_t *counter,
                                    void *memory);
/* Whether this rank's operations are complete, and no other rank needs its operands any more: only
 * then may it be freed. */
int nonblocking_is_unused(const struct nonblocking *nonblocking);
void nonblocking_free(struct nonblocking *nonblocking);

/* Starts the operation of `call`, whose root, buffers and op are set. 1 with *request and *result;
 * or 0: the MPI library runs the call, on all ranks. Decides by what MPI requires to be equal. */
int nonblocking_start(struct coll_call *call, MPI_Request *request, int *result);
/* Makes progress of all operations. Returns 0. */
int nonblocking_progress(void);

#endif
