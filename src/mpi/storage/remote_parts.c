/* src/mpi/storage/remote_parts.c: the other ranks' parts at addresses of this process. */
#include "mpi/storage/storage_window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/pmpi/message.h"
#include "mpi/rma/rma.h"
#include "onespace/sync/copy.h"

/* ---- Large puts and gets ---- */

/* They need a descriptor of the file that the part is on. Another rank's file is opened at the
 * first use: most ranks transfer much to few others, and descriptors are scarce. */

enum { REMOTE_PATH = 64 };

static const char *path_of_remote_fd(char path[REMOTE_PATH], const struct group *group, int rank,
                                     int descriptor)
{
    snprintf(path, REMOTE_PATH, "/proc/%d/fd/%d", group->pids[rank], descriptor);
    return path;
}

/* Opens the file or shared memory behind a descriptor of the rank's process; -1: not possible. */
static int open_remote_fd(const struct group *group, int rank, int descriptor)
{
    char path[REMOTE_PATH];
    if (descriptor < 0)
        return -1;
    return open(path_of_remote_fd(path, group, rank, descriptor), O_RDWR | O_CLOEXEC);
}

enum { NOT_OPENED = -2, UNAVAILABLE = -1 };

struct remote_file {
    int remote_fd; /* of that rank's process */
    /* The file's when the window was made: the process may end, or use the number again. */
    dev_t device;
    ino_t inode;
    /* This process's descriptor, NOT_OPENED or UNAVAILABLE. Any thread sets it, once, from
     * NOT_OPENED. Relaxed: it guards no data. */
    _Atomic int fd;
};

/* 0, or -1: no memory. */
static int remote_files_init(struct storage_window *storage)
{
    storage->remote_files = calloc((size_t)storage->ranks, sizeof(*storage->remote_files));
    for (int i = 0; storage->remote_files && i < storage->ranks; i++) {
        storage->remote_files[i].remote_fd = UNAVAILABLE;
        atomic_init(&storage->remote_files[i].fd, NOT_OPENED);
    }
    return storage->remote_files ? 0 : -1;
}

static int is_remote_file(const struct remote_file *file, const struct stat *status)
{
    return status->st_dev == file->device && status->st_ino == file->inode;
}

static void remote_file_set(const struct window *window, int rank, int remote_fd)
{
    struct storage_window *storage = window->provider_data;
    struct remote_file *file = &storage->remote_files[rank];
    char path[REMOTE_PATH];
    struct stat status;
    if (remote_fd < 0 ||
        stat(path_of_remote_fd(path, window->group, rank, remote_fd), &status) != 0)
        return;
    file->remote_fd = remote_fd;
    file->device = status.st_dev;
    file->inode = status.st_ino;
}

void remote_files_close(struct storage_window *storage)
{
    for (int i = 0; storage->remote_files && i < storage->ranks; i++) {
        int fd = atomic_load_explicit(&storage->remote_files[i].fd, memory_order_relaxed);
        if (fd >= 0)
            close(fd);
    }
    free(storage->remote_files);
    storage->remote_files = NULL;
}

/* The rank whose file a rank's part is on. */
static int owner_of_file(const struct storage_window *storage, int rank)
{
    return storage->is_contiguous ? storage->lead_rank : rank;
}

int remote_file_descriptor(const struct window *window, int rank)
{
    const struct storage_window *storage = window->provider_data;
    if (storage->own.region.file.fd >= 0 && storage->is_contiguous)
        return storage->own.region.file.fd;
    rank = owner_of_file(storage, rank);
    if (rank == storage->rank)
        return storage->own.region.file.fd;
    struct remote_file *file = &storage->remote_files[rank];
    int fd = atomic_load_explicit(&file->fd, memory_order_relaxed), expected = NOT_OPENED;
    if (fd != NOT_OPENED)
        return fd;
    struct stat status;
    fd = open_remote_fd(window->group, rank, file->remote_fd);
    if (fd >= 0 && (fstat(fd, &status) != 0 || !is_remote_file(file, &status))) {
        close(fd);
        errno = ESTALE;
        fd = UNAVAILABLE;
    }
    if (atomic_compare_exchange_strong_explicit(&file->fd, &expected, fd, memory_order_relaxed,
                                                memory_order_relaxed))
        return fd;
    if (fd >= 0)
        close(fd); /* another thread was first */
    return expected;
}

