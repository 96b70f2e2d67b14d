/* collectives [-o OPERATION,...] [-b BATCHES] [-t MILLISECONDS] [-f] SIZE...
 *
 * Times MPI's collective operations, one after another, nonblocking ones with their MPI_Wait; where
 * one rank is the root, it is another one each time, so that no rank runs ahead. Those that make
 * and free communicators, and the barrier, are timed at the first size only. SIZE: bytes from each
 * rank (alltoall and scatter: for each rank), a multiple of 8. -f: what a rank gives has just been
 * written, and it reads `SIZE` bytes of what it gets: else these stay where they were written.
 * Prints "operation/time size seconds" for each batch, the time of the slowest rank; and, of the
 * same batch, "operation/cpu size seconds": of CPU, all ranks together. */
#include <mpi.h>

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

static MPI_Op add; /* a function of the program */

static void add_doubles(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const double *from = in;
    double *to = inout;
    (void)type;
    for (int i = 0; i < *count; i++)
        to[i] += from[i];
}

enum call {
    BARRIER,
    DUP_FREE,
    DUP_BARRIER_FREE,
    BCAST,
    REDUCE,
    ALLREDUCE,
    ALLREDUCE_OWN,
    ALLREDUCE_MAXLOC,
    REDUCE_SCATTER,
    REDUCE_SCATTER_UNEVEN,
    SCAN,
    EXSCAN,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    IBARRIER,
    IBCAST,
    IREDUCE,
    IALLREDUCE,
    IGATHER,
    ISCATTER,
    IALLGATHER,
    IALLTOALL,
    CALLS
};

static const struct operation {
    const char *name;
    int sends_to_each; /* `bytes` for each rank */
    int has_no_size;
} operations[CALLS] = {
    [BARRIER] = {"barrier", 0, 1},
    [DUP_FREE] = {"dup_free", 0, 1},
    [DUP_BARRIER_FREE] = {"dup_barrier_free", 0, 1},
    [BCAST] = {"bcast", 0, 0},
    [REDUCE] = {"reduce", 0, 0},
    [ALLREDUCE] = {"allreduce", 0, 0},
    [ALLREDUCE_OWN] = {"allreduce_own", 0, 0},
    [ALLREDUCE_MAXLOC] = {"allreduce_maxloc", 0, 0},
    [REDUCE_SCATTER] = {"reduce_scatter", 1, 0},
    [REDUCE_SCATTER_UNEVEN] = {"reduce_scatter_uneven", 1, 0},
    [SCAN] = {"scan", 0, 0},
    [EXSCAN] = {"exscan", 0, 0},
    [GATHER] = {"gather", 0, 0},
    [GATHERV] = {"gatherv", 0, 0},
    [SCATTER] = {"scatter", 1, 0},
    [SCATTERV] = {"scatterv", 1, 0},
    [ALLGATHER] = {"allgather", 0, 0},
    [ALLGATHERV] = {"allgatherv", 0, 0},
    [ALLTOALL] = {"alltoall", 1, 0},
    [ALLTOALLV] = {"alltoallv", 1, 0},
    [ALLTOALLW] = {"alltoallw", 1, 0},
    [IBARRIER] = {"ibarrier", 0, 1},
    [IBCAST] = {"ibcast", 0, 0},
    [IREDUCE] = {"ireduce", 0, 0},
    [IALLREDUCE] = {"iallreduce", 0, 0},
    [IGATHER] = {"igather", 0, 0},
    [ISCATTER] = {"iscatter", 1, 0},
    [IALLGATHER] = {"iallgather", 0, 0},
    [IALLTOALL] = {"ialltoall", 1, 0},
};

