/* src/mpi/storage/create.c: all ranks create a window on storage together. */
#include "mpi/storage/storage_window.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/page.h"
#include "mpi/pmpi/message.h"

/* Linux 5.17 and later declare these. */
#ifndef SMB2_SUPER_MAGIC
#define SMB2_SUPER_MAGIC 0xfe534d42
#define CIFS_SUPER_MAGIC 0xff534d42
#endif

/* A rank's claim: the bytes of the file that its part lies on. */
struct storage_claim {
    int32_t error; /* an error class */
    unsigned char is_contiguous, is_memory, has_offset, is_cached_by_node;
    unsigned char needs_copy;     /* an RDMA device may write into the part */
    uint64_t device, inode, path; /* path: hash of the resolved path; 0: no file */
    uint64_t offset, length;      /* of the file */
    uint64_t available;           /* memory of the node */
};
_Static_assert(sizeof(struct storage_claim) <= AGREEMENT_RECORD_MAX, "a record");

/* ---- Claims ---- */

/* Invariant: every byte of a file is locked by exactly one rank of the job, the lowest one whose
 * part has it. */

static uint64_t hash_path(const char *path)
{
    char *real_path = realpath(path, NULL);
    uint64_t hash = hash_text(HASH_SEED, real_path ? real_path : path);
    free(real_path);
    return hash;
}

/* Whether each node keeps copies of the file's pages, and writes whole ones, without regard to the
 * other nodes' copies: NFS and SMB. */
static int is_cached_by_node(const struct storage_file *file)
{
    struct statfs about;
    if (fstatfs(file->fd, &about) != 0)
        return 0;
    unsigned type = (unsigned)about.f_type;
    return type == NFS_SUPER_MAGIC || type == SMB2_SUPER_MAGIC || type == CIFS_SUPER_MAGIC;
}

/* This rank's claim, once its file is open. error: an error class. */
static struct storage_claim own_claim(const struct storage_window *storage, int error)
{
    const struct storage_file *file = &storage->own.region.file;
    return (struct storage_claim){
        .error = error,
        .is_contiguous = storage->is_contiguous != 0,
        .is_memory = !storage->hints.is_storage,
        .has_offset = storage->hints.has_offset != 0,
        .is_cached_by_node = file->fd >= 0 && is_cached_by_node(file),
        .needs_copy = storage->has_device_writes && !group_is_one_node(storage->group) &&
                      !storage->is_contiguous && !file_can_be_pinned(storage, 0),
        .device = file->device,
        .inode = file->inode,
        .path = file->fd >= 0 ? hash_path(file->path) : 0,
        .offset = storage->own.layout.file_offset,
        .length = storage->own.layout.storage_length,
        .available = storage->has_device_writes ? storage_memory_available() / 10 * 9 : UINT64_MAX,
    };
}

/* Device numbers of one file system differ between nodes; its paths usually do not. */
static int is_same_file(const struct group *group, const struct storage_claim *all, int i, int j)
{
    int is_intra_node = group_is_intra_node(group, i) && group_is_intra_node(group, j);
    return all[i].path && all[j].path && all[i].inode == all[j].inode &&
           (is_intra_node ? all[i].device == all[j].device : all[i].path == all[j].path);
}

static int overlap(const struct storage_claim *a, const struct storage_claim *b)
{
    return a->length && b->length && a->offset < b->offset + b->length &&
           b->offset < a->offset + a->length;
}

/* Locks [from, to) of this rank's file, except the ranges of lower ranks from `lower` on. */
static int lock_rest(struct storage_window *storage, const struct group *group,
                     const struct storage_claim *all, int lower, uint64_t from, uint64_t to,
                     struct storage_error *error)
{
    int result = 0;
    for (; lower < storage->rank && from < to; lower++) {
        uint64_t begin = all[lower].offset, end = begin + all[lower].length;
        if (!is_same_file(group, all, lower, storage->rank) || end <= from || begin >= to)
            continue;
        if (begin > from)
            result = lock_rest(storage, group, all, lower + 1, from, begin, error);
        if (result < 0)
            return result;
        from = end;
    }
    return from < to ? storage_file_lock(&storage->own.region.file,
                                         (struct storage_range){from, to - from}, 0, error)
                     : 0;
}

