/* src/mpi/storage/provider.c: the provider of windows on files and block devices.
 *
 * The hint alloc_type=storage requests it; docs/storage.md describes all hints. */
#include "mpi/storage/storage_window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "mpi/pmpi/message.h"
#include "mpi/rma/rma.h"

/* ---- Hints ---- */

struct lookup {
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1];
};

static const char *look_up(void *context, const char *key)
{
    struct lookup *lookup = context;
    int found = 0;
    if (lookup->info == MPI_INFO_NULL ||
        pmpi()->Info_get(lookup->info, (char *)key, MPI_MAX_INFO_VAL, lookup->value, &found) !=
            MPI_SUCCESS ||
        !found)
        return NULL;
    return lookup->value;
}

int storage_info_read(struct storage_hints *hints, MPI_Info info, struct storage_error *error)
{
    struct lookup lookup = {.info = info};
    return storage_hints_read(hints, look_up, &lookup, error);
}

static int write_file_hints(const struct storage_window *storage, MPI_Info info)
{
    const struct storage_file *file = &storage->own.region.file;
    char text[MPI_MAX_INFO_VAL];
    int result = MPI_SUCCESS;
    if (file->fd < 0)
        return result;
    snprintf(text, sizeof(text), "%04o", (unsigned)file->mode & 0777);
    if (!file->is_device)
        result = pmpi()->Info_set(info, "file_perm", text);
    if (result == MPI_SUCCESS && file->striping_factor) {
        snprintf(text, sizeof(text), "%u", file->striping_factor);
        result = pmpi()->Info_set(info, "striping_factor", text);
    }
    if (result == MPI_SUCCESS && file->striping_unit) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)file->striping_unit);
        result = pmpi()->Info_set(info, "striping_unit", text);
    }
    return result;
}

int storage_info_write(const struct storage_window *storage, MPI_Info info)
{
    const struct storage_hints *hints = &storage->hints;
    const struct storage_layout *layout = &storage->own.layout;
    if (!hints->is_storage)
        return pmpi()->Info_set(info, (char *)"alloc_type", (char *)"memory");
    char offset[32], factor[32], versions[16], style[128];
    snprintf(offset, sizeof(offset), "%llu", (unsigned long long)layout->file_offset);
    snprintf(factor, sizeof(factor), "%.6g",
             storage_part_size(&storage->own)
                 ? (double)layout->storage_length / (double)storage_part_size(&storage->own)
                 : 1.0);
    snprintf(versions, sizeof(versions), "%u", hints->versions);
    storage_style_name(hints->style, style, sizeof(style));
    const struct {
        const char *key, *value;
    } pairs[] = {
        {"alloc_type", "storage"},
        {"storage_layer", "onespace"}, /* MPI libraries may return hints that they have ignored */
        {"storage_alloc_filename", hints->filename},
        {"storage_alloc_offset", offset},
        {"storage_alloc_factor", factor},
        {"storage_alloc_order", hints->storage_first ? "storage_first" : "memory_first"},
        {"storage_alloc_unlink", hints->unlink ? "true" : "false"},
        {"storage_alloc_discard", hints->discard ? "true" : "false"},
        {"storage_alloc_versions", versions},
        {"storage_alloc_tracking", hints->is_untracked ? "false" : "true"},
        {"access_style", style},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        int result = MPI_SUCCESS;
        if (pairs[i].value[0]) /* access_style may be empty */
            result = pmpi()->Info_set(info, (char *)pairs[i].key, (char *)pairs[i].value);
        if (result != MPI_SUCCESS)
            return result;
    }
    return write_file_hints(storage, info);
}

/* ---- Synchronisation in the background ---- */

/* One thread per request. It calls no MPI, so MPI_THREAD_MULTIPLE is not needed. */

static void *flush_thread(void *argument)
{
    struct onespace_window_request *request = argument;
    uint64_t began = futex_now_ns();
    request->result =
        storage_flush_own(request->storage, request->offset, request->length, &request->error);
    storage_counter_add(&request->storage->counts->sync_start, request->length, began,
                        request->result);
    atomic_store_explicit(&request->is_done, 1, memory_order_release);
    return NULL;
}

