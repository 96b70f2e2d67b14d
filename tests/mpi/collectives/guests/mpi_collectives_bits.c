/* mpi_collectives_bits SEED: reductions of floating-point numbers whose sums are rounded, with
 * delays that depend on the seed. Rank 0 prints a hash of the bits of each result: they must not
 * depend on the seed. Where all ranks get the same result they compare it. */
#include <unistd.h>

#include "mpi/collectives/guests/collective.h"
#include "mpi/collectives/guests/fnv.h"

enum { COUNT_MAX = 50000, REPEATS = 3 };

static unsigned random_delays;

static const struct {
    const char *name;
    enum operation operation;
    int is_product, is_float;
} reductions[] = {{"Allreduce", ALLREDUCE, 0, 0},
                  {"product", ALLREDUCE, 1, 0},
                  {"float", ALLREDUCE, 0, 1},
                  {"Reduce", REDUCE, 0, 0},
                  {"Reduce_scatter_block", REDUCE_SCATTER_BLOCK, 0, 0},
                  {"Scan", SCAN, 0, 0},
                  {"Exscan", EXSCAN, 0, 0}};

static void maybe_delay(void)
{
    if (random_delays && rand_r(&random_delays) % 3 == 0)
        usleep((useconds_t)(rand_r(&random_delays) % 300));
}

static void check_reduction(unsigned which, const void *in, void *out, int count)
{
    uint64_t first = 0;
    size_t width = reductions[which].is_float ? sizeof(float) : sizeof(double);
    int is_block = reductions[which].operation == REDUCE_SCATTER_BLOCK;
    struct collective call =
        collective_of(reductions[which].operation, is_block ? count / ranks : count,
                      reductions[which].is_float ? MPI_FLOAT : MPI_DOUBLE, in, out);
    call.op = reductions[which].is_product ? MPI_PROD : MPI_SUM;
    call.root = count % ranks;
    int has_result = is_block || share_of(&call, rank, ranks, 0).operands;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        uint64_t all[RANKS_MAX] = {0};
        memset(out, 0, (size_t)count * sizeof(double));
        maybe_delay();
        collective_call(&call);
        uint64_t own = fnv(FNV_SEED, out, has_result ? (size_t)call.recvcount * width : 0);
        MPI_Allgather(&own, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, world);
        for (int i = 1; i < ranks && call.operation == ALLREDUCE; i++)
            wrong += all[i] != all[0];
        uint64_t together = fnv(FNV_SEED, all, sizeof(all[0]) * (size_t)ranks);
        wrong += repeat && together != first;
        first = together;
    }
    if (rank == 0)
        printf("%s of %d: %016llx\n", reductions[which].name, count, (unsigned long long)first);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 2, 14, 15, 64, 250, 257, 1000, 5000, COUNT_MAX};
    static double in[COUNT_MAX], out[COUNT_MAX];
    static float floats[COUNT_MAX];
    mpi_begin(&argc, &argv);
    random_delays = argc > 1 && atoi(argv[1]) ? (unsigned)(atoi(argv[1]) + rank) : 0;
    for (int i = 0; i < COUNT_MAX; i++) { /* of very different magnitudes */
        in[i] = (rank % 2 ? -1.0 : 1.0) / (3 + rank * 7 + i) * (double)(UINT64_C(1) << i % 50);
        in[i] *= (rank * 5 + i) % 3 ? 1 : 1e-9;
        floats[i] = (float)in[i];
    }
    for (unsigned which = 0; which < COUNT_OF(reductions); which++)
        for (unsigned i = 0; i < COUNT_OF(counts); i++)
            check_reduction(which, reductions[which].is_float ? (void *)floats : in, out,
                            counts[i]);
    return mpi_end();
}
