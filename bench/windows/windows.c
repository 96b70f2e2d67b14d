/* bench/windows/windows.c: creates shared windows, or uses one for a five-point stencil.
 *
 * windows create [-a] [-n REPEATS] SIZE...
 *
 * "create SIZE SECONDS": the median time to create one of SIZE bytes per rank (-a:
 * MPI_Win_allocate).
 *
 * windows memory [-n REPEATS] SIZE...
 *
 * "memory SIZE SECONDS": the limit, mapping as much memory for all ranks in one process.
 *
 * windows stencil [-t] [-n ITERATIONS] EDGE
 *
 * "faults RANKS COUNT" and "loop RANKS SECONDS": page faults of all ranks, and time, of a loop over
 * a grid of EDGE x EDGE doubles in shared windows; -t: each rank has written its part before.
 *
 * windows clear SIZE
 *
 * "clear RANKS SECONDS": the limit of a first use, each rank writing to SIZE bytes of fresh memory,
 * private to it and in huge pages, at the same time. */
#include <mpi.h>
#include <sys/mman.h>

#include "../lib/bench.h"

enum { WARM_UP = 3 };

static int rank, ranks, repeats, is_plain, is_touched;

/* ---- Creating windows ---- */

static double make_once(long size)
{
    MPI_Win window;
    void *base;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), time;
    if (is_plain)
        MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    else
        MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    time = MPI_Wtime() - start;
    MPI_Win_free(&window);
    return time;
}

static double map_once(long size)
{
    double start = MPI_Wtime(), time;
    size_t whole = (size_t)size * (size_t)ranks;
    void *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    time = MPI_Wtime() - start;
    munmap(memory, whole);
    return time;
}

static void measure(const char *what, double (*once)(long), long size)
{
    double *times = bench_allocate((size_t)repeats * sizeof(double));
    for (int i = -WARM_UP; i < repeats; i++)
        times[i < 0 ? 0 : i] = once(size);
    /* Creation ends when the last rank has the window. */
    double slowest = bench_slowest(bench_median(times, repeats));
    if (rank == 0)
        bench_print(what, size, slowest);
    free(times);
}

static void clear_memory(long size)
{
    double time;
    char *memory =
        mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    madvise(memory, (size_t)size, MADV_HUGEPAGE);
    MPI_Barrier(MPI_COMM_WORLD);
    time = MPI_Wtime();
    memset(memory, 1, (size_t)size);
    double longest = bench_slowest(MPI_Wtime() - time);
    if (rank == 0)
        printf("clear %d %.9f\n", ranks, longest);
    munmap(memory, (size_t)size);
}

/* ---- The stencil ---- */

struct strip { /* this rank's rows, and the adjacent rows in the neighbours' memory */
    double *rows, *above, *below;
    long count;
    MPI_Win window;
};

static long rows_of(int which, long edge)
{
    return edge / ranks + (which < edge % ranks);
}

static double *row_of_neighbour(MPI_Win window, int other, long row, long edge)
{
    MPI_Aint size;
    int unit;
    double *base;
    MPI_Win_shared_query(window, other, &size, &unit, &base);
    return base + row * edge;
}

static struct strip make_strip(long edge)
{
    struct strip strip = {.count = rows_of(rank, edge)};
    MPI_Win_allocate_shared(strip.count * edge * (long)sizeof(double), sizeof(double),
                            MPI_INFO_NULL, MPI_COMM_WORLD, &strip.rows, &strip.window);
    if (rank > 0)
        strip.above = row_of_neighbour(strip.window, rank - 1, rows_of(rank - 1, edge) - 1, edge);
    if (rank + 1 < ranks)
        strip.below = row_of_neighbour(strip.window, rank + 1, 0, edge);
    if (is_touched)
        memset(strip.rows, 0, (size_t)(strip.count * edge) * sizeof(double));
    return strip;
}

/* Outside the grid it is cold. */
static void relax(const struct strip *from, struct strip *to, long edge, const double *cold)
{
    for (long row = 0; row < from->count; row++) {
        const double *here = from->rows + row * edge;
        const double *above = row > 0 ? here - edge : from->above ? from->above : cold;
        const double *below = row + 1 < from->count ? here + edge
                              : from->below         ? from->below
                                                    : cold;
        double *out = to->rows + row * edge;
        for (long column = 1; column + 1 < edge; column++)
            out[column] = here[column] / 2 +
                          (here[column - 1] + here[column + 1] + above[column] + below[column]) / 8;
    }
}

/* Heat flows in at the middle of the grid. Its sum is printed, which reveals wrong results. */
static void run_stencil(long edge)
{
    struct strip grids[2] = {make_strip(edge), make_strip(edge)};
    double *cold = calloc((size_t)edge, sizeof(double)), time, longest, heat = 0, all;
    long faults, total, middle = edge / 2, first = 0;
    for (int i = 0; i < rank; i++)
        first += rows_of(i, edge);
    MPI_Win_fence(0, grids[0].window);
    faults = bench_faults(RUSAGE_SELF);
    time = MPI_Wtime();
    for (int i = 0; i < repeats; i++) {
        if (middle >= first && middle < first + grids[0].count)
            grids[i % 2].rows[(middle - first) * edge + middle] += 1;
        MPI_Win_fence(0, grids[i % 2].window);
        relax(&grids[i % 2], &grids[1 - i % 2], edge, cold);
        MPI_Win_fence(0, grids[1 - i % 2].window);
    }
    time = MPI_Wtime() - time;
    faults = bench_faults(RUSAGE_SELF) - faults;
    for (long i = 0; i < grids[0].count * edge; i++)
        heat += grids[repeats % 2].rows[i];
    MPI_Reduce(&faults, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&time, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&heat, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("faults %d %ld\nloop %d %.9f\nheat %d %.6f\n", ranks, total, ranks,
               longest / repeats, ranks, all);
    MPI_Win_free(&grids[0].window);
    MPI_Win_free(&grids[1].window);
    free(cold);
}

static int fail(void)
{
    if (rank == 0)
        fprintf(stderr,
                "usage: windows create|memory|clear|stencil [-a] [-t] [-n TIMES] SIZE...\n");
    MPI_Finalize();
    return 2;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *what = argc > 1 ? argv[1] : "";
    repeats = 51;
    optind = 2;
    for (int option; (option = getopt(argc, argv, "atn:")) != -1;)
        if (option == 'a')
            is_plain = 1;
        else if (option == 't')
            is_touched = 1;
        else if (option != 'n' || (repeats = atoi(optarg)) < 1)
            return fail();
    if (optind >= argc)
        return fail();
    for (int i = optind; i < argc; i++)
        if (strcmp(what, "create") == 0)
            measure("create", make_once, atol(argv[i]));
        else if (strcmp(what, "memory") == 0)
            measure("memory", map_once, atol(argv[i]));
        else if (strcmp(what, "clear") == 0 && atol(argv[i]) > 0)
            clear_memory(atol(argv[i]));
        else if (strcmp(what, "stencil") == 0 && atol(argv[i]) > 2 * ranks)
            run_stencil(atol(argv[i]));
        else
            return fail();
    MPI_Finalize();
    return 0;
}
