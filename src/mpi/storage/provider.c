/* src/mpi/storage/provider.c: windows on files and block devices ("MPI windows on storage").
 *
 * Requested by the hint alloc_type=storage; docs/storage.md describes all hints. */
#include <errno.h>
#include <string.h>

#include "base/futex.h"
#include "mpi/real/message.h"
#include "mpi/rma/count.h"
#include "mpi/storage/written.h"

int storage_class(int result)
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
    return storage_class(result < 0 ? result : 0);
}

struct storage_window *storage_window_of(MPI_Win handle)
{
    struct window *window = window_find(handle);
    return window && window->provider == &provider_storage ? window->memory : NULL;
}

/* ---- Counting ---- */

void storage_count(struct storage_count *count, uint64_t bytes, uint64_t since, int result)
{
    atomic_fetch_add_explicit(&count->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->nanoseconds, futex_now_ns() - since, memory_order_relaxed);
    if (result < 0)
        atomic_fetch_add_explicit(&count->failures, 1, memory_order_relaxed);
}

/* ---- The provider ---- */

/* As requested, before it is divided at a page. A size that is refused later counts as nothing. */
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

/* The memory part has nothing to flush. */
static int flush_part(struct storage_part *part, uint64_t offset, uint64_t length,
                      struct storage_error *error)
{
    const struct storage_layout *layout = &part->layout;
    uint64_t begin = layout->storage_first ? 0 : layout->memory_length, end = offset + length;
    uint64_t stop = begin + layout->storage_length;
    offset = offset < begin ? begin : offset;
    end = end > stop ? stop : end;
    return offset < end
               ? storage_region_flush(&part->region,
                                      (struct storage_range){offset - begin, end - offset}, error)
               : 0;
}

int storage_flush_own(struct storage_window *storage, uint64_t offset, uint64_t length,
                      struct storage_error *error)
{
    return flush_part(&storage->own, offset, length, error);
}

/* A program may compute the addresses of the parts of a shared window without asking for them. */
static int was_written(struct window *window, int rank)
{
    return window->flavor == MPI_WIN_FLAVOR_SHARED ||
           (window->use && direct_was_written(window, rank));
}

/* Flushes this rank's part and those that it wrote to; goes on after a failure. */
static int flush_all(struct window *window, uint64_t *bytes, struct storage_error *error)
{
    struct storage_window *storage = window->memory;
    int outcome = 0;
    for (int i = 0; i < storage->ranks; i++) {
        struct storage_part *part = i == storage->rank ? &storage->own
                                    : storage->others  ? &storage->others[i]
                                                       : NULL;
        if (!part || (i != storage->rank && !was_written(window, i)))
            continue;
        *bytes += part->layout.storage_length;
        int result = flush_part(part, 0, storage_part_size(part), error);
        outcome = outcome < 0 ? outcome : result;
    }
    return outcome;
}

static int sync_window(struct window *window)
{
    struct storage_window *storage = window->memory;
    struct storage_error error = {""};
    uint64_t began = futex_now_ns(), bytes = 0;
    int result = flush_all(window, &bytes, &error);
    storage_count(&storage->counts->sync, bytes, began, result);
    return storage_report(storage->rank, "MPI_Win_sync", result, &error);
}

/* The other ranks no longer use the window. Makes this rank's part durable and sends the outcome to
 * all. */
static void close_storage(struct window *window)
{
    struct storage_window *storage = window->memory;
    struct storage_error error = {""};
    int result = 0;
    storage_requests_end(storage);
    if (storage->hints.unlink) {
        if (storage->is_leader && storage->own.region.file.fd >= 0)
            result = storage_file_unlink(&storage->own.region.file, &error);
    } else if (!storage->hints.discard) {
        result = flush_part(&storage->own, 0, storage_part_size(&storage->own), &error);
    }
    int class = storage_report(storage->rank, "MPI_Win_free", result, &error);
    storage->is_closing = storage_least_begin(&storage->all, -class) == 0;
    if (!storage->is_closing)
        storage->closed = class != MPI_SUCCESS ? class : MPI_ERR_OTHER;
}

/* Returns the first error of all ranks. Without close the others never had the window. */
static int free_storage(struct window *window)
{
    struct storage_window *storage = window->memory;
    int64_t least = -storage->closed;
    if (storage->is_closing && storage_least_end(&storage->all, &least) < 0) {
        layer_message(storage->rank, "MPI_Win_free: another rank has ended, or MPI failed: whether "
                                     "what it had stored is in its file is not known");
        least = -MPI_ERR_OTHER;
    }
    storage_dismantle(window);
    return (int)-least;
}

static int describe(struct window *window, MPI_Info info)
{
    return storage_info_write(window->memory, info);
}

const struct window_provider provider_storage = {
    .name = "on storage",
    .accepts = accepts,
    .allocate = storage_build,
    .copy = storage_copy,
    .await_stores = storage_written_await,
    .sync = sync_window,
    .describe = describe,
    .close = close_storage,
    .free = free_storage,
};
