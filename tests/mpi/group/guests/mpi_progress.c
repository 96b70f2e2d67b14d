/* mpi_progress MS CASE...: rank 1 starts to receive and computes until the data have come, without
 * a call of MPI, for MS milliseconds at most; from then on rank 0 waits in MPI. The ranks are
 * tasks. */
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

enum { TAG = 7, SIZE = 8 << 20 };

static unsigned char data[SIZE];
static long limit_ms;

/* Rank 1 has left MPI, and computes. By rank 1; rank 0 reads rank 1's by its address. */
static _Atomic int computes;
static _Atomic int *computes_of_1;

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void fill(int value)
{
    uintptr_t address = (uintptr_t)&computes;
    memset(data, value, SIZE);
    computes = 0;
    MPI_Bcast(&address, sizeof(address), MPI_BYTE, 1, world);
    computes_of_1 = (_Atomic int *)address;
    MPI_Barrier(world);
}

static void await_computation(void)
{
    while (!*computes_of_1)
        sched_yield();
}

/* Called by rank 1. */
static void compute_until_received(MPI_Request *request, const char *how)
{
    computes = 1;
    long end = now_ms() + limit_ms;
    while (*(volatile unsigned char *)&data[SIZE - 1] != 1 && now_ms() < end)
        ;
    int has_come = *(volatile unsigned char *)&data[SIZE - 1] == 1;
    OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    long sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += data[i];
    CHECK(sum == SIZE);
    printf("%s: received %s\n", how, has_come ? "while it computed" : "in MPI_Wait");
}

static void receive(const char *how)
{
    MPI_Request request;
    OK(MPI_Irecv(data, SIZE, MPI_BYTE, 0, TAG, world, &request));
    compute_until_received(&request, how);
}

/* Any call that waits. */
CASE(nothing)
{
    OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, next_rank, TAG, NULL, 0, MPI_BYTE, previous_rank, TAG, world,
                    MPI_STATUS_IGNORE));
}

CASE(send)
{
    fill(rank == 0);
    if (rank == 0) {
        await_computation();
        OK(MPI_Send(data, SIZE, MPI_BYTE, 1, TAG, world));
    } else if (rank == 1)
        receive("send");
}

CASE(waitall)
{
    MPI_Request requests[2];
    int answer = -1;
    fill(rank == 0);
    if (rank == 0) {
        await_computation();
        OK(MPI_Irecv(&answer, 1, MPI_INT, 1, TAG, world, &requests[0]));
        OK(MPI_Isend(data, SIZE, MPI_BYTE, 1, TAG, world, &requests[1]));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(answer == 1);
    } else if (rank == 1) {
        receive("waitall");
        OK(MPI_Send(&rank, 1, MPI_INT, 0, TAG, world));
    }
}

/* Rank 0 waits in an operation of the layer's. */
CASE(barrier)
{
    MPI_Request request = MPI_REQUEST_NULL;
    fill(rank == 0);
    if (rank == 0) {
        await_computation();
        OK(MPI_Isend(data, SIZE, MPI_BYTE, 1, TAG, world, &request));
    } else if (rank == 1)
        receive("barrier");
    OK(MPI_Barrier(world));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* The library's own, if the layer has none. */
CASE(ibcast)
{
    MPI_Request request;
    fill(rank == 0);
    if (rank == 0)
        await_computation();
    OK(MPI_Ibcast(data, SIZE, MPI_BYTE, 0, world, &request));
    if (rank == 1)
        compute_until_received(&request, "ibcast");
    else
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* A child that ends as programs do leaves its parent's thread alone. */
CASE(forks)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(3);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    send();
}

/* Rank 1 has computed for long enough that rank 0 wakes its progress thread again and again. */
CASE(last_message)
{
    int value = 0;
    fill(rank == 0);
    if (rank == 1) {
        long end = now_ms() + 3;
        while (now_ms() < end)
            ;
        OK(MPI_Send(&rank, 1, MPI_INT, 0, TAG, world));
    } else if (rank == 0) {
        OK(MPI_Recv(&value, 1, MPI_INT, 1, TAG, world, MPI_STATUS_IGNORE));
        CHECK(value == 1);
    }
    report();
    exit(finalize());
}

static void *exchange(void *argument)
{
    int tag = (int)(intptr_t)argument;
    for (int i = 0; i < 200; i++) {
        int received = -1, sent = i + tag;
        OK(MPI_Sendrecv(&sent, 1, MPI_INT, next_rank, tag, &received, 1, MPI_INT, previous_rank,
                        tag, world, MPI_STATUS_IGNORE));
        CHECK(received == i + tag);
    }
    return NULL;
}

CASE(threads)
{
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, exchange, (void *)(100 + i));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

CASE(exits)
{
    MPI_Barrier(world);
    report();
    exit(wrong != 0);
}

CASE(aborts)
{
    fill(rank == 0);
    if (rank == 0) {
        await_computation();
        MPI_Abort(world, 5);
    }
    receive("aborts");
}

int main(int argc, char **argv)
{
    const char *level = getenv("LEVEL");
    if (level && strcmp(level, "init") == 0)
        MPI_Init(&argc, &argv);
    else
        MPI_Init_thread(&argc, &argv, level ? atoi(level) : MPI_THREAD_MULTIPLE, &(int){0});
    mpi_find_ranks(MPI_COMM_WORLD);
    limit_ms = argc > 1 ? atol(argv[1]) : 0;
    if (argc > 2)
        run_cases(argv + 2);
    return mpi_end();
}
