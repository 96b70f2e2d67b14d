/* src/mpi/storage/request.c: synchronisation in the background, by a thread per request. The thread
 * calls no MPI, so MPI_THREAD_MULTIPLE is not needed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "mpi/storage/request.h"

static void *flush(void *argument)
{
    struct onespace_window_request *request = argument;
    uint64_t began = futex_now_ns();
    request->result =
        storage_flush_own(request->storage, request->offset, request->length, &request->error);
    storage_count(&request->storage->counts->sync_start, request->length, began, request->result);
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
    int error = pthread_create(&request->thread, NULL, flush, request);
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

void storage_request_end(struct onespace_window_request *request)
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

void storage_requests_end(struct storage_window *storage)
{
    while (storage->requests) { /* no other thread uses the window any more */
        struct onespace_window_request *request = storage->requests;
        /* The last one is off the list. */
        storage_request_end(request); /* NOLINT(clang-analyzer-unix.Malloc) */
        free(request);
    }
}