int remote_file_is_short(const struct window *window, int rank)
{
    const struct storage_window *storage = window->provider_data;
    const struct storage_region *region = &storage->remote_parts[rank].region;
    int owner = owner_of_file(storage, rank);
    const struct remote_file *file = &storage->remote_files[owner];
    char path[REMOTE_PATH];
    struct stat status;
    return region->length && file->remote_fd >= 0 &&
           stat(path_of_remote_fd(path, window->group, owner, file->remote_fd), &status) == 0 &&
           is_remote_file(file, &status) &&
           storage_status_is_short(&status, region->file_offset + region->length);
}

/* Copies to windows with versions are stores, because only stores are tracked. */
void storage_bulk_copy(struct window *window, int rank, int is_put, char *part, char *own,
                       size_t size)
{
    struct storage_window *storage = window->provider_data;
    struct storage_region *region =
        rank == storage->rank ? &storage->own.region : &storage->remote_parts[rank].region;
    int is_inside =
        region->length && part >= region->base && part + size <= region->base + region->length;
    if (!is_inside || storage->versions_kept)
        onespace_copy(is_put ? part : own, is_put ? own : part, size);
    else if (is_put)
        storage_region_store(region, remote_file_descriptor(window, rank),
                             (uint64_t)(part - region->base), own, size);
    else
        storage_region_load(region, remote_file_descriptor(window, rank),
                            (uint64_t)(part - region->base), own, size);
}

/* ---- Mapping ---- */

/* In one space the addresses are the owners' own, and a hold keeps their memory. Processes of one
 * node open one another's descriptors (/proc/PID/fd), which needs neither a name nor a directory,
 * and map the same files and the same shared memory; what they share about the window (struct
 * rma_shared) is memory of their lowest rank. Where a process cannot, and between nodes, MPI serves
 * the window (rma/intra_node.c). */

/* A rank's description of its part, for the other ranks. */
struct part_record {
    int32_t error;                 /* an error class */
    int32_t file, memory, control; /* descriptors of its process; -1: none */
    int32_t storage_first, is_copy;
    uint32_t style; /* enum storage_style */
    uint64_t file_offset, storage_length, memory_length;
    uint64_t base;
};
_Static_assert(sizeof(struct part_record) <= AGREEMENT_RECORD_MAX, "a record");

/* ---- The parts ---- */

static struct storage_layout layout_of(const struct part_record *record)
{
    return (struct storage_layout){record->file_offset, record->storage_length,
                                   record->memory_length, record->storage_first};
}

static uint64_t base_of_storage(const struct part_record *record)
{
    return record->base + (record->storage_first ? 0 : record->memory_length);
}

static int view_remote_part(struct storage_part *part, const struct part_record *record,
                            struct storage_error *error)
{
    part->base = (char *)record->base;
    part->layout = layout_of(record);
    part->region.is_copy = record->is_copy;
    return storage_region_view(&part->region, record->file_offset, record->storage_length,
                               (void *)base_of_storage(record), error);
}

static int map_remote_part(const struct window *window, int rank, struct storage_part *part,
                           const struct part_record *record, struct storage_error *error)
{
    int memory = open_remote_fd(window->group, rank, record->memory), result = 0;
    part->region.file.fd = open_remote_fd(window->group, rank, record->file);
    part->layout = layout_of(record);
    part->region.is_copy = record->is_copy;
    if ((record->storage_length && part->region.file.fd < 0) || (record->memory >= 0 && memory < 0))
        result = -errno;
    else
        result = storage_part_map(part, memory, record->style, error);
    if (part->region.file.fd >= 0)
        close(part->region.file.fd);
    if (memory >= 0)
        close(memory);
    part->region.file.fd = -1; /* the owner checks whether the file was truncated */
    return result;
}

/* Maps all of a contiguous window, in a process that named no file, from the lead rank's
 * descriptor.
 */
static int map_whole(struct window *window, const struct part_record *all,
                     struct storage_error *error)
{
    struct storage_window *storage = window->provider_data;
    const struct part_record *lead = &all[storage->lead_rank], *last = &all[storage->ranks - 1];
    struct storage_region *whole = &storage->whole_region;
    whole->file.fd = open_remote_fd(window->group, storage->lead_rank, lead->file);
    if (whole->file.fd < 0)
        return -errno;
    uint64_t end = last->file_offset + last->storage_length;
    int result = storage_region_map(whole, all[0].file_offset, end - all[0].file_offset, NULL,
                                    lead->style, error);
    close(whole->file.fd);
    whole->file.fd = -1; /* the owner checks whether the file was truncated */
    return result;
}

