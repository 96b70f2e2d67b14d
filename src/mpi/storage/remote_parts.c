/* src/mpi/storage/remote_parts.c: the other ranks' parts at addresses of this process. */
#include "mpi/storage/storage_window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi/pmpi/message.h"
#include "mpi/rma/rma.h"
#include "onespace/sync/copy.h"

/* ---- Large puts and gets ---- */

/* large MPI_Put and MPI_Get on windows on storage, by system calls instead
 * of the mapping (storage/region/bulk.c).
 *
 * They need a descriptor of the file that the part is on. Another rank's file is opened at the
 * first use: most ranks transfer much to few others, and descriptors are scarce. */

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

/* ---- Mapping ---- */

/* the other ranks' parts at addresses of this rank, so that communication
 * is loads and stores (rma/direct.h).
 *
 * In one space the addresses are the owners' own, and a hold keeps their memory. Processes of one
 * node open one another's descriptors (/proc/PID/fd), which needs neither a name nor a directory,
 * and map the same files and the same shared memory; what they share about the window (struct
 * direct) is memory of their lowest rank. Where a process cannot, and between nodes, MPI serves the
 * window (rma/intra_node.h). */

/* What a rank tells the others about its part. */
struct place {
    int32_t error;                 /* an error class */
    int32_t file, memory, control; /* descriptors of its process; -1: none */
    int32_t storage_first;
    uint32_t style; /* of access; for whoever maps the part */
    uint64_t file_offset, storage_length, memory_length;
    uint64_t base;
};
_Static_assert(sizeof(struct place) <= AGREEMENT_RECORD_MAX, "a record");