int storage_request_start(struct storage_window *storage, MPI_Win handle, uint64_t offset,
                          uint64_t length, struct onespace_window_request **made)
{
    struct onespace_window_request *request = calloc(1, sizeof(*request));
    if (!request)
        return -ENOMEM;
    request->storage = storage;
    request->handle = handle;
    request->offset = offset;
    request->length = length;
    int error = layer_thread_start(&request->thread, flush_thread, request);
    if (error) {
        free(request);
        return -error;
    }
    pthread_mutex_lock(&storage->mutex);
    request->next = storage->requests;
    storage->requests = request;
    pthread_mutex_unlock(&storage->mutex);
    *made = request;
    return 0;
}

void storage_request_wait(struct onespace_window_request *request)
{
    struct storage_window *storage = request->storage;
    pthread_join(request->thread, NULL);
    pthread_mutex_lock(&storage->mutex);
    struct onespace_window_request **at = &storage->requests;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    pthread_mutex_unlock(&storage->mutex);
}

void storage_requests_wait_all(struct storage_window *storage)
{
    while (storage->requests) { /* no other thread uses the window */
        struct onespace_window_request *request = storage->requests;
        /* The last one is off the list. */
        storage_request_wait(request); /* NOLINT(clang-analyzer-unix.Malloc) */
        free(request);
    }
}

/* ---- Errors ---- */

int storage_error_class(int result)
{
    static const struct {
        int number, class;
    } classes[] = {
        {0, MPI_SUCCESS},
        {EINVAL, MPI_ERR_INFO_VALUE},
        {ENOSPC, MPI_ERR_NO_SPACE},
        {EDQUOT, MPI_ERR_QUOTA},
        {ENOMEM, MPI_ERR_NO_MEM},
        {EACCES, MPI_ERR_ACCESS},
        {EPERM, MPI_ERR_ACCESS},
        {EROFS, MPI_ERR_READ_ONLY},
        {ENOENT, MPI_ERR_NO_SUCH_FILE},
        {EWOULDBLOCK, MPI_ERR_FILE_IN_USE},
        {EISDIR, MPI_ERR_BAD_FILE},
        {ENAMETOOLONG, MPI_ERR_BAD_FILE},
    };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (classes[i].number == -result)
            return classes[i].class;
    return MPI_ERR_IO;
}

int storage_report(int rank, const char *call, int result, const struct storage_error *error)
{
    if (result < 0)
        layer_message(rank, "%s: %s", call, error->text[0] ? error->text : strerror(-result));
    return storage_error_class(result < 0 ? result : 0);
}

struct storage_window *storage_window_of(MPI_Win handle)
{
    struct window *window = window_find(handle);
    return window && window->provider == &provider_storage ? window->provider_data : NULL;
}

/* ---- Counting ---- */

void storage_counter_add(struct storage_counter *count, uint64_t bytes, uint64_t since, int result)
{
    atomic_fetch_add_explicit(&count->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->nanoseconds, futex_now_ns() - since, memory_order_relaxed);
    if (result < 0)
        atomic_fetch_add_explicit(&count->failures, 1, memory_order_relaxed);
}

/* ---- The provider ---- */

/* As requested, before rounding to pages. A size that will be rejected counts as 0. */
static uint64_t memory_of(const struct storage_hints *hints, size_t size)
{
    if (hints->factor == STORAGE_FACTOR_AUTO)
        return WINDOW_MEMORY_FITS;
    return hints->factor >= 1 || (MPI_Aint)size < 0
               ? 0
               : size - (uint64_t)((double)size * hints->factor);
}

static int accepts(const struct window_request *request, uint64_t *memory, int *is_ours)
{
    struct storage_hints hints;
    struct storage_error error = {""};
    int result = storage_info_read(&hints, request->info, &error);
    *is_ours = hints.is_storage;
    if (result == 0 && hints.is_storage)
        *memory = memory_of(&hints, request->size);
    storage_hints_clear(&hints);
    return storage_report(request->agreement->group->rank, request->call, result, &error);
}

/* The memory part has nothing to flush. fd: see storage_region_flush. */
static int flush_part(struct storage_window *storage, struct storage_part *part, int fd,
                      uint64_t offset, uint64_t length, struct storage_error *error)
{
    const struct storage_layout *layout = &part->layout;
    uint64_t begin = layout->storage_first ? 0 : layout->memory_length, end = offset + length;
    uint64_t stop = begin + layout->storage_length;
    offset = offset < begin ? begin : offset;
    end = end > stop ? stop : end;
    if (offset >= end)
        return 0;
    const struct storage_range range = {offset - begin, end - offset};
    if (part == &storage->own && storage->has_device_writes && !part->region.is_copy)
        device_writes_mark_dirty(&part->region, range);
    return storage_region_flush(&part->region, fd, range, error);
}