/* A part of a contiguous window, which this process or the space's lead rank has mapped as a whole.
 */
static int view_part(struct storage_window *storage, struct storage_part *part,
                     const struct part_record *all, int rank, struct storage_error *error)
{
    char *whole = storage->whole_region.base ? storage->whole_region.base
                                             : (char *)all[storage->lead_rank].base;
    part->base = whole + (all[rank].file_offset - all[0].file_offset);
    int result = storage_region_view(&part->region, all[rank].file_offset, all[rank].storage_length,
                                     part->base, error);
    part->layout = layout_of(&all[rank]);
    return result;
}

static int map_parts(struct window *window, const struct part_record *all,
                     struct storage_error *error)
{
    struct storage_window *storage = window->provider_data;
    const struct group *group = window->group;
    int result = 0;
    storage->remote_parts = calloc((size_t)group->ranks, sizeof(*storage->remote_parts));
    if (!storage->remote_parts || remote_files_init(storage) < 0)
        return -ENOMEM;
    for (int i = 0; i < group->ranks; i++)
        storage->remote_parts[i].region.file.fd = -1;
    for (; storage->hold_count < group->ranks; storage->hold_count++)
        if (group_in_space(group, storage->hold_count) &&
            (result = task_hold_acquire(group->members[storage->hold_count])) < 0)
            return result;
    if (storage->is_contiguous && !group->is_one_space && storage->own.region.file.fd < 0)
        result = map_whole(window, all, error);
    for (int i = 0; result == 0 && i < group->ranks; i++) {
        struct storage_part *part = i == group->rank ? &storage->own : &storage->remote_parts[i];
        if (!group_is_intra_node(group, i))
            continue;
        remote_file_set(window, i, all[i].file);
        if (storage->is_contiguous)
            result = view_part(storage, part, all, i, error);
        else if (i != group->rank && group_in_space(group, i))
            result = view_remote_part(part, &all[i], error);
        else if (i != group->rank)
            result = map_remote_part(window, i, part, &all[i], error);
        if (result == 0 && i != group->rank && all[i].is_copy &&
            remote_file_descriptor(window, i) < 0)
            result = -errno; /* MPI_Win_sync could not write what this rank puts there */
    }
    return result;
}

static void unmap_parts(struct window *window)
{
    struct storage_window *storage = window->provider_data;
    for (int i = 0; storage->remote_parts && i < storage->ranks; i++)
        storage_part_unmap(&storage->remote_parts[i]);
    free(storage->remote_parts);
    storage->remote_parts = NULL;
    remote_files_close(storage);
    free(window->bases);
    free(window->usage);
    window->bases = NULL;
    window->usage = NULL;
    /* These pointed to words shared with the other ranks. */
    storage->own.region.failed = &storage->own.region.failed_here;
    storage->whole_region.failed = &storage->whole_region.failed_here;
}

/* ---- Control memory: struct rma_shared and the dirty maps ---- */

static int lowest_rank_of_node(const struct group *group)
{
    int rank = 0;
    while (!group_is_intra_node(group, rank))
        rank++;
    return rank;
}

static size_t control_size(const struct group *group, const uint64_t *sizes)
{
    return rma_shared_size(group->ranks) + dirty_maps_size(sizes, group->ranks);
}

/* Called by the node's lowest rank. Returns the descriptor of the shared memory, or -1. */
static int make_control(const struct group *group, const uint64_t *sizes)
{
    int control = memfd_create("onespace-window", MFD_CLOEXEC);
    if (control >= 0 && !storage_size_is_forbidden(control_size(group, sizes)) &&
        ftruncate(control, (off_t)control_size(group, sizes)) == 0)
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
    if (group_is_one_node(window->group)) {
        window->rma_shared = shared;
        window->rma_shared_mapped = size;
    } else if (!(window->intra_node = intra_node_new(window->group, shared, size))) {
        munmap(shared, size);
        return -ENOMEM;
    }
    return dirty_maps_init(window->provider_data, sizes,
                           (char *)at + rma_shared_size(shared->ranks));
}

static void unmap_control(struct window *window)
{
    struct storage_window *storage = window->provider_data;
    free(storage->dirty_maps);
    storage->dirty_maps = NULL;
    if (window->rma_shared_mapped)
        munmap(window->rma_shared, window->rma_shared_mapped);
    intra_node_free(window->intra_node);
    window->rma_shared = NULL;
    window->rma_shared_mapped = 0;
    window->intra_node = NULL;
}

