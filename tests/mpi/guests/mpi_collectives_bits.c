/* mpi_collectives_bits SEED: reductions of floating-point numbers whose sums are rounded, with
 * delays that depend on the seed. Rank 0 prints a hash of the bits of each result: they must not
 * depend on the seed. Where all ranks get the same result they compare it. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fnv.h"

enum { MOST = 50000, REPEATS = 3 };

static int rank, ranks, wrong;
static unsigned random_delays;

static uint64_t hash(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t hash = FNV_SEED;
    while (bytes--)
        hash = fnv_byte(hash, *at++);
    return hash;
}

static void wait_a_while(void)
{
    if (random_delays && rand_r(&random_delays) % 3 == 0)
        usleep((useconds_t)(rand_r(&random_delays) % 300));
}

enum { ALLREDUCE, ALLREDUCE_PRODUCT, ALLREDUCE_FLOAT, REDUCE, SCATTER, SCAN, EXSCAN, CALLS };
static const char *const names[] = {
    "Allreduce", "product", "float", "Reduce", "Reduce_scatter_block", "Scan", "Exscan"};

/* The bytes of the caller's result. */
static size_t call_on(int what, const void *in, void *out, int count, int root)
{
    size_t bytes = (size_t)count * sizeof(double);
    switch (what) {
    case ALLREDUCE:
        MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return bytes;
    case ALLREDUCE_PRODUCT:
        MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_PROD, MPI_COMM_WORLD);
        return bytes;
    case ALLREDUCE_FLOAT:
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return bytes / 2;
    case REDUCE:
        MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
        return rank == root ? bytes : 0;
    case SCATTER:
        MPI_Reduce_scatter_block(in, out, count / ranks, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return (size_t)(count / ranks) * sizeof(double);
    case SCAN:
        MPI_Scan(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return bytes;
    default:
        MPI_Exscan(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return rank ? bytes : 0;
    }
}

static void check(int what, const void *in, void *out, int count)
{
    uint64_t first = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        memset(out, 0, (size_t)count * sizeof(double));
        wait_a_while();
        uint64_t mine = hash(out, call_on(what, in, out, count, count % ranks)), all[64] = {0};
        MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, MPI_COMM_WORLD);
        for (int i = 1; i < ranks && what <= ALLREDUCE_FLOAT; i++)
            wrong += all[i] != all[0];
        uint64_t together = hash(all, sizeof(all[0]) * (size_t)ranks);
        wrong += repeat && together != first;
        first = together;
    }
    if (rank == 0)
        printf("%s of %d: %016llx\n", names[what], count, (unsigned long long)first);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 2, 14, 15, 64, 250, 257, 1000, 5000, MOST};
    double *in = malloc(MOST * sizeof(double)), *out = malloc(MOST * sizeof(double));
    float *few = malloc(MOST * sizeof(float));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    random_delays = argc > 1 && atoi(argv[1]) ? (unsigned)(atoi(argv[1]) + rank) : 0;
    for (int i = 0; i < MOST; i++) { /* of very different magnitudes */
        in[i] = (rank % 2 ? -1.0 : 1.0) / (3 + rank * 7 + i) * (double)(UINT64_C(1) << i % 50);
        in[i] *= (rank * 5 + i) % 3 ? 1 : 1e-9;
        few[i] = (float)in[i];
    }
    for (int what = 0; what < CALLS; what++)
        for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
            check(what, what == ALLREDUCE_FLOAT ? (void *)few : in, out, counts[i]);
    printf("rank %d: %d wrong\n", rank, wrong);
    free(in);
    free(few);
    free(out);
    MPI_Finalize();
    return wrong != 0;
}
