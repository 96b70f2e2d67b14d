/* tests/mpi/group/progress_polls.c: progress_catch_up (src/mpi/group/progress.c) receives what has
 * come, whatever disturbed it before. It measures durations, so this library's costs are known:
 * MPI_Test receives two messages at most, as MPICH's does, and takes half as long again then, as
 * between two CPUs of one core. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "mpi/group/group.h"

enum { ROUNDS = 2000, QUEUED = 60, MISSED_MAX = ROUNDS / 3, STEPS = 1 + 32 * 8 };

static long queued, cost_ns, tests, late_test;

/* Two threads make operations and test: what was sent to each of them before is received. */
enum { THREADS = 2, THREAD_ROUNDS = 200000 };
static int is_threaded;
static _Atomic int sent[THREADS];

static int is_open_mpi;

int pmpi_is_open_mpi(void)
{
    return is_open_mpi;
}

void progress_note(void)
{
}

int task_shares_cpu(void)
{
    return 1;
}

static void spend(long ns)
{
    struct timespec now, start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < ns);
}

static int test(MPI_Request *request, int *flag, MPI_Status *status)
{
    (void)request, (void)status;
    *flag = 0;
    if (is_threaded) {
        for (int i = 0; i < THREADS; i++)
            atomic_store(&sent[i], 0);
        return MPI_SUCCESS;
    }
    spend(queued ? cost_ns * 3 / 2 : cost_ns);
    queued -= queued < 2 ? queued : 2;
    if (++tests == late_test)
        spend(5000000); /* another process's turn */
    return MPI_SUCCESS;
}

static int start(MPI_Grequest_query_function *query, MPI_Grequest_free_function *free_,
                 MPI_Grequest_cancel_function *cancel, void *extra, MPI_Request *request)
{
    (void)query, (void)free_, (void)cancel, (void)extra, (void)request;
    return MPI_SUCCESS;
}

static int complete(MPI_Request request)
{
    (void)request;
    return MPI_SUCCESS;
}

static int wait(MPI_Request *request, MPI_Status *status)
{
    (void)request, (void)status;
    return MPI_SUCCESS;
}

const struct pmpi_functions *_Atomic pmpi_table;

const struct pmpi_functions *pmpi_load(void)
{
    static const struct pmpi_functions mpi = {
        .Test = test, .Grequest_start = start, .Grequest_complete = complete, .Wait = wait};
    return &mpi;
}

/* An operation, and a test that finds nothing. */
static void poll(void)
{
    (void)progress_after_operation();
    (void)PROGRESS_FIND(0, MPI_SUCCESS);
}

static void poll_often(int times)
{
    while (times-- > 0)
        poll();
}

static int missed(const char *when)
{
    int rounds = 0;
    for (int i = 0; i < ROUNDS; i++) {
        queued = QUEUED;
        poll();
        rounds += queued > 0;
        queued = 0;
    }
    printf("%s: %d of %d rounds leave messages\n", when, rounds, ROUNDS);
    return rounds;
}

static int find(_Atomic int *own, int *found)
{
    *found = !atomic_load(own);
    return MPI_SUCCESS;
}

static void *poll_in_thread(void *argument)
{
    _Atomic int *own = argument;
    long missed_rounds = 0;
    for (int i = 0; i < THREAD_ROUNDS; i++) {
        int found;
        atomic_store(own, 1);
        (void)progress_after_operation();
        (void)PROGRESS_FIND(found, find(own, &found));
        missed_rounds += !found;
    }
    return (void *)missed_rounds;
}

static long missed_by_threads(void)
{
    pthread_t threads[THREADS];
    long all = 0;
    void *found;
    is_threaded = 1;
    queued = 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, poll_in_thread, &sent[i]) != 0)
            return -1;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &found);
        all += (long)found;
    }
    is_threaded = 0;
    printf("two threads: %ld of %d rounds leave messages\n", all, THREADS * THREAD_ROUNDS);
    return all;
}

int main(void)
{
    int most = 0, found;
    cost_ns = 1000;
    if (progress_enable() != MPI_SUCCESS)
        return 2;
    poll_often(20);
    most = missed("at first");
    cost_ns = 4000;
    late_test = tests + STEPS; /* the last one before it takes this for the library's new pace */
    poll_often(1);
    found = missed("slower, after a late step");
    most = found > most ? found : most;
    cost_ns = 1000;
    found = missed("as fast as before");
    most = found > most ? found : most;
    long before = tests;
    (void)progress_catch_up();
    if (progress_is_behind() || tests != before)
        return 3; /* it has caught up */
    if (missed_by_threads() != 0)
        return 5;
    is_open_mpi = 1; /* which receives all in one step, and yields the CPU in others */
    before = tests;
    poll_often(1000);
    if (tests - before < 1000 || tests - before > 2000)
        return 6;
    is_open_mpi = 0;
    progress_disable();
    if (missed("after all communicators are freed") > MISSED_MAX)
        return 4;
    return most > MISSED_MAX;
}
