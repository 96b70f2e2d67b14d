/* src/mpi/storage/request.h: synchronisation in the background. */
#ifndef ONESPACE_MPI_STORAGE_REQUEST_H
#define ONESPACE_MPI_STORAGE_REQUEST_H

#include "mpi/storage/window.h"

struct onespace_window_request {
    struct storage_window *storage;
    MPI_Win handle;
    uint64_t offset, length;
    pthread_t thread;
    _Atomic int is_done; /* the thread sets it last: release; onespace_window_test reads: acquire */
    int result;          /* -errno; these two: the thread's until it is done */
    struct storage_error error;
    struct onespace_window_request *next; /* of the window's */
};

int storage_request_start(struct storage_window *storage, MPI_Win handle, uint64_t offset,
                          uint64_t length, struct onespace_window_request **made);
/* Waits for it and takes it off the window's list; the caller frees it. */
void storage_request_end(struct onespace_window_request *request);

#endif
