/* bench/progress/progress.c: how long a rank that has computed must still wait for an operation
 * that it started before.
 *
 * usage: progress REPEATS COMPUTE_US
 *
 * Two ranks. Rank 1 starts the operation, computes without a call of MPI, and waits; rank 0 waits
 * from the start. Prints "OPERATION BYTES SECONDS": the median of rank 1's time beyond what it
 * computed. The data change before each.
 *
 *   receive     MPI_Irecv; rank 0 calls MPI_Send
 *   ibcast      MPI_Ibcast from rank 0
 *   iallreduce  MPI_Iallreduce of float
 *   latency     8 bytes there and back by MPI_Send and MPI_Recv, half of it; nothing is computed */
#include <mpi.h>
#include <string.h>

#include "../lib/bench.h"

enum { REPEATS_MAX = 1000, WARM_UP = 5, TAG = 1, ROUNDS = 1000 };
enum { BYTES_MIN = 64 << 10, BYTES_MAX = 4 << 20 };

static int rank;
static double computed;
static char *sendbuf, *recvbuf;

static void compute(void)
{
    double end = seconds_now() + computed;
    while (seconds_now() < end)
        ;
}

static void finish(MPI_Request *request)
{
    if (rank == 1)
        compute();
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void receive(int bytes)
{
    MPI_Request request;
    if (rank == 0) {
        MPI_Send(sendbuf, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        return;
    }
    MPI_Irecv(recvbuf, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
    finish(&request);
}

static void ibcast(int bytes)
{
    MPI_Request request;
    MPI_Ibcast(rank == 0 ? sendbuf : recvbuf, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    finish(&request);
}

static void iallreduce(int bytes)
{
    MPI_Request request;
    MPI_Iallreduce(sendbuf, recvbuf, bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                   &request);
    finish(&request);
}

static void measure(const char *name, void (*once)(int bytes), int repeats)
{
    static double samples[REPEATS_MAX];
    for (int bytes = BYTES_MIN; bytes <= BYTES_MAX; bytes *= 4) {
        for (int i = -WARM_UP; i < repeats; i++) {
            memset(sendbuf, i, (size_t)bytes);
            memset(recvbuf, 0, (size_t)bytes);
            MPI_Barrier(MPI_COMM_WORLD);
            double start = seconds_now();
            once(bytes);
            if (i >= 0)
                samples[i] = seconds_now() - start - computed;
        }
        double median = bench_median(samples, repeats);
        if (rank == 1)
            bench_print(name, bytes, median);
    }
}

static void measure_latency(int repeats)
{
    static double samples[REPEATS_MAX];
    char byte[8] = {0};
    for (int i = 0; i < repeats; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = seconds_now();
        for (int round = 0; round < ROUNDS; round++) {
            if (rank == 0)
                MPI_Send(byte, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(byte, 8, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank == 1)
                MPI_Send(byte, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
        samples[i] = (seconds_now() - start) / ROUNDS / 2;
    }
    if (rank == 1)
        bench_print("latency", 8, bench_median(samples, repeats));
}

int main(int argc, char **argv)
{
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int repeats = argc == 3 ? atoi(argv[1]) : 0;
    computed = argc == 3 ? atof(argv[2]) * 1e-6 : 0;
    if (repeats < 1 || repeats > REPEATS_MAX || computed <= 0 || ranks != 2) {
        if (rank == 0)
            fprintf(stderr, "usage: progress REPEATS COMPUTE_US, on 2 ranks\n");
        MPI_Finalize();
        return 2;
    }
    sendbuf = bench_allocate(BYTES_MAX);
    recvbuf = bench_allocate(BYTES_MAX);
    measure("receive", receive, repeats);
    measure("ibcast", ibcast, repeats);
    measure("iallreduce", iallreduce, repeats);
    measure_latency(repeats);
    MPI_Finalize();
    return 0;
}
