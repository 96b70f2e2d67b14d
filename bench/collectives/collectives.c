/* collectives [-o OPERATION,...] [-b BATCHES] [-t MILLISECONDS] [-f] SIZE...
 *
 * Times MPI's blocking collective operations, one after another; where one rank is the root, it is
 * another one each time, so that no rank runs ahead. Those that make and free communicators, and
 * the barrier, are timed at the first size only. SIZE: bytes from each rank (alltoall and scatter:
 * for each rank), a multiple of 8. -f: what a rank gives has just been written, and
 * it reads `SIZE` bytes of what it gets: else these stay where they were written. Prints
 * "operation/time size seconds" for each batch, the time of the slowest rank; and, of the same
 * batch, "operation/cpu size seconds": of CPU, all ranks together. */
#include <mpi.h>
#include <sys/resource.h>

#include "../lib/bench.h"

enum { WARM_UP = 4, CALLS_MAX = 1000000 };

static struct bench_options options = BENCH_OPTIONS_INIT("barrier,bcast,allreduce");

/* The buffers and counts of this rank. */
struct state {
    int rank, ranks, bytes, count; /* count: of doubles */
    char *sendbuf, *recvbuf;
    int *counts, *displs, *uneven; /* uneven: of doubles, the same in all as `count` of each rank */
    MPI_Datatype *types;
};

