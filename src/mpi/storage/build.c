/* src/mpi/storage/build.c: all ranks create a window on storage together.
 *
 * A rank that fails still takes part in every gather, so that no rank waits for it; the first error
 * of all ranks is the window's.
 *
 *   open     every rank opens its file                                               gather
 *   claim    locks, space, mappings: once no rank can still be opening               gather
 *   reach    the other ranks' parts at addresses of this rank                        gather
 *   version  the newest one into the window, if it has versions */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/group/hold.h"
#include "mpi/storage/claim.h"
#include "mpi/storage/versions.h"

/* ---- Open ---- */

/* "auto", as the paper defines it: the part that does not fit into memory is on storage. All ranks
 * of this node that have "auto" share what is free, and what the others' memory leaves of it; a
 * tenth stays free. */
static double auto_factor(const struct group *group, const struct window_proposal *proposals)
{
    uint64_t wanted = 0, room = storage_memory_available() / 10 * 9;
    for (int i = 0; i < group->ranks; i++) {
        uint64_t memory = proposals[i].memory;
        if (!group_is_intra_node(group, i))
            continue;
        if (memory == WINDOW_MEMORY_FITS)
            wanted += proposals[i].size;
        else
            room -= memory < room ? memory : room;
    }
    return wanted <= room ? 0 : 1 - (double)room / (double)wanted;
}

static int is_noncontig(MPI_Info info)
{
    char value[MPI_MAX_INFO_VAL];
    int found = 0;
    return info != MPI_INFO_NULL &&
           real()->Info_get(info, (char *)"alloc_shared_noncontig", MPI_MAX_INFO_VAL - 1, value,
                            &found) == MPI_SUCCESS &&
           found && strcmp(value, "true") == 0;
}

static int divide(struct storage_window *storage, const struct window_request *request,
                  struct storage_error *error)
{
    struct storage_hints *hints = &storage->hints;
    if (storage->is_contiguous && hints->factor != 1)
        return storage_fail(
            error, -EINVAL,
            "the hint storage_alloc_factor has a value other than 1: the parts of a "
            "shared window are one piece of one file; set alloc_shared_noncontig to "
            "true, or the factor to 1");
    if (hints->offset + request->size > INT64_MAX)
        return storage_fail(
            error, -EINVAL,
            "the hint storage_alloc_offset has the value \"%llu\": with a window of "
            "%zu bytes that is more than a file has",
            (unsigned long long)hints->offset, request->size);
    double factor = hints->factor == STORAGE_FACTOR_AUTO
                        ? auto_factor(request->agreement->group, request->proposals)
                        : hints->factor;
    return storage_layout_divide(&storage->own.layout, hints, factor, request->size, error);
}

static int open_file(struct storage_window *storage, const struct window_request *request,
                     struct storage_error *error)
{
    int result = storage_info_read(&storage->hints, request->info, error);
    storage->is_contiguous = request->is_shared && !is_noncontig(request->info);
    if (result == 0 && !storage->hints.is_storage) {
        storage->own.layout.memory_length = request->size;
        return 0;
    }
    if (result == 0)
        result = divide(storage, request, error);
    if (result == 0 && (storage->own.layout.storage_length || storage->is_contiguous))
        result = storage_file_open(&storage->own.region.file, &storage->hints, error);
    return result;
}

/* ---- All ---- */

static int first_error(const struct storage_claim *all, int ranks)
{
    for (int i = 0; i < ranks; i++)
        if (all[i].error != MPI_SUCCESS)
            return all[i].error;
    return MPI_SUCCESS;
}

static struct storage_window *new_storage(struct window *window)
{
    struct storage_window *storage = calloc(1, sizeof(*storage));
    if (!storage)
        return NULL;
    storage->own.region.file.fd = storage->whole.file.fd = storage->memory = -1;
    storage->rank = window->group->rank;
    storage->ranks = window->group->ranks;
    storage->group = window->group;
    pthread_mutex_init(&storage->mutex, NULL);
    storage->counts = calloc(1, sizeof(*storage->counts));
    (void)storage_ranks_begin(&storage->all, storage->group, storage->rank, storage->ranks);
    window->memory = storage;
    return storage;
}

int storage_build(struct window *window, const struct window_request *request)
{
    struct group *group = window->group;
    struct storage_error error = {""};
    struct storage_window *storage = new_storage(window);
    uint64_t *sizes = calloc((size_t)group->ranks, sizeof(*sizes));
    struct storage_claim *claims = calloc((size_t)group->ranks, sizeof(*claims));
    int result = storage && storage->counts && storage->all.words && sizes && claims ? 0 : -ENOMEM;
    for (int i = 0; result == 0 && i < group->ranks; i++)
        sizes[i] = request->proposals[i].size;
    if (result == 0)
        result = open_file(storage, request, &error);
    int class = storage_report(group->rank, request->call, result, &error);
    struct storage_claim mine = {.error = class};
    if (result == 0)
        mine = storage_claim_of(storage, class);
    const void *all = NULL;
    int outcome = agreement_gather(request->agreement, &mine, sizeof(mine), &all);
    if (outcome == MPI_SUCCESS)
        outcome = first_error(all, group->ranks);
    if (outcome == MPI_SUCCESS) {
        /* A gathering that succeeds sets it.
         * NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
        memcpy(claims, all, (size_t)group->ranks * sizeof(*claims));
        result = storage_claim(storage, group, sizes, claims, request->call, &error);
        class = storage_report(group->rank, request->call, result, &error);
        outcome = storage_reach(window, request, sizes, class);
    }
    free(sizes);
    free(claims);
    if (outcome == MPI_SUCCESS)
        outcome = real()->Comm_dup(request->comm, &storage->all.comm);
    if (outcome == MPI_SUCCESS) /* whose errors are returned, not fatal */
        outcome = real()->Comm_set_errhandler(storage->all.comm, MPI_ERRORS_RETURN);
    if (outcome == MPI_SUCCESS)
        outcome = storage_versions_open(window, request->call);
    if (outcome != MPI_SUCCESS && storage) {
        storage_file_revert(&storage->own.region.file);
        storage_dismantle(window);
    }
    return outcome;
}

void storage_dismantle(struct window *window)
{
    struct storage_window *storage = window->memory;
    storage_versions_close(storage);
    storage_descriptors_close(storage);
    for (int i = 0; storage->others && i < storage->ranks; i++)
        storage_part_unmap(&storage->others[i]);
    for (int i = 0; i < storage->holds; i++)
        if (group_in_space(window->group, i))
            hold_release(window->group->members[i]);
    struct storage_file file = storage->own.region.file;
    storage_part_unmap(&storage->own);
    storage_region_unmap(&storage->whole);
    storage_file_close(&file);
    if (storage->memory >= 0)
        close(storage->memory);
    storage_ranks_end(&storage->versioned);
    storage_ranks_end(&storage->all);
    storage_hints_clear(&storage->hints);
    pthread_mutex_destroy(&storage->mutex);
    free(storage->others);
    free(storage->written);
    free(storage->counts);
    free(storage);
    window->memory = NULL;
}
