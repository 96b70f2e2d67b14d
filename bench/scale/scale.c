/* bench/scale/scale.c: what all ranks of a job do together, and a point at which they are counted.
 *
 * usage: scale MILLISECONDS
 *
 * Prints "barrier RANKS SECONDS", the median of an MPI_Barrier, and "message RANKS SECONDS", the
 * median of an exchange, in which each rank sends 8 bytes to each other, divided by its messages:
 * from when the first rank begins to when the last has all of its messages. Each is repeated for
 * about MILLISECONDS, at least 3 times. After one exchange of messages of 4 KiB, which MPI
 * libraries pass through other parts of their segments, all ranks wait at the point "counted". */
#include <mpi.h>

#include "../lib/bench.h"

enum { REPEATS_MIN = 3, REPEATS_MAX = 1000, SMALL = 8, LARGE = 4096 };

static int rank, ranks;

static double time_barrier(int round)
{
    (void)round;
    double start = seconds_now();
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds_now() - start;
}

/* The last byte of a message. */
static unsigned char mark(int round, int sender)
{
    return (unsigned char)(1 + (round * 7 + sender) % 255);
}

static void check_received(const unsigned char *received, int size, int round)
{
    for (int i = 0; i < ranks; i++) {
        int found = received[(size_t)(i + 1) * (size_t)size - 1];
        if (i != rank && found != mark(round, i)) {
            fprintf(stderr, "scale: rank %d got %d of rank %d instead of %d\n", rank, found, i,
                    mark(round, i));
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

/* Seconds from when the first rank begins to when the last has all. Each rank begins with its
 * neighbour, so that no rank gets all messages at once. */
static double exchange(int size, int round)
{
    int count = 0;
    MPI_Request *requests = bench_allocate(2 * (size_t)ranks * sizeof(requests[0]));
    unsigned char *received = bench_allocate((size_t)ranks * (size_t)size);
    unsigned char *sent = bench_allocate((size_t)size);
    sent[size - 1] = mark(round, rank);
    for (int step = 1; step < ranks; step++) {
        int from = (rank + ranks - step) % ranks;
        MPI_Irecv(received + (size_t)from * (size_t)size, size, MPI_BYTE, from, 0, MPI_COMM_WORLD,
                  &requests[count++]);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* all receives are posted */
    double times[2], last[2];
    times[0] = -seconds_now(); /* the greatest negative is the earliest start */
    for (int step = 1; step < ranks; step++)
        MPI_Isend(sent, size, MPI_BYTE, (rank + step) % ranks, 0, MPI_COMM_WORLD,
                  &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    times[1] = seconds_now();
    check_received(received, size, round);
    MPI_Allreduce(times, last, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    free(sent);
    free(received);
    free(requests);
    return last[1] + last[0];
}

static double time_message(int round)
{
    return exchange(SMALL, round) / ((double)ranks * (ranks - 1));
}

/* The first call, which makes the connections, decides how many follow, by rank 0's clock. The
 * clock is the same for all ranks of the node; MPI_Wtime of Open MPI starts with each rank. */
static void measure(const char *name, double (*once)(int round), double seconds)
{
    static double samples[REPEATS_MAX];
    double start = seconds_now();
    once(0);
    long count = bench_calls(seconds_now() - start, seconds, REPEATS_MIN, REPEATS_MAX);
    MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        samples[i] = once(i + 1);
    double median = bench_median(samples, (int)count);
    if (rank == 0)
        bench_print(name, ranks, median);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double seconds = argc == 2 ? atof(argv[1]) / 1000 : 0;
    if (seconds <= 0 || ranks < 2) {
        if (rank == 0)
            fprintf(stderr, "usage: scale MILLISECONDS, on 2 ranks or more\n");
        MPI_Finalize();
        return 2;
    }
    measure("barrier", time_barrier, seconds);
    measure("message", time_message, seconds);
    exchange(LARGE, 0);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_point("counted", rank);
    MPI_Finalize();
    return 0;
}
