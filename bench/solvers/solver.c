/* SOLVER [-b BATCHES] [-t MILLISECONDS] POINTS...
 *
 * Prints "name points seconds" for each batch, of one iteration, by the slowest rank; then
 * "name/result points value", what a run from the beginning results in. */
#include "solver.h"

#include <mpi.h>

#include "../lib/bench.h"

enum { ITERATIONS_MAX = 1000000 };

static struct bench_options options = BENCH_OPTIONS_INIT("");

static double time_of(int iterations)
{
    solver.begin();
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 1; i <= iterations; i++) {
        solver.iterate();
        if (i % solver.iterations == 0)
            solver.begin();
    }
    return bench_slowest((MPI_Wtime() - start) / iterations);
}

static void solve(int points, int rank, int ranks)
{
    solver.make(points, rank, ranks);
    /* So many that they fill a batch; the same on all ranks. */
    int iterations = (int)bench_calls(time_of(solver.iterations), options.batch_seconds,
                                      solver.iterations, ITERATIONS_MAX);
    for (int i = 0; i < options.batches; i++) {
        double seconds = time_of(iterations);
        if (rank == 0)
            bench_print(solver.name, points, seconds);
    }
    solver.begin();
    for (int i = 0; i < solver.iterations; i++)
        solver.iterate();
    double result = solver.result();
    if (rank == 0)
        printf("%s/result %d %.15g\n", solver.name, points, result);
    solver.free();
}

int main(int argc, char **argv)
{
    int rank, ranks, is_right = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int option; (option = getopt(argc, argv, BENCH_OPTIONS)) != -1;)
        is_right &= bench_option(&options, option, optarg);
    for (int i = optind; i < argc; i++)
        is_right &= atoi(argv[i]) >= ranks;
    if (!is_right)
        fprintf(stderr, "usage: %s [-b BATCHES] [-t MS] POINTS..., no fewer than ranks\n", argv[0]);
    for (int i = optind; is_right && i < argc; i++)
        solve(atoi(argv[i]), rank, ranks);
    MPI_Finalize();
    return is_right ? 0 : 2;
}