static void start_and_wait(enum call which, const struct state *s, int root)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL;
    switch (which) {
    case IBARRIER:
        MPI_Ibarrier(world, &request);
        break;
    case IBCAST:
        MPI_Ibcast(s->rank == root ? s->sendbuf : s->recvbuf, s->bytes, MPI_BYTE, root, world,
                   &request);
        break;
    case IREDUCE:
        MPI_Ireduce(s->sendbuf, s->recvbuf, s->count, MPI_DOUBLE, MPI_SUM, root, world, &request);
        break;
    case IALLREDUCE:
        MPI_Iallreduce(s->sendbuf, s->recvbuf, s->count, MPI_DOUBLE, MPI_SUM, world, &request);
        break;
    case IGATHER:
        MPI_Igather(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->bytes, MPI_BYTE, root, world,
                    &request);
        break;
    case ISCATTER:
        MPI_Iscatter(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->bytes, MPI_BYTE, root, world,
                     &request);
        break;
    case IALLGATHER:
        MPI_Iallgather(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->bytes, MPI_BYTE, world,
                       &request);
        break;
    default:
        MPI_Ialltoall(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->bytes, MPI_BYTE, world,
                      &request);
        break;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void call_once(enum call which, const struct state *s, int root)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    MPI_Comm copy;
    switch (which) {
    case BARRIER:
        MPI_Barrier(world);
        break;
    case DUP_FREE:
    case DUP_BARRIER_FREE:
        MPI_Comm_dup(world, &copy);
        if (which == DUP_BARRIER_FREE)
            MPI_Barrier(copy);
        MPI_Comm_free(&copy);
        break;
    case BCAST:
        MPI_Bcast(s->rank == root ? s->sendbuf : s->recvbuf, s->bytes, MPI_BYTE, root, world);
        break;
    case REDUCE:
        MPI_Reduce(s->sendbuf, s->recvbuf, s->count, MPI_DOUBLE, MPI_SUM, root, world);
        break;
    case ALLREDUCE:
    case ALLREDUCE_OWN:
        MPI_Allreduce(s->sendbuf, s->recvbuf, s->count, MPI_DOUBLE,
                      which == ALLREDUCE ? MPI_SUM : add, world);
        break;
    case ALLREDUCE_MAXLOC: /* pairs with gaps: an item is two doubles wide */
        MPI_Allreduce(s->sendbuf, s->recvbuf, (s->count + 1) / 2, MPI_DOUBLE_INT, MPI_MAXLOC,
                      world);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(s->sendbuf, s->recvbuf, s->count, MPI_DOUBLE, MPI_SUM, world);
        break;
    case REDUCE_SCATTER_UNEVEN:
        MPI_Reduce_scatter(s->sendbuf, s->recvbuf, s->uneven, MPI_DOUBLE, MPI_SUM, world);
        break;
    case SCAN:
        MPI_Scan(s->sendbuf, s->recvbuf, s->count, MPI_DOUBLE, MPI_SUM, world);
        break;
    case EXSCAN:
        MPI_Exscan(s->sendbuf, s->recvbuf, s->count, MPI_DOUBLE, MPI_SUM, world);
        break;
    case GATHER:
        MPI_Gather(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->bytes, MPI_BYTE, root, world);
        break;
    case GATHERV:
        MPI_Gatherv(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->counts, s->displs, MPI_BYTE,
                    root, world);
        break;
    case SCATTER:
        MPI_Scatter(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->bytes, MPI_BYTE, root, world);
        break;
    case SCATTERV:
        MPI_Scatterv(s->sendbuf, s->counts, s->displs, MPI_BYTE, s->recvbuf, s->bytes, MPI_BYTE,
                     root, world);
        break;
    case ALLGATHER:
        MPI_Allgather(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->bytes, MPI_BYTE, world);
        break;
    case ALLGATHERV:
        MPI_Allgatherv(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->counts, s->displs, MPI_BYTE,
                       world);
        break;
    case ALLTOALL:
        MPI_Alltoall(s->sendbuf, s->bytes, MPI_BYTE, s->recvbuf, s->bytes, MPI_BYTE, world);
        break;
    case ALLTOALLV:
        MPI_Alltoallv(s->sendbuf, s->counts, s->displs, MPI_BYTE, s->recvbuf, s->counts, s->displs,
                      MPI_BYTE, world);
        break;
    case ALLTOALLW:
        MPI_Alltoallw(s->sendbuf, s->counts, s->displs, s->types, s->recvbuf, s->counts, s->displs,
                      s->types, world);
        break;
    default:
        start_and_wait(which, s, root);
        break;
    }
}

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

static void repeat(enum call which, const struct state *state, long count)
{
    size_t given =
        (size_t)state->bytes * (size_t)(operations[which].sends_to_each ? state->ranks : 1);
    for (long i = 0; i < count; i++) {
        if (options.fresh)
            memset(state->sendbuf, (int)(i & 1), given); /* as doubles 0 or tiny: never NaN */
        call_once(which, state, (int)(i % state->ranks));
        if (options.fresh)
            read_result(state);
    }
}

static double run_batch(enum call which, const struct state *state, long count, double *cpu)
{
    double mine[2];
    repeat(which, state, WARM_UP);
    MPI_Barrier(MPI_COMM_WORLD);
    mine[1] = cpu_seconds();
    mine[0] = MPI_Wtime();
    repeat(which, state, count);
    mine[0] = (MPI_Wtime() - mine[0]) / (double)count;
    mine[1] = (cpu_seconds() - mine[1]) / (double)count;
    MPI_Allreduce(&mine[1], cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return bench_slowest(mine[0]);
}

static void measure(enum call which, struct state *state, int bytes)
{
    const char *name = operations[which].name;
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
        double seconds = run_batch(which, state, count, &cpu);
        double target = attempt == 0 ? options.batch_seconds / 10 : options.batch_seconds;
        count = bench_calls(seconds, target, state->ranks, CALLS_MAX);
    }
    for (int batch = 0; batch < options.batches; batch++) {
        double seconds = run_batch(which, state, count, &cpu);
        if (state->rank == 0)
            printf("%s/time %d %.9e\n%s/cpu %d %.9e\n", name, bytes, seconds, name, bytes, cpu);
    }
    if (state->rank == 0)
        fflush(stdout);
}

static int usage(const char *why)
{
    fprintf(stderr, "collectives: %s; usage: [-o OPERATIONS] [-b BATCHES] [-t MS] [-f] SIZE...\n",
            why);
    return 2;
}

static int run(int argc, char **argv)
{
    struct state state;
    size_t largest = 8;
    MPI_Comm_rank(MPI_COMM_WORLD, &state.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &state.ranks);
    for (int option; (option = getopt(argc, argv, BENCH_OPTIONS)) != -1;)
        if (!bench_option(&options, option, optarg))
            return usage("unknown option");
    for (int i = optind; i < argc; i++) {
        if (atoi(argv[i]) < 8 || atoi(argv[i]) % 8)
            return usage("a size is not a multiple of 8");
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
    for (int which = 0; which < CALLS; which++)
        for (int i = optind; i < argc && bench_list_has(options.operations, operations[which].name);
             i++)
            if (i == optind || !operations[which].has_no_size)
                measure((enum call)which, &state, atoi(argv[i]));
    free(state.sendbuf);
    free(state.recvbuf);
    free(state.counts);
    free(state.displs);
    free(state.uneven);
    free(state.types);
    MPI_Op_free(&add);
    return 0;
}

int main(int argc, char **argv)
{
    return bench_run_job(argc, argv, run);
}
