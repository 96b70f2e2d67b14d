/* bench/waits/waits.c: ranks that wait for messages of one another, more of them than CPUs.
 *
 * usage: waits MILLISECONDS THREADS
 *
 * Prints "OPERATION RANKS SECONDS", the median of repeats for about MILLISECONDS, at least 3:
 *
 *   sendrecv   a barrier of MPI_Sendrecv: each rank hears of all others in log2(RANKS) steps
 *   waitall    the same of MPI_Isend, MPI_Irecv and MPI_Waitall
 *   threads    waitall, after a loop that THREADS OpenMP threads of each rank share
 *   late       rank 0 computes for 10 ms of CPU time, then sends to all others, which wait in
 *              MPI_Recv: until it has sent */
#include <mpi.h>

#include "../lib/bench.h"

enum { REPEATS_MIN = 3, REPEATS_MAX = 1000, CALLS_MAX = 1000, TAG = 1, STEPS = 10000 };
static const double late_seconds = 0.01, sample_seconds = 0.0002;

static int rank, ranks, threads;

static int partner(int step)
{
    return (rank + step + ranks) % ranks;
}

static void by_sendrecv(void)
{
    char sent = 1, received;
    for (int step = 1; step < ranks; step *= 2)
        MPI_Sendrecv(&sent, 1, MPI_CHAR, partner(step), TAG, &received, 1, MPI_CHAR, partner(-step),
                     TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void by_waitall(void)
{
    char sent = 1, received;
    for (int step = 1; step < ranks; step *= 2) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Irecv(&received, 1, MPI_CHAR, partner(-step), TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&sent, 1, MPI_CHAR, partner(step), TAG, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, statuses);
    }
}

static void by_threads(void)
{
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(threads)
    for (int i = 0; i < STEPS; i++)
        sum += 1.0 / (i + 1);
    if (sum < 0)
        bench_fail("the loop is wrong", NULL);
    by_waitall();
}

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void be_late(void)
{
    char byte = 1;
    double end = cpu_seconds() + late_seconds;
    while (rank == 0 && cpu_seconds() < end)
        ;
    for (int other = 1; rank == 0 && other < ranks; other++)
        MPI_Send(&byte, 1, MPI_CHAR, other, TAG, MPI_COMM_WORLD);
    if (rank != 0)
        MPI_Recv(&byte, 1, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* By rank 0's clock. The first call makes the connections; the next ones decide how many calls a
 * sample has, and how many samples follow. */
static void measure(const char *name, void (*once)(void), double seconds)
{
    static double samples[REPEATS_MAX];
    long plan[2]; /* calls of a sample, samples */
    by_waitall();
    once();
    double start = seconds_now();
    for (int i = 0; i < REPEATS_MIN; i++)
        once();
    double one = (seconds_now() - start) / REPEATS_MIN;
    plan[0] = bench_calls(one, sample_seconds, 1, CALLS_MAX);
    plan[1] = bench_calls(one * (double)plan[0], seconds, REPEATS_MIN, REPEATS_MAX);
    MPI_Bcast(plan, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    for (long i = 0; i < plan[1]; i++) {
        by_waitall();
        start = seconds_now();
        for (long call = 0; call < plan[0]; call++)
            once();
        samples[i] = (seconds_now() - start) / (double)plan[0];
    }
    double median = bench_median(samples, (int)plan[1]);
    if (rank == 0)
        bench_print(name, ranks, median);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double seconds = argc == 3 ? atof(argv[1]) / 1000 : 0;
    threads = argc == 3 ? atoi(argv[2]) : 0;
    if (seconds <= 0 || threads < 1 || ranks < 2) {
        if (rank == 0)
            fprintf(stderr, "usage: waits MILLISECONDS THREADS, on 2 ranks or more\n");
        MPI_Finalize();
        return 2;
    }
    measure("sendrecv", by_sendrecv, seconds);
    measure("waitall", by_waitall, seconds);
    measure("threads", by_threads, seconds);
    measure("late", be_late, seconds);
    MPI_Finalize();
    return 0;
}