/* The lowest rank with a file; 0 when there is none. */
static int lowest_rank_with_file(const struct group *group, const struct storage_claim *all)
{
    for (int i = 0; i < group->ranks; i++)
        if (all[i].path)
            return i;
    return 0;
}

/* The parts of a contiguous window follow one another in one file, so a rank without a file must
 * have an empty part. It follows the other ranks' layout. */
static int check_contiguous(const struct group *group, const uint64_t *sizes,
                            const struct storage_claim *all, int lead, struct storage_error *error)
{
    for (int i = 0; i < group->ranks; i++) {
        int is_file_needed = all[i].is_contiguous || all[lead].is_contiguous;
        if (!all[i].path && sizes[i] == 0)
            continue;
        if (!all[i].path && is_file_needed)
            return storage_fail(
                error, -EINVAL,
                "rank %d asks for memory in a shared window that is on storage: its parts follow "
                "one another in one file; set alloc_shared_noncontig to true on all ranks, or "
                "give that rank the same file or a size of 0",
                i);
        if (all[i].is_contiguous != all[lead].is_contiguous ||
            (is_file_needed &&
             (!is_same_file(group, all, i, lead) || all[i].offset != all[lead].offset)))
            return storage_fail(
                error, -EINVAL,
                "rank %d names another file, offset or kind of layout than rank %d: the parts of a "
                "shared window follow one another in one file; give all ranks the same "
                "storage_alloc_filename and storage_alloc_offset, or set alloc_shared_noncontig to "
                "true",
                i, lead);
    }
    return 0;
}

static void find_overlaps(struct storage_window *storage, const struct group *group,
                          const struct storage_claim *all)
{
    storage->is_node_leader = 1;
    for (int i = 0; i < group->ranks; i++) {
        storage->has_memory_ranks |= all[i].is_memory;
        if (i < storage->rank && group_is_intra_node(group, i) &&
            is_same_file(group, all, i, storage->rank))
            storage->is_node_leader = 0;
        for (int j = 0; j < i; j++)
            storage->overlaps |= is_same_file(group, all, i, j) && overlap(&all[i], &all[j]);
    }
}

/* Ranks that share bytes on purpose set the offset. A rank that set none may have forgotten that
 * all parts begin at the same byte: the first rank of such a pair prints a warning, once in its
 * process.
 */
static void warn_of_overlap(const struct storage_window *storage, const struct group *group,
                            const struct storage_claim *all, const char *call)
{
    static _Atomic int has_warned; /* any thread that creates a window sets it, relaxed */
    for (int i = 0; i < group->ranks; i++)
        for (int j = i + 1; j < group->ranks; j++) {
            if ((all[i].has_offset && all[j].has_offset) || !is_same_file(group, all, i, j) ||
                !overlap(&all[i], &all[j]))
                continue;
            if (i == storage->rank &&
                !atomic_exchange_explicit(&has_warned, 1, memory_order_relaxed))
                layer_message(i,
                              "%s: ranks %d and %d have the same bytes of %s, so what one stores "
                              "replaces what the other stored: give each rank a file or a "
                              "storage_alloc_offset of its own; ranks that are to share bytes set "
                              "storage_alloc_offset, also to 0",
                              call, i, j, storage->hints.filename);
            return;
        }
}

/* The first rank of a pair on two nodes whose parts have bytes of one folio prints a warning, once
 * in its process. Since Linux 6.11 NFS has folios of up to 2 MiB, and writes whole ones. */
static void warn_of_common_folio(const struct storage_window *storage, const struct group *group,
                                 const struct storage_claim *all, const char *call)
{
    static _Atomic int has_warned; /* any thread that creates a window sets it, relaxed */
    const uint64_t folio = storage_folio_max();
    struct storage_claim own = all[storage->rank];
    if (!own.path || !own.length)
        return;
    own.length = round_up(own.offset % folio + own.length, folio);
    own.offset -= own.offset % folio;
    for (int i = storage->rank + 1; i < group->ranks; i++) {
        if (group_is_intra_node(group, i) || !is_same_file(group, all, storage->rank, i) ||
            !overlap(&own, &all[i]) || !(own.is_cached_by_node || all[i].is_cached_by_node))
            continue;
        if (!atomic_exchange_explicit(&has_warned, 1, memory_order_relaxed))
            layer_message(storage->rank,
                          "%s: ranks %d and %d, on two nodes, have bytes of the same %llu KiB of "
                          "%s, whose file system may keep a copy of them on each node and write "
                          "all of it: the copy that is written later replaces the other's bytes; "
                          "begin the parts of each node at a multiple of %llu bytes, or give each "
                          "rank a file",
                          call, storage->rank, i, (unsigned long long)folio >> 10,
                          storage->hints.filename, (unsigned long long)folio);
        return;
    }
}