int storage_flush_own(struct storage_window *storage, uint64_t offset, uint64_t length,
                      struct storage_error *error)
{
    return flush_part(storage, &storage->own, storage->own.region.file.fd, offset, length, error);
}

/* A program may compute the addresses of the parts of a shared window without a query. */
static int take_dirty(struct window *window, int rank)
{
    return window->flavor == MPI_WIN_FLAVOR_SHARED ||
           (window->usage && rma_take_dirty(window, rank));
}

/* Flushes this rank's part and those that it has dirtied; continues after a failure. */
static int flush_all(struct window *window, uint64_t *bytes, struct storage_error *error)
{
    struct storage_window *storage = window->provider_data;
    int outcome = 0;
    for (int i = 0; i < storage->ranks; i++) {
        struct storage_part *part = i == storage->rank      ? &storage->own
                                    : storage->remote_parts ? &storage->remote_parts[i]
                                                            : NULL;
        if (!part || (i != storage->rank && !take_dirty(window, i)))
            continue;
        *bytes += part->layout.storage_length;
        int fd = part->region.file.fd; /* another rank's is -1 */
        if (i != storage->rank && part->region.is_copy)
            fd = remote_file_descriptor(window, i);
        int result = i != storage->rank && remote_file_is_short(window, i)
                         ? storage_region_fail_cut(&part->region, error)
                         : flush_part(storage, part, fd, 0, storage_part_size(part), error);
        if (result < 0 && i != storage->rank && window->usage)
            rma_mark_dirty(window, i); /* the next call tries again */
        outcome = outcome < 0 ? outcome : result;
    }
    return outcome;
}

static int sync_window(struct window *window)
{
    struct storage_window *storage = window->provider_data;
    struct storage_error error = {""};
    uint64_t began = futex_now_ns(), bytes = 0;
    /* Or a call could return while another thread's, which has taken the parts that both have
     * dirtied, still flushes them. */
    pthread_mutex_lock(&storage->flushing);
    int result = flush_all(window, &bytes, &error);
    pthread_mutex_unlock(&storage->flushing);
    storage_counter_add(&storage->counts->sync, bytes, began, result);
    return storage_report(storage->rank, "MPI_Win_sync", result, &error);
}

/* The other ranks no longer use the window. Flushes this rank's part and sends the outcome to all.
 */
static void close_storage(struct window *window)
{
    struct storage_window *storage = window->provider_data;
    struct storage_error error = {""};
    int result = 0;
    storage_requests_wait_all(storage);
    if (storage->hints.unlink) {
        if (storage->is_node_leader && storage->own.region.file.fd >= 0)
            result = storage_file_unlink(&storage->own.region.file, &error);
    } else if (!storage->hints.discard) {
        result = storage_flush_own(storage, 0, storage_part_size(&storage->own), &error);
    }
    int class = storage_report(storage->rank, "MPI_Win_free", result, &error);
    storage->is_closing = allreduce_min_begin(&storage->all_ranks, -class) == 0;
    if (!storage->is_closing)
        storage->close_result = class != MPI_SUCCESS ? class : MPI_ERR_OTHER;
}

/* Returns the first error of all ranks. Without close, the window was never created. */
static int free_storage(struct window *window)
{
    struct storage_window *storage = window->provider_data;
    int64_t min = -storage->close_result;
    if (storage->is_closing && allreduce_min_end(&storage->all_ranks, &min) < 0) {
        layer_message(storage->rank, "MPI_Win_free: another rank has ended, or MPI failed: whether "
                                     "what it had stored is in its file is not known");
        min = -MPI_ERR_OTHER;
    }
    storage_destroy(window);
    return (int)-min;
}

static int describe(struct window *window, MPI_Info info)
{
    return storage_info_write(window->provider_data, info);
}

const struct window_provider provider_storage = {
    .name = "on storage",
    .accepts = accepts,
    .allocate = storage_create,
    .copy = storage_bulk_copy,
    .prepare_stores = dirty_tracking_before_store,
    .sync = sync_window,
    .describe = describe,
    .close = close_storage,
    .free = free_storage,
};
