/* src/mpi/storage/bulk.c: large MPI_Put and MPI_Get on windows on storage, by system calls instead
 * of the mapping (storage/region/bulk.c).
 *
 * They need a descriptor of the file that the part is on. Another rank's file is opened at the
 * first use: most ranks transfer much to few others, and descriptors are scarce. */
#include <stdlib.h>
#include <unistd.h>

#include "mpi/storage/window.h"
#include "onespace/sync/copy.h"

enum { NOT_YET = -2, NONE = -1 };

struct storage_descriptor {
    int theirs; /* of that rank's process */
    /* This process's, NOT_YET or NONE. Any thread sets it, once, from NOT_YET; relaxed: it is only
     * a number. */
    _Atomic int ours;
};

int storage_descriptors_new(struct storage_window *storage)
{
    storage->descriptors = calloc((size_t)storage->ranks, sizeof(*storage->descriptors));
    for (int i = 0; storage->descriptors && i < storage->ranks; i++) {
        storage->descriptors[i].theirs = NONE;
        atomic_init(&storage->descriptors[i].ours, NOT_YET);
    }
    return storage->descriptors ? 0 : -1;
}

void storage_descriptor_set(struct storage_window *storage, int rank, int theirs)
{
    storage->descriptors[rank].theirs = theirs;
}

void storage_descriptors_close(struct storage_window *storage)
{
    for (int i = 0; storage->descriptors && i < storage->ranks; i++) {
        int ours = atomic_load_explicit(&storage->descriptors[i].ours, memory_order_relaxed);
        if (ours >= 0)
            close(ours);
    }
    free(storage->descriptors);
    storage->descriptors = NULL;
}

static int descriptor_of(const struct window *window, int rank)
{
    const struct storage_window *storage = window->memory;
    if (storage->own.region.file.fd >= 0 && storage->is_contiguous)
        return storage->own.region.file.fd;
    if (storage->is_contiguous)
        rank = storage->lead;
    if (rank == storage->rank)
        return storage->own.region.file.fd;
    struct storage_descriptor *descriptor = &storage->descriptors[rank];
    int ours = atomic_load_explicit(&descriptor->ours, memory_order_relaxed), none = NOT_YET;
    if (ours != NOT_YET)
        return ours;
    ours = storage_open_of(window->group, rank, descriptor->theirs);
    if (atomic_compare_exchange_strong_explicit(&descriptor->ours, &none, ours,
                                                memory_order_relaxed, memory_order_relaxed))
        return ours;
    if (ours >= 0)
        close(ours); /* another thread was first */
    return none;
}

/* Windows with versions are stored into, also by ranks without: what changed is known from stores.
 */
void storage_copy(struct window *window, int rank, int is_put, char *part, char *own, size_t size)
{
    struct storage_window *storage = window->memory;
    struct storage_region *region =
        rank == storage->rank ? &storage->own.region : &storage->others[rank].region;
    int is_inside =
        region->length && part >= region->base && part + size <= region->base + region->length;
    if (!is_inside || storage->kept)
        onespace_copy(is_put ? part : own, is_put ? own : part, size);
    else if (is_put)
        storage_region_store(region, descriptor_of(window, rank), (uint64_t)(part - region->base),
                             own, size);
    else
        storage_region_load(region, descriptor_of(window, rank), (uint64_t)(part - region->base),
                            own, size);
}
