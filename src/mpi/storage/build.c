/* src/mpi/storage/build.c: all ranks make a window on storage together.
 *
 * A rank that fails goes on gathering, so that nobody waits for it; the first error of all ranks is
 * the window's.
 *
 *   open     every rank its file                                                     gather
 *   claim    locks, space, mappings: when nobody can still be opening                gather
 *   reach    the other ranks' parts at addresses of this rank                        gather
 *   version  the newest one into the window, if it has versions
 *
 * Every byte of a file is locked by one rank of the job: the lowest that has it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/rma/direct.h"
#include "mpi/group/hold.h"
#include "mpi/storage/versions.h"

/* What a rank tells the others of its file. */
struct claim {
    int32_t error; /* an error class */
    int32_t is_contiguous;
    uint64_t device, inode, path; /* path: hash of the real one */
    uint64_t offset, length;      /* of the file */
};
_Static_assert(sizeof(struct claim) <= MEETING_RECORD_MAX, "a record");

static uint64_t hash_path(const char *path)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char *real_path = realpath(path, NULL);
    for (const char *at = real_path ? real_path : path; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    free(real_path);
    return hash;
}

/* ---- Open ---- */

/* The part that does not fit into memory, as the paper has it for "auto": all ranks of this node
 * that make the window share what is free; a tenth stays free. */
static double auto_factor(const struct party *party, const struct window_wish *wishes)
{
    uint64_t wanted = 0, room = storage_memory_available() / 10 * 9;
    for (int i = 0; i < party->ranks; i++)
        if (party_is_near(party, i))
            wanted += wishes[i].size;
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
                        ? auto_factor(request->meeting->party, request->wishes)
                        : hints->factor;
    return storage_layout_divide(&storage->own.layout, hints, factor, request->size, error);
}

static int open_file(struct storage_window *storage, const struct window_request *request,
                     struct storage_error *error)
{
    int result = storage_info_read(&storage->hints, request->info, error);
    storage->is_contiguous = request->is_shared && !is_noncontig(request->info);
    if (result == 0)
        result = divide(storage, request, error);
    if (result == 0 && (storage->own.layout.storage_length || storage->is_contiguous))
        result = storage_file_open(&storage->own.region.file, &storage->hints, error);
    return result;
}

static struct claim claim_of(const struct storage_window *storage, int error)
{
    const struct storage_file *file = &storage->own.region.file;
    return (struct claim){
        .error = error,
        .is_contiguous = storage->is_contiguous,
        .device = file->device,
        .inode = file->inode,
        .path = file->fd >= 0 ? hash_path(file->path) : 0,
        .offset = storage->own.layout.file_offset,
        .length = storage->own.layout.storage_length,
    };
}

/* ---- Claim ---- */

/* Device numbers of one file system differ between nodes, its names usually do not. */
static int is_same_file(const struct party *party, const struct claim *all, int i, int j)
{
    int near = party_is_near(party, i) && party_is_near(party, j);
    return all[i].path && all[j].path && all[i].inode == all[j].inode &&
           (near ? all[i].device == all[j].device : all[i].path == all[j].path);
}

static int overlap(const struct claim *one, const struct claim *other)
{
    return one->length && other->length && one->offset < other->offset + other->length &&
           other->offset < one->offset + one->length;
}

/* Locks [from, to) of this rank's file but for what ranks from `lower` on up to this one have. */
static int lock_rest(struct storage_window *storage, const struct party *party,
                     const struct claim *all, int lower, uint64_t from, uint64_t to,
                     struct storage_error *error)
{
    int result = 0;
    for (; lower < storage->rank && from < to; lower++) {
        uint64_t begin = all[lower].offset, end = begin + all[lower].length;
        if (!is_same_file(party, all, lower, storage->rank) || end <= from || begin >= to)
            continue;
        if (begin > from)
            result = lock_rest(storage, party, all, lower + 1, from, begin, error);
        if (result < 0)
            return result;
        from = end;
    }
    return from < to ? storage_file_lock(&storage->own.region.file,
                                         (struct storage_range){from, to - from}, 0, error)
                     : 0;
}

static int check_contiguous(const struct party *party, const struct claim *all,
                            struct storage_error *error)
{
    for (int i = 1; i < party->ranks; i++)
        if (all[i].is_contiguous != all[0].is_contiguous ||
            (all[0].is_contiguous &&
             (!is_same_file(party, all, i, 0) || all[i].offset != all[0].offset)))
            return storage_fail(
                error, -EINVAL,
                "rank %d names another file, offset or kind of layout than rank 0: the parts of a "
                "shared window follow one another in one file; give all ranks the same "
                "storage_alloc_filename and storage_alloc_offset, or set alloc_shared_noncontig to "
                "true",
                i);
    return 0;
}

static void look_around(struct storage_window *storage, const struct party *party,
                        const struct claim *all)
{
    storage->is_leader = 1;
    for (int i = 0; i < party->ranks; i++) {
        if (i < storage->rank && party_is_near(party, i) &&
            is_same_file(party, all, i, storage->rank))
            storage->is_leader = 0;
        for (int j = 0; j < i; j++)
            storage->overlaps |= is_same_file(party, all, i, j) && overlap(&all[i], &all[j]);
    }
}