static void barrier(const struct state *state, int root)
{
    (void)state, (void)root;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(const struct state *state, int root)
{
    MPI_Bcast(state->rank == root ? state->sendbuf : state->recvbuf, state->bytes, MPI_BYTE, root,
              MPI_COMM_WORLD);
}

static void reduce(const struct state *state, int root)
{
    MPI_Reduce(state->sendbuf, state->recvbuf, state->count, MPI_DOUBLE, MPI_SUM, root,
               MPI_COMM_WORLD);
}

static void allreduce(const struct state *state, int root)
{
    (void)root;
    MPI_Allreduce(state->sendbuf, state->recvbuf, state->count, MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
}

static MPI_Op add; /* a function of the program */

static void add_doubles(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const double *from = in;
    double *to = inout;
    (void)type;
    for (int i = 0; i < *count; i++)
        to[i] += from[i];
}

static void allreduce_own(const struct state *state, int root)
{
    (void)root;
    MPI_Allreduce(state->sendbuf, state->recvbuf, state->count, MPI_DOUBLE, add, MPI_COMM_WORLD);
}

/* Pairs with gaps: an item is two doubles wide. */
static void allreduce_maxloc(const struct state *state, int root)
{
    (void)root;
    MPI_Allreduce(state->sendbuf, state->recvbuf, (state->count + 1) / 2, MPI_DOUBLE_INT,
                  MPI_MAXLOC, MPI_COMM_WORLD);
}

static void reduce_scatter(const struct state *state, int root)
{
    (void)root;
    MPI_Reduce_scatter_block(state->sendbuf, state->recvbuf, state->count, MPI_DOUBLE, MPI_SUM,
                             MPI_COMM_WORLD);
}

static void reduce_scatter_uneven(const struct state *state, int root)
{
    (void)root;
    MPI_Reduce_scatter(state->sendbuf, state->recvbuf, state->uneven, MPI_DOUBLE, MPI_SUM,
                       MPI_COMM_WORLD);
}

static void scan(const struct state *state, int root)
{
    (void)root;
    MPI_Scan(state->sendbuf, state->recvbuf, state->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void exscan(const struct state *state, int root)
{
    (void)root;
    MPI_Exscan(state->sendbuf, state->recvbuf, state->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void gather(const struct state *state, int root)
{
    MPI_Gather(state->sendbuf, state->bytes, MPI_BYTE, state->recvbuf, state->bytes, MPI_BYTE, root,
               MPI_COMM_WORLD);
}

static void gatherv(const struct state *state, int root)
{
    MPI_Gatherv(state->sendbuf, state->bytes, MPI_BYTE, state->recvbuf, state->counts,
                state->displs, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void scatter(const struct state *state, int root)
{
    MPI_Scatter(state->sendbuf, state->bytes, MPI_BYTE, state->recvbuf, state->bytes, MPI_BYTE,
                root, MPI_COMM_WORLD);
}

static void scatterv(const struct state *state, int root)
{
    MPI_Scatterv(state->sendbuf, state->counts, state->displs, MPI_BYTE, state->recvbuf,
                 state->bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void allgather(const struct state *state, int root)
{
    (void)root;
    MPI_Allgather(state->sendbuf, state->bytes, MPI_BYTE, state->recvbuf, state->bytes, MPI_BYTE,
                  MPI_COMM_WORLD);
}

static void allgatherv(const struct state *state, int root)
{
    (void)root;
    MPI_Allgatherv(state->sendbuf, state->bytes, MPI_BYTE, state->recvbuf, state->counts,
                   state->displs, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(const struct state *state, int root)
{
    (void)root;
    MPI_Alltoall(state->sendbuf, state->bytes, MPI_BYTE, state->recvbuf, state->bytes, MPI_BYTE,
                 MPI_COMM_WORLD);
}

static void alltoallv(const struct state *state, int root)
{
    (void)root;
    MPI_Alltoallv(state->sendbuf, state->counts, state->displs, MPI_BYTE, state->recvbuf,
                  state->counts, state->displs, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoallw(const struct state *state, int root)
{
    (void)root;
    MPI_Alltoallw(state->sendbuf, state->counts, state->displs, state->types, state->recvbuf,
                  state->counts, state->displs, state->types, MPI_COMM_WORLD);
}

static void dup_free(const struct state *state, int root)
{
    MPI_Comm made;
    (void)state, (void)root;
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Comm_free(&made);
}

static void dup_barrier_free(const struct state *state, int root)
{
    MPI_Comm made;
    (void)state, (void)root;
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Barrier(made);
    MPI_Comm_free(&made);
}

static const struct operation {
    const char *name;
    void (*call)(const struct state *state, int root);
    int sends_to_each; /* `bytes` for each rank */
    int has_no_size;
} operations[] = {
    {"barrier", barrier, 0, 1},
    {"dup_free", dup_free, 0, 1},
    {"dup_barrier_free", dup_barrier_free, 0, 1},
    {"bcast", bcast, 0, 0},
    {"reduce", reduce, 0, 0},
    {"allreduce", allreduce, 0, 0},
    {"allreduce_own", allreduce_own, 0, 0},
    {"allreduce_maxloc", allreduce_maxloc, 0, 0},
    {"reduce_scatter", reduce_scatter, 1, 0},
    {"reduce_scatter_uneven", reduce_scatter_uneven, 1, 0},
    {"scan", scan, 0, 0},
    {"exscan", exscan, 0, 0},
    {"gather", gather, 0, 0},
    {"gatherv", gatherv, 0, 0},
    {"scatter", scatter, 1, 0},
    {"scatterv", scatterv, 1, 0},
    {"allgather", allgather, 0, 0},
    {"allgatherv", allgatherv, 0, 0},
    {"alltoall", alltoall, 1, 0},
    {"alltoallv", alltoallv, 1, 0},
    {"alltoallw", alltoallw, 1, 0},
};
enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* One word of each cache line. */
static void read_result(const struct state *state)
{
    const volatile char *recvbuf = state->recvbuf;
    for (int at = 0; at < state->bytes; at += 64)
        (void)recvbuf[at];
}

static void repeat(const struct operation *operation, const struct state *state, long count)
{
    size_t given = (size_t)state->bytes * (size_t)(operation->sends_to_each ? state->ranks : 1);
    for (long i = 0; i < count; i++) {
        if (options.fresh)
            memset(state->sendbuf, (int)(i & 1), given); /* as doubles 0 or tiny: never NaN */
        operation->call(state, (int)(i % state->ranks));
        if (options.fresh)
            read_result(state);
    }
}

static double run_batch(const struct operation *operation, const struct state *state, long count,
                        double *cpu)
{
    double mine[2], slowest, together;
    repeat(operation, state, WARM_UP);
    MPI_Barrier(MPI_COMM_WORLD);
    mine[1] = cpu_seconds();
    mine[0] = MPI_Wtime();
    repeat(operation, state, count);
    mine[0] = (MPI_Wtime() - mine[0]) / (double)count;
    mine[1] = (cpu_seconds() - mine[1]) / (double)count;
    MPI_Allreduce(&mine[0], &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&mine[1], &together, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    *cpu = together;
    return slowest;
}

static void measure(const struct operation *operation, struct state *state, int bytes)
{
    double cpu;
    long count = 8;
    state->bytes = bytes;
    state->count = bytes / (int)sizeof(double);
    for (int i = 0; i < state->ranks; i++) {
        int is_paired = (i | 1) < state->ranks;
        state->counts[i] = bytes;
        state->displs[i] = i * bytes;
        state->uneven[i] =
            is_paired ? state->count + (i % 2 ? -1 : 1) * (state->count / 2) : state->count;
    }
    for (int attempt = 0; attempt < 2; attempt++) { /* the second has a reliable estimate */
        double seconds = run_batch(operation, state, count, &cpu);
        double target = attempt == 0 ? options.batch_seconds / 10 : options.batch_seconds;
        count = seconds > 0 ? (long)(target / seconds) : CALLS_MAX;
        count = count < state->ranks ? state->ranks : count > CALLS_MAX ? CALLS_MAX : count;
    }
    for (int batch = 0; batch < options.batches; batch++) {
        double seconds = run_batch(operation, state, count, &cpu);
        if (state->rank == 0)
            printf("%s/time %d %.9e\n%s/cpu %d %.9e\n", operation->name, bytes, seconds,
                   operation->name, bytes, cpu);
    }
    if (state->rank == 0)
        fflush(stdout);
}

static int usage(const char *why)
{
    fprintf(stderr, "collectives: %s; usage: [-o OPERATIONS] [-b BATCHES] [-t MS] [-f] SIZE...\n",
            why);
    MPI_Finalize();
    return 2;
}

int main(int argc, char **argv)
{
    struct state state;
    size_t largest = 8;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &state.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &state.ranks);
    for (int option; (option = getopt(argc, argv, BENCH_OPTIONS)) != -1;)
        if (!bench_option(&options, option, optarg))
            return usage("unknown option");
    for (int i = optind; i < argc; i++) {
        if (atoi(argv[i]) < 8 || atoi(argv[i]) % 8)
            return usage("a size is no multiple of 8");
        largest = (size_t)atoi(argv[i]) > largest ? (size_t)atoi(argv[i]) : largest;
    }
    MPI_Op_create(add_doubles, 1, &add);
    state.sendbuf = bench_allocate_pages(largest * (size_t)state.ranks);
    state.recvbuf = bench_allocate_pages(largest * (size_t)state.ranks);
    state.counts = bench_allocate_pages((size_t)state.ranks * sizeof(int));
    state.displs = bench_allocate_pages((size_t)state.ranks * sizeof(int));
    state.uneven = bench_allocate_pages((size_t)state.ranks * sizeof(int));
    state.types = bench_allocate_pages((size_t)state.ranks * sizeof(MPI_Datatype));
    for (int i = 0; i < state.ranks; i++)
        state.types[i] = MPI_BYTE;
    for (int which = 0; which < OPERATIONS; which++)
        for (int i = optind; i < argc && bench_list_has(options.operations, operations[which].name);
             i++)
            if (i == optind || !operations[which].has_no_size)
                measure(&operations[which], &state, atoi(argv[i]));
    free(state.sendbuf);
    free(state.recvbuf);
    free(state.counts);
    free(state.displs);
    free(state.uneven);
    free(state.types);
    MPI_Op_free(&add);
    MPI_Finalize();
    return 0;
}
