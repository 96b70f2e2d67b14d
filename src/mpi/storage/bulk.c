/* src/mpi/storage/bulk.c: large MPI_Put and MPI_Get on windows on storage, past the mapping
 * (storage/bulk.c).
 *
 * It takes a descriptor of the file that the part is on. Another rank's is opened when it is first
 * needed: most ranks transfer much to few others, and descriptors are scarce. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/storage/window.h"

enum { NOT_YET = -2, NONE = -1 };

struct storage_door {
    int theirs; /* that rank's own descriptor */
    /* This process's, NOT_YET or NONE: any thread sets it once, from NOT_YET (relaxed: a number).
     */
    _Atomic int ours;
};

int storage_doors_make(struct storage_window *storage)
{
    storage->doors = calloc((size_t)storage->ranks, sizeof(*storage->doors));
    for (int i = 0; storage->doors && i < storage->ranks; i++) {
        storage->doors[i].theirs = NONE;
        atomic_init(&storage->doors[i].ours, NOT_YET);
    }
    return storage->doors ? 0 : -1;
}

void storage_door_name(struct storage_window *storage, int rank, int theirs)
{
    storage->doors[rank].theirs = theirs;
}

void storage_doors_close(struct storage_window *storage)
{
    for (int i = 0; storage->doors && i < storage->ranks; i++) {
        int ours = atomic_load_explicit(&storage->doors[i].ours, memory_order_relaxed);
        if (ours >= 0)
            close(ours);
    }
    free(storage->doors);
    storage->doors = NULL;
}

static int descriptor_of(const struct window *window, int rank)
{
    const struct storage_window *storage = window->memory;
    if (rank == storage->rank || storage->is_contiguous)
        return storage->own.region.file.fd;
    struct storage_door *door = &storage->doors[rank];
    int ours = atomic_load_explicit(&door->ours, memory_order_relaxed), none = NOT_YET;
    if (ours != NOT_YET)
        return ours;
    ours = storage_open_of(window->party, rank, door->theirs);
    if (atomic_compare_exchange_strong_explicit(&door->ours, &none, ours, memory_order_relaxed,
                                                memory_order_relaxed))
        return ours;
    if (ours >= 0)
        close(ours); /* another thread was first */
    return none;
}

/* Versions are made of what was stored; so those windows are stored into. */
void storage_copy(struct window *window, int rank, int is_put, char *part, char *own, size_t size)
{
    struct storage_window *storage = window->memory;
    struct storage_region *region =
        rank == storage->rank ? &storage->own.region : &storage->others[rank].region;
    int is_inside =
        region->length && part >= region->base && part + size <= region->base + region->length;
    if (!is_inside || storage->versions)
        memmove(is_put ? part : own, is_put ? own : part, size);
    else if (is_put)
        storage_region_store(region, descriptor_of(window, rank), (uint64_t)(part - region->base),
                             own, size);
    else
        storage_region_load(region, descriptor_of(window, rank), (uint64_t)(part - region->base),
                            own, size);
}
