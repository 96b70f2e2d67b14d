/* src/mpi/storage/request.h: synchronisation in the background. */
#ifndef ONESPACE_MPI_STORAGE_REQUEST_H
#define ONESPACE_MPI_STORAGE_REQUEST_H

#include "mpi/storage/window.h"

struct onespace_window_request {
    struct storage_window *storage;
    MPI_Win handle;
    uint64_t offset, length;
    pthread_t thread;
    _Atomic int
        is_done; /* set last by the thread (release); read by onespace_window_test (acquire) */
    int result;  /* 0 or -errno; these two are the thread's until is_done */
    struct storage_error error;
    struct onespace_window_request *next; /* of the window's */
};

int storage_request_start(struct storage_window *storage, MPI_Win handle, uint64_t offset,
                          uint64_t length, struct onespace_window_request **made);
/* Waits for the request and removes it from the window's list; the caller frees it. */
void storage_request_end(struct onespace_window_request *request);

#endif