/* In a contiguous window the parts follow one another from the offset on. */
static void place_parts(const struct party *party, const uint64_t *sizes, struct claim *all)
{
    uint64_t offset = all[0].offset;
    for (int i = 0; i < party->ranks && all[0].is_contiguous; i++) {
        all[i].offset = offset;
        all[i].length = sizes[i];
        offset += sizes[i];
    }
}

/* Of the rank's own part; the whole of a contiguous window is mapped by rank 0 of a space for all,
 * and by every process for itself. */
static int map_own(struct storage_window *storage, const struct party *party,
                   const struct claim *all, struct storage_error *error)
{
    int last = party->ranks - 1;
    if (!storage->is_contiguous) {
        if (storage->own.layout.memory_length && !party->is_one_space &&
            ((storage->memory = memfd_create("onespace-window", MFD_CLOEXEC)) < 0 ||
             ftruncate(storage->memory, (off_t)storage->own.layout.memory_length) < 0))
            return storage_fail(error, -errno, "cannot make shared memory: %s", strerror(errno));
        return storage_part_map(&storage->own, storage->memory, storage->hints.style, error);
    }
    if (party->is_one_space && storage->rank != 0)
        return 0;
    storage->whole.file = storage->own.region.file; /* borrowed */
    return storage_region_map(&storage->whole, all[0].offset,
                              all[last].offset + all[last].length - all[0].offset, NULL,
                              storage->hints.style, error);
}

static int claim(struct storage_window *storage, const struct party *party, const uint64_t *sizes,
                 struct claim *all, struct storage_error *error)
{
    struct storage_file *file = &storage->own.region.file;
    int result = check_contiguous(party, all, error);
    if (result < 0)
        return result;
    place_parts(party, sizes, all);
    look_around(storage, party, all);
    struct claim *mine = &all[storage->rank];
    storage->own.layout.file_offset = mine->offset;
    storage->own.layout.storage_length = mine->length;
    result = lock_rest(storage, party, all, 0, mine->offset, mine->offset + mine->length, error);
    if (result == 0)
        result =
            storage_file_reserve(file, (struct storage_range){mine->offset, mine->length}, error);
    return result == 0 ? map_own(storage, party, all, error) : result;
}

/* ---- All ---- */

static int first_error(const struct claim *all, int ranks)
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
    storage->own.region.file.fd = storage->memory = -1;
    storage->rank = window->party->rank;
    storage->ranks = window->party->ranks;
    storage->party = window->party;
    storage->agreement = MPI_REQUEST_NULL;
    storage->comm = MPI_COMM_NULL;
    pthread_mutex_init(&storage->mutex, NULL);
    storage->counts = calloc(1, sizeof(*storage->counts));
    storage->words = storage_words_new(storage->ranks);
    window->memory = storage;
    return storage;
}

int storage_build(struct window *window, const struct window_request *request)
{
    struct party *party = window->party;
    struct storage_error error = {""};
    struct storage_window *storage = new_storage(window);
    uint64_t *sizes = calloc((size_t)party->ranks, sizeof(*sizes));
    struct claim *claims = calloc((size_t)party->ranks, sizeof(*claims));
    int result = storage && storage->counts && storage->words && sizes && claims ? 0 : -ENOMEM;
    for (int i = 0; result == 0 && i < party->ranks; i++)
        sizes[i] = request->wishes[i].size;
    if (result == 0)
        result = open_file(storage, request, &error);
    int class = storage_report(party->rank, request->call, result, &error);
    struct claim mine = {.error = class};
    if (result == 0)
        mine = claim_of(storage, class);
    const void *all = NULL;
    int outcome = meeting_gather(request->meeting, &mine, sizeof(mine), &all);
    if (outcome == MPI_SUCCESS)
        outcome = first_error(all, party->ranks);
    if (outcome == MPI_SUCCESS) {
        memcpy(claims, all, (size_t)party->ranks * sizeof(*claims));
        result = claim(storage, party, sizes, claims, &error);
        class = storage_report(party->rank, request->call, result, &error);
        outcome = storage_reach(window, request, class);
    }
    free(sizes);
    free(claims);
    if (outcome == MPI_SUCCESS)
        outcome = real()->Comm_dup(request->comm, &storage->comm);
    if (outcome == MPI_SUCCESS) /* whose errors are returned, not fatal */
        outcome = real()->Comm_set_errhandler(storage->comm, MPI_ERRORS_RETURN);
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
    storage_doors_close(storage);
    for (int i = 0; storage->others && i < storage->ranks; i++)
        storage_part_unmap(&storage->others[i]);
    for (int i = 0; i < storage->holds; i++)
        if (party_in_space(window->party, i))
            hold_give(window->party->members[i]);
    struct storage_file file = storage->own.region.file;
    storage_part_unmap(&storage->own);
    storage_region_unmap(&storage->whole);
    storage_file_close(&file);
    if (storage->memory >= 0)
        close(storage->memory);
    if (storage->comm != MPI_COMM_NULL)
        real()->Comm_free(&storage->comm);
    storage_hints_clear(&storage->hints);
    pthread_mutex_destroy(&storage->mutex);
    free(storage->others);
    free(storage->counts);
    free(storage->words);
    free(storage);
    window->memory = NULL;
}