/* Once in a process. Where a part is mapped, a library that cannot give it to an RDMA device may
 * fail to create the window. needed: 0 if the part has common bytes. */
static void warn_of_mapped_part(const struct storage_window *storage, uint64_t needed,
                                uint64_t available, const char *call)
{
    static _Atomic int has_warned; /* any thread that creates a window sets it, relaxed */
    if (!kernel_refuses_pinned_files() ||
        atomic_exchange_explicit(&has_warned, 1, memory_order_relaxed))
        return;
    if (!needed)
        layer_message(storage->rank,
                      "%s: Linux lets no RDMA device write into a mapped file, and a part whose "
                      "bytes of the file are another rank's, too, cannot be a copy in memory: the "
                      "MPI library may fail to create the window; give each rank its own bytes, or "
                      "have the library use TCP",
                      call);
    else
        layer_message(storage->rank,
                      "%s: Linux lets no RDMA device write into a mapped file, and the parts of "
                      "this node cannot be copies in memory: the window takes %llu MiB here, and "
                      "there is room for %llu MiB: the MPI library may fail to create the window; "
                      "use more nodes, or have the library use TCP",
                      call, (unsigned long long)needed >> 20, (unsigned long long)available >> 20);
}

/* File systems may lose what RDMA devices write into pages of files. So this rank's part is a copy
 * in memory if a device may write into it; the device needs all of it in memory anyway. It is
 * mapped if another rank's part has bytes of it, or if this node's memory is too small for the
 * window. */
static int is_copied(const struct storage_window *storage, const struct group *group,
                     const uint64_t *sizes, const struct storage_claim *all, const char *call)
{
    uint64_t needed = 0, available = UINT64_MAX;
    int first = -1, lowest = storage->rank, has_common_bytes = 0;
    for (int i = 0; i < group->ranks; i++) {
        if (i != storage->rank && is_same_file(group, all, i, storage->rank) &&
            overlap(&all[i], &all[storage->rank])) {
            has_common_bytes = 1;
            lowest = i < lowest ? i : lowest;
        }
        if (!group_is_intra_node(group, i))
            continue;
        needed += sizes[i]; /* the parts in memory, too */
        first = first < 0 && all[i].needs_copy ? i : first;
        available = all[i].available < available ? all[i].available : available;
    }
    if (!all[storage->rank].needs_copy)
        return 0;
    if (has_common_bytes && lowest == storage->rank)
        warn_of_mapped_part(storage, 0, 0, call);
    else if (needed > available && first == storage->rank)
        warn_of_mapped_part(storage, needed, available, call);
    return !has_common_bytes && needed <= available;
}

/* In a contiguous window the parts follow one another, beginning at the offset. */
static void compute_offsets(const struct group *group, const uint64_t *sizes, int lead,
                            struct storage_claim *all)
{
    uint64_t offset = all[lead].offset;
    for (int i = 0; i < group->ranks && all[lead].is_contiguous; i++) {
        all[i].offset = offset;
        all[i].length = sizes[i];
        offset += sizes[i];
    }
}

/* Maps the rank's own part. A contiguous window is mapped as a whole: in a space by the lead rank
 * for all, otherwise by every process for itself; a process without a file does it in
 * remote_parts.c. */
