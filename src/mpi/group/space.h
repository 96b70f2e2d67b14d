/* src/mpi/group/space.h: this process and its space. */
#ifndef ONESPACE_MPI_GROUP_SPACE_H
#define ONESPACE_MPI_GROUP_SPACE_H

#include <stdint.h>

/* Whether this process is a task of a space (or its root). */
int space_has_self(void);

/* Whether this is a guarded task: what other ranks are to write to is then mapped MAP_SHARED. */
int space_is_guarded(void);

/* Whether --mpi-layer off was given: creating windows is left to the MPI library. */
int space_layer_is_off(void);

/* When a communicator's collective operations become the layer's. */
enum collectives_wanted { COLLECTIVES_NEVER, COLLECTIVES_AT_ONCE, COLLECTIVES_AUTO };
enum collectives_wanted space_wants_collectives(void);

/* Where a task counts the layer's collective operations; only if it wants them. */
_Atomic uint64_t *space_collectives_counter(void);

/* Where a task is told that it has opened the library of a GPU; NULL: this process is not told. */
const _Atomic uint32_t *space_gpu_library(void);

/* Whether some rank of the job on this node is known to lack the layer: it is a process, not a task
 * of this space, or has --mpi-layer off. All tasks on the node get the same answer after MPI_Init.
 */
int space_lacks_ranks(void);

/* Whether all ranks of the job, so many, are tasks of this space that want that. All get the same
 * answer after MPI_Init. */
int space_has_whole_job(int ranks);

#endif
