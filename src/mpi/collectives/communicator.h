/* src/mpi/collectives/communicator.h: the communicators whose ranks are all in one space. */
#ifndef ONESPACE_MPI_COLLECTIVES_COMMUNICATOR_H
#define ONESPACE_MPI_COLLECTIVES_COMMUNICATOR_H

#include "mpi/collectives/engine.h"
#include "mpi/collectives/nodes.h"
#include "mpi/collectives/scratch.h"
#include "mpi/group/group.h"
#include "mpi/pmpi/pmpi.h"

struct communicator {
    struct engine *engine; /* of ranks in one space; */
    struct nodes *nodes;   /* or in several; both NULL: the operations are the MPI library's */
    struct group *group;   /* if there is an engine */
    MPI_Comm comm;
    void *memory;              /* of the engines of all ranks, in rank 0's; shared.h */
    struct rooms *rooms;       /* NULL until a call needs them: communicator_rooms */
    _Atomic uint64_t *counter; /* if there is an engine: of all communicators' operations */
    int calls_to_come; /* of wrapped operations that are no reductions, until the engine is made;
                          0: that is decided */
};

/* All that are known, by handle; and the entry that was found last, which any thread writes and
 * reads (relaxed): entries are never freed, and its handle is compared. */
extern struct handle_table communicator_table;
extern struct handle_entry *_Atomic communicator_last;

/* The first thing in a wrapper, since it is all that it costs where the library does the operation:
 * 1: the communicator is the library's, for this call at least. 0: that is not known, or it is not.
 * Depends on what is equal on all ranks. */
static inline int communicator_is_left(MPI_Comm comm, int is_reduction)
{
    uintptr_t handle = (uintptr_t)comm;
    struct handle_entry *entry = atomic_load_explicit(&communicator_last, memory_order_relaxed);
    if (!entry || atomic_load_explicit(&entry->handle, memory_order_acquire) != handle) {
        entry = handle_table_entry(&communicator_table, handle);
        if (!entry)
            return 0;
        atomic_store_explicit(&communicator_last, entry, memory_order_relaxed);
    }
    struct communicator *communicator = atomic_load_explicit(&entry->value, memory_order_relaxed);
    if (communicator->engine || communicator->nodes)
        return 0;
    if (communicator->calls_to_come == 0)
        return 1;
    if (is_reduction || communicator->calls_to_come == 1)
        return 0;
    communicator->calls_to_come--;
    return 1;
}

/* NULL: out of memory. */
struct rooms *communicator_rooms(struct communicator *communicator);

/* Counts an operation that is done. */
void communicator_count(const struct communicator *communicator);

/* Says that an operation of `rank` has no result because of what is wrong at rank `failed`. Returns
 * MPI_ERR_OTHER. */
int communicator_tell_failed(int rank, int failed);
/* Says that they are in different operations, or give other sizes. Returns MPI_ERR_TRUNCATE. */
int communicator_tell_different(int rank, int other);

/* Called once by each wrapped operation. Collective when it makes the engine, which all ranks do in
 * the same call: in the first of MPI_COMM_WORLD; of another communicator in the first reduction,
 * because the library's sums may have other bits, or when the communicator was used so often that
 * the set-up costs little beside. NULL with *error set: out of memory, or MPI failed. NULL without
 * an error: left to the MPI library. */
struct communicator *communicator_of(MPI_Comm comm, int is_reduction, int *error);

#endif
