/* src/mpi/wrap/onespace_window.c: the functions of onespace/window.h. */
#include "mpi/wrap/wrap.h"

#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "mpi/pmpi/message.h"
#include "mpi/storage/storage_window.h"

/* The window on storage; NULL: the handle's error handler was called. */
static struct storage_window *require_storage(const char *call, MPI_Win win)
{
    struct storage_window *storage = storage_window_of(win);
    if (storage)
        return storage;
    layer_message(0, "%s: this window is not on storage: allocate it with alloc_type=storage",
                  call);
    pmpi()->Win_call_errhandler(win, MPI_ERR_WIN);
    return NULL;
}

static int check_range(const char *call, struct storage_window *storage, MPI_Win win,
                       MPI_Aint offset, MPI_Aint length)
{
    uint64_t size = storage->own.layout.storage_length + storage->own.layout.memory_length;
    if (offset >= 0 && length >= 0 && (uint64_t)offset <= size &&
        (uint64_t)length <= size - (uint64_t)offset)
        return MPI_SUCCESS;
    layer_message(storage->rank,
                  "%s: %lld bytes from %lld are not in this rank's part of %llu bytes", call,
                  (long long)length, (long long)offset, (unsigned long long)size);
    pmpi()->Win_call_errhandler(win, MPI_ERR_ARG);
    return MPI_ERR_ARG;
}

static int finish(const char *call, struct storage_window *storage, MPI_Win win, int result,
                  const struct storage_error *error)
{
    return window_result(window_find(win), storage_report(storage->rank, call, result, error));
}

int onespace_window_sync_all(MPI_Win win)
{
    struct storage_window *storage = require_storage(__func__, win);
    struct storage_error error = {""};
    uint64_t began = futex_now_ns();
    int64_t min = 0;
    if (!storage)
        return MPI_ERR_WIN;
    atomic_thread_fence(memory_order_seq_cst);
    /* Wait until all ranks have stored. MPI's barrier would wait forever for a dead rank. */
    int result = allreduce_min(&storage->all_ranks, 0, &min) == 0 ? MPI_SUCCESS : MPI_ERR_OTHER;
    uint64_t size = storage->own.layout.storage_length + storage->own.layout.memory_length;
    int flushed = storage_flush_own(storage, 0, size, &error);
    storage_counter_add(&storage->counts->sync, storage->own.layout.storage_length, began, flushed);
    int class = storage_report(storage->rank, __func__, flushed, &error);
    if (result == MPI_SUCCESS && allreduce_min(&storage->all_ranks, -class, &min) < 0)
        result = MPI_ERR_OTHER;
    return window_result(window_find(win), result == MPI_SUCCESS ? (int)-min : result);
}

int onespace_window_sync_range(MPI_Win win, MPI_Aint offset, MPI_Aint length)
{
    struct storage_window *storage = require_storage(__func__, win);
    struct storage_error error = {""};
    uint64_t began = futex_now_ns();
    if (!storage)
        return MPI_ERR_WIN;
    int invalid = check_range(__func__, storage, win, offset, length);
    if (invalid != MPI_SUCCESS)
        return invalid;
    int result = storage_flush_own(storage, (uint64_t)offset, (uint64_t)length, &error);
    storage_counter_add(&storage->counts->sync_range, (uint64_t)length, began, result);
    return finish(__func__, storage, win, result, &error);
}

int onespace_window_sync_start(MPI_Win win, MPI_Aint offset, MPI_Aint length,
                               struct onespace_window_request **request)
{
    struct storage_window *storage = require_storage(__func__, win);
    struct storage_error error = {"cannot start a thread that writes: see `ulimit -u`"};
    if (!storage)
        return MPI_ERR_WIN;
    int invalid = check_range(__func__, storage, win, offset, length);
    if (invalid != MPI_SUCCESS)
        return invalid;
    return finish(__func__, storage, win,
                  storage_request_start(storage, win, (uint64_t)offset, (uint64_t)length, request),
                  &error);
}