static int map_own(struct storage_window *storage, const struct group *group,
                   const struct storage_claim *all, struct storage_error *error)
{
    int last = group->ranks - 1;
    const struct storage_layout *layout = &storage->own.layout;
    if (!storage->is_contiguous) {
        uint64_t memory = storage_page_up(layout->memory_length);
        if (storage->own.region.is_copy)
            memory +=
                storage_page_up(layout->file_offset % storage_page_size() + layout->storage_length);
        if (storage->own.region.is_copy &&
            storage_size_is_forbidden(layout->file_offset + layout->storage_length))
            return storage_fail(error, -EFBIG,
                                "%s: the limit on the size of files (ulimit -f) is too small to "
                                "write this part: raise it",
                                storage->hints.filename);
        int is_shared = memory && (!group->is_one_space || task_is_guarded());
        if (is_shared && storage_size_is_forbidden(memory))
            return storage_fail(error, -EFBIG,
                                "cannot make %llu bytes of shared memory: raise the limit on the "
                                "size of files (ulimit -f)",
                                (unsigned long long)memory);
        if (is_shared && ((storage->memory = memfd_create("onespace-window", MFD_CLOEXEC)) < 0 ||
                          ftruncate(storage->memory, (off_t)memory) < 0))
            return storage_fail(error, -errno, "cannot make shared memory: %s", strerror(errno));
        int result = storage_part_map(&storage->own, storage->memory, storage->hints.style, error);
        if (result == 0 && storage->own.region.is_copy)
            result = storage_region_read(&storage->own.region, error);
        return result;
    }
    if (storage->own.region.file.fd < 0 ||
        (group->is_one_space && storage->rank != storage->lead_rank))
        return 0;
    storage->whole_region.file = storage->own.region.file; /* borrowed */
    return storage_region_map(&storage->whole_region, all[0].offset,
                              all[last].offset + all[last].length - all[0].offset, NULL,
                              storage->hints.style, error);
}

/* Given all ranks' claims and the sizes of their parts, locks, reserves and maps this rank's part.
 * In a contiguous window it sets offsets and lengths in `all`. call: the MPI function, for
 * messages. 0 or -errno. */
static int claim_part(struct storage_window *storage, const struct group *group,
                      const uint64_t *sizes, struct storage_claim *all, const char *call,
                      struct storage_error *error)
{
    struct storage_file *file = &storage->own.region.file;
    storage->lead_rank = lowest_rank_with_file(group, all);
    int result = check_contiguous(group, sizes, all, storage->lead_rank, error);
    if (result < 0)
        return result;
    storage->is_contiguous = all[storage->lead_rank].is_contiguous;
    compute_offsets(group, sizes, storage->lead_rank, all);
    find_overlaps(storage, group, all);
    if (storage->overlaps)
        warn_of_overlap(storage, group, all, call);
    warn_of_common_folio(storage, group, all, call);
    struct storage_claim *claim = &all[storage->rank];
    storage->own.layout.file_offset = claim->offset;
    storage->own.layout.storage_length = claim->length;
    result = lock_rest(storage, group, all, 0, claim->offset, claim->offset + claim->length, error);
    if (result == 0)
        result =
            storage_file_reserve(file, (struct storage_range){claim->offset, claim->length}, error);
    storage->own.region.is_copy = is_copied(storage, group, sizes, all, call);
    if (result == 0)
        result = map_own(storage, group, all, error);
    return result;
}

/* ---- Creation ---- */

/* A rank that fails still takes part in every allgather, so that no rank waits for it. The first
 * error of all ranks is the result.
 *
 *   open     every rank opens its file                                          allgather
 *   claim    locks, space, mappings, when all ranks have opened their files      allgather
 *   map      the other ranks' parts at addresses of this process                 allgather
 *   restore  the newest version into the window, if it has versions */

/* ---- Open ---- */

/* "auto", as the paper defines it: the part that does not fit into memory is on storage. The ranks
 * of this node that have "auto" share the free memory, minus the other ranks' memory and a tenth.
 */
static double auto_factor(const struct group *group, const struct window_proposal *proposals)
{
    uint64_t wanted = 0, available = storage_memory_available() / 10 * 9;
    for (int i = 0; i < group->ranks; i++) {
        uint64_t memory = proposals[i].memory;
        if (!group_is_intra_node(group, i))
            continue;
        if (memory == WINDOW_MEMORY_FITS)
            wanted += proposals[i].size;
        else
            available -= memory < available ? memory : available;
    }
    return wanted <= available ? 0 : 1 - (double)available / (double)wanted;
}

static int is_noncontig(MPI_Info info)
{
    char value[MPI_MAX_INFO_VAL];
    int found = 0;
    return info != MPI_INFO_NULL &&
           pmpi()->Info_get(info, (char *)"alloc_shared_noncontig", MPI_MAX_INFO_VAL - 1, value,
                            &found) == MPI_SUCCESS &&
           found && strcmp(value, "true") == 0;
}