/* ---- Agreement ---- */

static struct part_record own_part_record(const struct window *window, int error, int control)
{
    const struct storage_window *storage = window->provider_data;
    const struct storage_layout *layout = &storage->own.layout;
    return (struct part_record){
        .error = error,
        .file = storage->own.region.file.fd,
        .memory = storage->memory,
        .control = control,
        .storage_first = layout->storage_first,
        .is_copy = storage->own.region.is_copy,
        .style = storage->hints.style,
        .file_offset = layout->file_offset,
        .storage_length = layout->storage_length,
        .memory_length = layout->memory_length,
        .base =
            (uintptr_t)(storage->is_contiguous ? storage->whole_region.base : storage->own.base),
    };
}

/* Publishes the parts' addresses in the window, when all are mapped. */
static int publish_bases(struct window *window)
{
    struct storage_window *storage = window->provider_data;
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
        struct storage_part *part = i == storage->rank ? &storage->own : &storage->remote_parts[i];
        window->bases[i] = part->base; /* NULL: on another node */
        part->region.failed = &shared->rank[i].failed;
    }
    storage->whole_region.failed = &shared->rank[0].failed;
    return 0;
}

/* Sets *are_mapped: whether all ranks of this node have mapped its parts; the same on all of them.
 */
static int map_all(struct window *window, const struct part_record *all, int *are_mapped,
                   const struct window_request *request, const uint64_t *sizes)
{
    const struct group *group = window->group;
    struct storage_error error = {""};
    int32_t result_here = all ? map_parts(window, all, &error) : -ENOMEM;
    if (result_here == 0 && !group->is_one_space) {
        int lowest = lowest_rank_of_node(group), owns_control = group->rank == lowest;
        int control = owns_control ? -1 : open_remote_fd(group, lowest, all[lowest].control);
        if (!owns_control)
            result_here = map_control(window, sizes, control);
        if (control >= 0)
            close(control);
    }
    if (result_here == 0)
        result_here = window->rma_shared || window->intra_node ? publish_bases(window) : -ENOMEM;
    if (result_here < 0 && error.text[0] && (request->is_shared || group->is_one_space))
        (void)storage_report(group->rank, request->call, result_here, &error);
    const void *answers;
    int result =
        agreement_allgather(request->agreement, &result_here, sizeof(result_here), &answers);
    *are_mapped = result == MPI_SUCCESS;
    for (int i = 0; *are_mapped && i < group->ranks; i++)
        *are_mapped = !group_is_intra_node(group, i) || ((const int32_t *)answers)[i] == 0;
    return result;
}

int storage_map_remote_parts(struct window *window, const struct window_request *request,
                             const uint64_t *sizes, int error)
{
    const struct group *group = window->group;
    int owns_control = !group->is_one_space && group->rank == lowest_rank_of_node(group);
    int control = owns_control ? make_control(group, sizes) : -1, are_mapped = 0;
    if (owns_control && control >= 0 && map_control(window, sizes, control) < 0)
        error = MPI_ERR_NO_MEM;
    struct part_record own_record = own_part_record(window, error, control);
    const void *gathered;
    struct part_record *all = calloc((size_t)group->ranks, sizeof(*all));
    int result =
        agreement_allgather(request->agreement, &own_record, sizeof(own_record), &gathered);
    for (int i = 0; result == MPI_SUCCESS && i < group->ranks; i++)
        result = ((const struct part_record *)gathered)[i].error;
    if (result == MPI_SUCCESS && (group_is_one_node(group) || !request->is_shared)) {
        if (all)
            memcpy(all, gathered, (size_t)group->ranks * sizeof(*all));
        result = map_all(window, all, &are_mapped, request, sizes);
    }
    if (control >= 0)
        close(control);
    free(all);
    if (result == MPI_SUCCESS && are_mapped)
        return result;
    unmap_parts(window);
    if (!group->is_one_space)
        unmap_control(window);
    if (result == MPI_SUCCESS && (request->is_shared || group->is_one_space)) {
        if (group->rank == 0)
            layer_message(0,
                          "%s: the ranks cannot reach one another's memory: they have to run on "
                          "one node, as one user",
                          request->call);
        return request->is_shared ? MPI_ERR_RMA_SHARED : MPI_ERR_OTHER;
    }
    window->base = ((struct storage_window *)window->provider_data)->own.base;
    return result;
}