int onespace_window_wait(struct onespace_window_request **request)
{
    struct onespace_window_request *ended = *request;
    if (!ended)
        return MPI_SUCCESS;
    storage_request_wait(ended);
    *request = NULL;
    int class =
        finish("onespace_window_wait", ended->storage, ended->handle, ended->result, &ended->error);
    free(ended);
    return class;
}

int onespace_window_test(struct onespace_window_request **request, int *flag)
{
    *flag = !*request || atomic_load_explicit(&(*request)->is_done, memory_order_acquire);
    return *flag ? onespace_window_wait(request) : MPI_SUCCESS;
}

/* ---- Versions ---- */

static struct storage_window *require_versions(const char *call, MPI_Win win)
{
    struct storage_window *storage = storage_window_of(win);
    if (storage && storage->versions_kept)
        return storage;
    layer_message(storage ? storage->rank : 0,
                  "%s: this window has no versions: allocate it with alloc_type=storage and "
                  "storage_alloc_versions=1 or more",
                  call);
    pmpi()->Win_call_errhandler(win, MPI_ERR_WIN);
    return NULL;
}

int onespace_window_commit(MPI_Win win, uint64_t *version)
{
    struct storage_window *storage = require_versions(__func__, win);
    if (!storage)
        return MPI_ERR_WIN;
    struct window *window = window_find(win);
    int result = storage_versions_commit(window, __func__);
    if (result == MPI_SUCCESS && version)
        *version = storage_versions_newest(storage);
    return window_result(window, result);
}

int onespace_window_version(MPI_Win win, uint64_t *version)
{
    struct storage_window *storage = require_versions(__func__, win);
    if (!storage)
        return MPI_ERR_WIN;
    *version = storage_versions_newest(storage);
    return MPI_SUCCESS;
}

/* ---- Statistics ---- */

static struct onespace_window_calls read_count(struct storage_counter *count)
{
    return (struct onespace_window_calls){
        atomic_load_explicit(&count->calls, memory_order_relaxed),
        atomic_load_explicit(&count->bytes, memory_order_relaxed),
        atomic_load_explicit(&count->nanoseconds, memory_order_relaxed),
        atomic_load_explicit(&count->failures, memory_order_relaxed),
    };
}

static struct onespace_window_calls read_usage(struct window *window, enum rma_kind kind)
{
    struct onespace_window_calls sum = {0};
    for (int i = 0; window->usage && i < window->group->ranks; i++) {
        sum.calls += atomic_load_explicit(&window->usage[i].calls[kind], memory_order_relaxed);
        sum.bytes += atomic_load_explicit(&window->usage[i].bytes[kind], memory_order_relaxed);
    }
    return sum;
}

int onespace_window_statistics(MPI_Win win, struct onespace_window_statistics *statistics)
{
    struct storage_window *storage = require_storage(__func__, win);
    struct window *window = window_find(win);
    if (!storage)
        return MPI_ERR_WIN;
    uint32_t size = statistics->size;
    struct onespace_window_statistics found = {
        .size = sizeof(found),
        .is_intra_node = storage->remote_parts != NULL,
        .storage_bytes = storage->own.layout.storage_length,
        .memory_bytes = storage->own.layout.memory_length,
        .sync = read_count(&storage->counts->sync),
        .sync_range = read_count(&storage->counts->sync_range),
        .sync_start = read_count(&storage->counts->sync_start),
        .put = read_usage(window, RMA_PUT),
        .get = read_usage(window, RMA_GET),
        .accumulate = read_usage(window, RMA_ACCUMULATE),
        .commit = read_count(&storage->counts->commit),
    };
    memcpy(statistics, &found, size < sizeof(found) ? size : sizeof(found));
    statistics->size = size;
    return MPI_SUCCESS;
}
