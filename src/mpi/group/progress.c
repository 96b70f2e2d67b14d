/* src/mpi/group/progress.c: see progress.h. The mutex is never held across a call of MPI. */
#include "mpi/group/progress.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static int exists, ended;
static MPI_Request never; /* incomplete; valid while `exists`; under the mutex */

/* Held by the one thread that tests the request; others skip the test, since MPI makes progress
 * anyway. Acquire on entry, release on exit. */
static atomic_flag busy = ATOMIC_FLAG_INIT;

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    real()->Status_set_cancelled(status, 0);
    return real()->Status_set_elements(status, MPI_BYTE, 0);
}

static int free_nothing(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int cancel_nothing(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

int progress_request(MPI_Request *request)
{
    return real()->Grequest_start(query, free_nothing, cancel_nothing, NULL, request);
}

static void finish(MPI_Request request)
{
    real()->Grequest_complete(request);
    real()->Wait(&request, MPI_STATUS_IGNORE);
}

int progress_hold(void)
{
    MPI_Request made;
    pthread_mutex_lock(&mutex);
    users++;
    int is_needed = !exists && !ended;
    pthread_mutex_unlock(&mutex);
    if (!is_needed)
        return MPI_SUCCESS;
    int result = progress_request(&made);
    if (result != MPI_SUCCESS)
        return result;
    pthread_mutex_lock(&mutex);
    int is_spare = exists; /* another thread was first */
    if (!is_spare)
        never = made;
    exists = 1;
    pthread_mutex_unlock(&mutex);
    if (is_spare)
        finish(made);
    return MPI_SUCCESS;
}

void progress_release(void)
{
    pthread_mutex_lock(&mutex);
    int is_last = --users == 0 && exists;
    MPI_Request last = never;
    if (is_last)
        exists = 0;
    pthread_mutex_unlock(&mutex);
    if (is_last)
        finish(last);
}

void progress_end(void)
{
    pthread_mutex_lock(&mutex);
    int is_there = exists;
    MPI_Request last = never;
    exists = 0;
    ended = 1;
    pthread_mutex_unlock(&mutex);
    if (is_there)
        finish(last);
}

int progress_make(void)
{
    int flag, result = MPI_SUCCESS;
    if (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        return result;
    pthread_mutex_lock(&mutex);
    int is_there = exists;
    MPI_Request request = never;
    pthread_mutex_unlock(&mutex);
    if (is_there)
        result = real()->Test(&request, &flag, MPI_STATUS_IGNORE);
    atomic_flag_clear_explicit(&busy, memory_order_release);
    return result;
}
