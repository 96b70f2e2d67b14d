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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "points.h"

enum { LEAST = 3, MOST = 1000, SMALL = 8, LARGE = 4096 };

static int rank, ranks;

static void *allocated(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory) {
        fprintf(stderr, "scale: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* Seconds, on one clock for all ranks of the node: MPI_Wtime of Open MPI begins with each rank. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double time_barrier(int round)
{
    (void)round;
    double start = now();
    MPI_Barrier(MPI_COMM_WORLD);
    return now() - start;
}

/* Of a message's last byte. */
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
    MPI_Request *requests = allocated(2 * (size_t)ranks * sizeof(requests[0]));
    unsigned char *received = allocated((size_t)ranks * (size_t)size);
    unsigned char *sent = allocated((size_t)size);
    sent[size - 1] = mark(round, rank);
    for (int step = 1; step < ranks; step++) {
        int from = (rank + ranks - step) % ranks;
        MPI_Irecv(received + (size_t)from * (size_t)size, size, MPI_BYTE, from, 0, MPI_COMM_WORLD,
                  &requests[count++]);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* all receives are posted */
    double times[2], last[2];
    times[0] = -now(); /* the greatest negative is the earliest start */
    for (int step = 1; step < ranks; step++)
        MPI_Isend(sent, size, MPI_BYTE, (rank + step) % ranks, 0, MPI_COMM_WORLD,
                  &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    times[1] = now();
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

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first, which makes the connections, tells how many follow: as rank 0 has timed it. */
static void measure(const char *name, double (*once)(int round), double seconds)
{
    static double samples[MOST];
    double start = now();
    once(0);
    double wanted = seconds / (now() - start);
    int count = wanted < LEAST ? LEAST : wanted < MOST ? (int)wanted : MOST;
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        samples[i] = once(i + 1);
    qsort(samples, (size_t)count, sizeof(samples[0]), compare);
    if (rank == 0)
        printf("%s %d %.9f\n", name, ranks, samples[count / 2]);
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
    point("counted", rank);
    MPI_Finalize();
    return 0;
}