static int divide_part(struct storage_window *storage, const struct window_request *request,
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
        result = divide_part(storage, request, error);
    if (result == 0 && (storage->own.layout.storage_length || storage->is_contiguous))
        result = storage_file_open(&storage->own.region.file, &storage->hints, error);
    storage->has_device_writes = device_writes_are_possible(storage);
    return result;
}

/* ---- All steps ---- */

/* The last byte that the window's ranks reserve in this rank's file. */
static uint64_t end_of_claims(const struct group *group, const struct storage_claim *all)
{
    uint64_t end = 0;
    for (int i = 0; i < group->ranks; i++)
        if (is_same_file(group, all, i, group->rank) && all[i].offset + all[i].length > end)
            end = all[i].offset + all[i].length;
    return end;
}

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
    storage->own.region.file.fd = storage->whole_region.file.fd = storage->memory = -1;
    storage->rank = window->group->rank;
    storage->ranks = window->group->ranks;
    storage->group = window->group;
    pthread_mutex_init(&storage->mutex, NULL);
    pthread_mutex_init(&storage->flushing, NULL);
    storage->counts = calloc(1, sizeof(*storage->counts));
    (void)agreement_comm_init(&storage->all_ranks, storage->group, storage->rank, storage->ranks);
    window->provider_data = storage;
    return storage;
}

int storage_create(struct window *window, const struct window_request *request)
{
    struct group *group = window->group;
    struct storage_error error = {""};
    struct storage_window *storage = new_storage(window);
    uint64_t *sizes = calloc((size_t)group->ranks, sizeof(*sizes));
    struct storage_claim *claims = calloc((size_t)group->ranks, sizeof(*claims));
    int result =
        storage && storage->counts && storage->all_ranks.words && sizes && claims ? 0 : -ENOMEM;
    for (int i = 0; result == 0 && i < group->ranks; i++)
        sizes[i] = request->proposals[i].size;
    if (result == 0)
        result = open_file(storage, request, &error);
    int class = storage_report(group->rank, request->call, result, &error);
    struct storage_claim claim = {.error = class};
    if (result == 0)
        claim = own_claim(storage, class);
    const void *all = NULL;
    int outcome = agreement_allgather(request->agreement, &claim, sizeof(claim), &all);
    if (outcome == MPI_SUCCESS)
        outcome = first_error(all, group->ranks);
    if (outcome == MPI_SUCCESS) {
        /* An allgather that succeeds sets it.
         * NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
        memcpy(claims, all, (size_t)group->ranks * sizeof(*claims));
        result = claim_part(storage, group, sizes, claims, request->call, &error);
        class = storage_report(group->rank, request->call, result, &error);
        outcome = storage_map_remote_parts(window, request, sizes, class);
    }
    free(sizes);
    if (outcome == MPI_SUCCESS)
        outcome = pmpi()->Comm_dup(request->comm, &storage->all_ranks.comm);
    if (outcome == MPI_SUCCESS)
        outcome = pmpi()->Comm_set_errhandler(storage->all_ranks.comm, MPI_ERRORS_RETURN);
    if (outcome == MPI_SUCCESS)
        outcome = storage_versions_open(window, request->call);
    if (outcome != MPI_SUCCESS && storage) {
        storage_file_revert(&storage->own.region.file, claims ? end_of_claims(group, claims) : 0);
        storage_destroy(window);
    }
    free(claims);
    return outcome;
}

void storage_destroy(struct window *window)
{
    struct storage_window *storage = window->provider_data;
    storage_versions_close(storage);
    remote_files_close(storage);
    for (int i = 0; storage->remote_parts && i < storage->ranks; i++)
        storage_part_unmap(&storage->remote_parts[i]);
    for (int i = 0; i < storage->hold_count; i++)
        if (group_in_space(window->group, i))
            task_hold_release(window->group->members[i]);
    struct storage_file file = storage->own.region.file;
    storage_part_unmap(&storage->own);
    storage_region_unmap(&storage->whole_region);
    storage_file_close(&file);
    if (storage->memory >= 0)
        close(storage->memory);
    agreement_comm_free(&storage->versioned_ranks);
    agreement_comm_free(&storage->all_ranks);
    storage_hints_clear(&storage->hints);
    pthread_mutex_destroy(&storage->mutex);
    pthread_mutex_destroy(&storage->flushing);
    free(storage->remote_parts);
    free(storage->dirty_maps);
    free(storage->counts);
    free(storage);
    window->provider_data = NULL;
}