int storage_open_of(const struct group *group, int rank, int descriptor)
{
    char path[64];
    if (descriptor < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", group->pids[rank], descriptor);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* ---- The parts ---- */

static struct storage_layout layout_of(const struct place *place)
{
    return (struct storage_layout){place->file_offset, place->storage_length, place->memory_length,
                                   place->storage_first};
}

static uint64_t base_of_storage(const struct place *place)
{
    return place->base + (place->storage_first ? 0 : place->memory_length);
}

static int borrow(struct storage_part *part, const struct place *place, struct storage_error *error)
{
    part->base = (char *)place->base;
    part->layout = layout_of(place);
    return storage_region_borrow(&part->region, place->file_offset, place->storage_length,
                                 (void *)base_of_storage(place), error);
}

static int map_of(const struct window *window, int rank, struct storage_part *part,
                  const struct place *place, struct storage_error *error)
{
    int memory = storage_open_of(window->group, rank, place->memory), result = 0;
    part->region.file.fd = storage_open_of(window->group, rank, place->file);
    part->layout = layout_of(place);
    if ((place->storage_length && part->region.file.fd < 0) || (place->memory_length && memory < 0))
        result = -errno;
    else
        result = storage_part_map(part, memory, place->style, error);
    if (part->region.file.fd >= 0)
        close(part->region.file.fd);
    if (memory >= 0)
        close(memory);
    part->region.file.fd = -1; /* its owner checks whether the file was cut */
    return result;
}

/* All of a contiguous window, in a process that named no file: from the lead's descriptor. */
static int map_whole(struct window *window, const struct place *all, struct storage_error *error)
{
    struct storage_window *storage = window->memory;
    const struct place *lead = &all[storage->lead], *last = &all[storage->ranks - 1];
    struct storage_region *whole = &storage->whole;
    whole->file.fd = storage_open_of(window->group, storage->lead, lead->file);
    if (whole->file.fd < 0)
        return -errno;
    uint64_t end = last->file_offset + last->storage_length;
    int result = storage_region_map(whole, all[0].file_offset, end - all[0].file_offset, NULL,
                                    lead->style, error);
    close(whole->file.fd);
    whole->file.fd = -1; /* its owner checks whether the file was cut */
    return result;
}

/* A part of a contiguous window, which this process has mapped as a whole, or the lead of the
 * space. */
static int borrow_part(struct storage_window *storage, struct storage_part *part,
                       const struct place *all, int rank, struct storage_error *error)
{
    char *whole = storage->whole.base ? storage->whole.base : (char *)all[storage->lead].base;
    part->base = whole + (all[rank].file_offset - all[0].file_offset);
    int result = storage_region_borrow(&part->region, all[rank].file_offset,
                                       all[rank].storage_length, part->base, error);
    part->layout = layout_of(&all[rank]);
    return result;
}

static int reach_parts(struct window *window, const struct place *all, struct storage_error *error)
{
    struct storage_window *storage = window->memory;
    const struct group *group = window->group;
    int result = 0;
    storage->others = calloc((size_t)group->ranks, sizeof(*storage->others));
    if (!storage->others || storage_descriptors_new(storage) < 0)
        return -ENOMEM;
    for (int i = 0; i < group->ranks; i++)
        storage->others[i].region.file.fd = -1;
    for (; storage->holds < group->ranks; storage->holds++)
        if (group_in_space(group, storage->holds) &&
            (result = hold_acquire(group->members[storage->holds])) < 0)
            return result;
    if (storage->is_contiguous && !group->is_one_space && storage->own.region.file.fd < 0)
        result = map_whole(window, all, error);
    for (int i = 0; result == 0 && i < group->ranks; i++) {
        struct storage_part *part = i == group->rank ? &storage->own : &storage->others[i];
        if (!group_is_intra_node(group, i))
            continue;
        storage_descriptor_set(storage, i, all[i].file);
        if (storage->is_contiguous)
            result = borrow_part(storage, part, all, i, error);
        else if (i != group->rank && group_in_space(group, i))
            result = borrow(part, &all[i], error);
        else if (i != group->rank)
            result = map_of(window, i, part, &all[i], error);
    }
    return result;
}

static void forget_parts(struct window *window)
{
    struct storage_window *storage = window->memory;
    for (int i = 0; storage->others && i < storage->ranks; i++)
        storage_part_unmap(&storage->others[i]);
    free(storage->others);
    storage->others = NULL;
    storage_descriptors_close(storage);
    free(window->bases);
    free(window->usage);
    window->bases = NULL;
    window->usage = NULL;
    /* No longer the words shared with the other ranks. */
    storage->own.region.failed = &storage->own.region.failed_here;
    storage->whole.failed = &storage->whole.failed_here;
}

/* ---- What all ranks share ---- */

static int is_one_node(const struct group *group)
{
    for (int i = 0; i < group->ranks; i++)
        if (!group_is_intra_node(group, i))
            return 0;
    return 1;
}

static int lowest_of_node(const struct group *group)
{
    int rank = 0;
    while (!group_is_intra_node(group, rank))
        rank++;
    return rank;
}

/* Bytes of it: struct rma_shared, and the maps of what was stored into. */
static size_t control_size(const struct group *group, const uint64_t *sizes)
{
    return rma_shared_size(group->ranks) + storage_written_size(sizes, group->ranks);
}

/* Called by the lowest rank of several processes: the descriptor of the shared memory, or -1. */
static int make_control(const struct group *group, const uint64_t *sizes)
{
    int control = memfd_create("onespace-window", MFD_CLOEXEC);
    if (control >= 0 && ftruncate(control, (off_t)control_size(group, sizes)) == 0)
        return control;
    if (control >= 0)
        close(control);
    return -1;
}

static int map_control(struct window *window, const uint64_t *sizes, int control)
{
    size_t size = control_size(window->group, sizes);
    void *at =
        control < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, control, 0);
    if (at == MAP_FAILED)
        return -ENOMEM;
    struct rma_shared *shared = at;
    shared->ranks = window->group->ranks; /* all ranks store the same */
    if (is_one_node(window->group)) {
        window->rma_shared = shared;
        window->rma_shared_mapped = size;
    } else if (!(window->intra_node = intra_node_new(window->group, shared, size))) {
        munmap(shared, size);
        return -ENOMEM;
    }
    return storage_written_place(window->memory, sizes,
                                 (char *)at + rma_shared_size(shared->ranks));
}

static void forget_control(struct window *window)
{
    struct storage_window *storage = window->memory;
    free(storage->written);
    storage->written = NULL;
    if (window->rma_shared_mapped)
        munmap(window->rma_shared, window->rma_shared_mapped);
    intra_node_free(window->intra_node);
    window->rma_shared = NULL;
    window->rma_shared_mapped = 0;
    window->intra_node = NULL;
}

/* ---- Together ---- */

static struct place place_of(const struct window *window, int error, int control)
{
    const struct storage_window *storage = window->memory;
    const struct storage_layout *layout = &storage->own.layout;
    return (struct place){
        .error = error,
        .file = storage->own.region.file.fd,
        .memory = storage->memory,
        .control = control,
        .storage_first = layout->storage_first,
        .style = storage->hints.style,
        .file_offset = layout->file_offset,
        .storage_length = layout->storage_length,
        .memory_length = layout->memory_length,
        .base = (uintptr_t)(storage->is_contiguous ? storage->whole.base : storage->own.base),
    };
}

/* Fills in the window: all parts are mapped. */
static int settle(struct window *window)
{
    struct storage_window *storage = window->memory;
    window->base = storage->own.base;
    window->overlaps = storage->overlaps;
    int level = MPI_THREAD_MULTIPLE;
    window->is_threaded =
        pmpi()->Query_thread(&level) != MPI_SUCCESS || level == MPI_THREAD_MULTIPLE;
    struct rma_shared *shared =
        window->rma_shared ? window->rma_shared : window->intra_node->shared;
    window->bases = calloc((size_t)storage->ranks, sizeof(*window->bases));
    window->usage = calloc((size_t)storage->ranks, sizeof(*window->usage));
    if (!window->bases || !window->usage)
        return -ENOMEM;
    for (int i = 0; i < storage->ranks; i++) {
        struct storage_part *part = i == storage->rank ? &storage->own : &storage->others[i];
        window->bases[i] = part->base; /* NULL: on another node */
        part->region.failed = &shared->rank[i].failed;
    }
    storage->whole.failed = &shared->rank[0].failed;
    return 0;
}

/* *can: whether all ranks of this node reach its parts; the same on all of them. */
static int reach_all(struct window *window, const struct place *all, int *can,
                     const struct window_request *request, const uint64_t *sizes)
{
    const struct group *group = window->group;
    struct storage_error error = {""};
    int32_t mine = all ? reach_parts(window, all, &error) : -ENOMEM;
    if (mine == 0 && !group->is_one_space) {
        int lowest = lowest_of_node(group), is_mine = group->rank == lowest;
        int control = is_mine ? -1 : storage_open_of(group, lowest, all[lowest].control);
        if (!is_mine)
            mine = map_control(window, sizes, control);
        if (control >= 0)
            close(control);
    }
    if (mine == 0)
        mine = window->rma_shared || window->intra_node ? settle(window) : -ENOMEM;
    if (mine < 0 && error.text[0] && (request->is_shared || group->is_one_space))
        (void)storage_report(group->rank, request->call, mine, &error);
    const void *answers;
    int result = agreement_allgather(request->agreement, &mine, sizeof(mine), &answers);
    *can = result == MPI_SUCCESS;
    for (int i = 0; *can && i < group->ranks; i++)
        *can = !group_is_intra_node(group, i) || ((const int32_t *)answers)[i] == 0;
    return result;
}

int storage_reach(struct window *window, const struct window_request *request,
                  const uint64_t *sizes, int error)
{
    const struct group *group = window->group;
    int is_control_mine = !group->is_one_space && group->rank == lowest_of_node(group);
    int control = is_control_mine ? make_control(group, sizes) : -1, can = 0;
    if (is_control_mine && control >= 0 && map_control(window, sizes, control) < 0)
        error = MPI_ERR_NO_MEM;
    struct place mine = place_of(window, error, control);
    const void *gathered;
    struct place *all = calloc((size_t)group->ranks, sizeof(*all));
    int result = agreement_allgather(request->agreement, &mine, sizeof(mine), &gathered);
    for (int i = 0; result == MPI_SUCCESS && i < group->ranks; i++)
        result = ((const struct place *)gathered)[i].error;
    if (result == MPI_SUCCESS && (is_one_node(group) || !request->is_shared)) {
        if (all)
            memcpy(all, gathered, (size_t)group->ranks * sizeof(*all));
        result = reach_all(window, all, &can, request, sizes);
    }
    if (control >= 0)
        close(control);
    free(all);
    if (result == MPI_SUCCESS && can)
        return result;
    forget_parts(window);
    if (!group->is_one_space)
        forget_control(window);
    if (result == MPI_SUCCESS && (request->is_shared || group->is_one_space)) {
        if (group->rank == 0)
            layer_message(0,
                          "%s: the ranks cannot reach one another's memory: they have to run on "
                          "one node, as one user",
                          request->call);
        return request->is_shared ? MPI_ERR_RMA_SHARED : MPI_ERR_OTHER;
    }
    window->base = ((struct storage_window *)window->memory)->own.base;
    return result;
}
