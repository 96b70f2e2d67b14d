/* mpi_collectives_mismatch [copy] [barriers=N] [sums=N] WAY...: rank 1 makes another call than the
 * others, one way after another; first all ranks make so many calls that match. `copy`: on a copy
 * of MPI_COMM_WORLD. MPI leaves what follows undefined: only with ONESPACE_LOG=check does the next
 * way work. Prints how each call ended.
 *
 * mpi_collectives_mismatch sizes: gathers in which the root expects another size than it gets. */
#include "mpi/collectives/guests/collective.h"

enum { BYTES = 65536 };

static signed char in[BYTES], out[4 * BYTES];
static MPI_Comm comm;

static const struct way {
    const char *name;
    struct {
        enum operation operation;
        int count, root; /* of ints; for MPI_Bcast of bytes */
    } others, rank_1;
} ways[] = {
    {"count", {BCAST, 2048, 0}, {BCAST, 1024, 0}},
    {"root", {BCAST, 2, 0}, {BCAST, 2, 1}},
    {"operation", {ALLREDUCE, 1, 0}, {ALLREDUCE, 1, 0}},
    {"call", {BARRIER, 0, 0}, {ALLREDUCE, 1, 0}},
    {"gather", {GATHER, 2, 0}, {GATHER, 1, 0}},
    {"gatherv", {GATHER, 1, 0}, {GATHERV, 1, 0}},
    {"scatter", {SCATTER, 2, 0}, {SCATTER, 1, 0}},
    {"allgatherv", {ALLGATHERV, 1, 0}, {ALLGATHERV, 0, 0}},
    {"alltoall", {ALLTOALL, 1, 0}, {ALLTOALL, 2, 0}},
    {"alltoallv", {ALLTOALL, 1, 0}, {ALLTOALLV, 1, 0}},
    {"reduce_scatter", {REDUCE_SCATTER, 1, 0}, {REDUCE_SCATTER, 1, 0}},
    {"block", {REDUCE_SCATTER, 1, 0}, {REDUCE_SCATTER_BLOCK, 1, 0}},
    {"user_op_count", {ALLREDUCE, 4000, 0}, {ALLREDUCE, 2000, 0}},
};

static void print_result(const char *way, int error)
{
    int class = class_of(error);
    printf("rank %d, %s: %s\n", rank, way,
           class == MPI_SUCCESS        ? "no error"
           : class == MPI_ERR_TRUNCATE ? "truncated"
                                       : "failed");
    fflush(stdout);
}

static void add(void *from, void *into, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)into)[i] += ((int *)from)[i];
}

/* Rank 1 passes other counts for the ranks where only they differ. */
static void call_differently(const struct way *way)
{
    int same[RANKS_MAX], other[RANKS_MAX], displs[RANKS_MAX], is_other = rank == 1;
    enum operation operation = is_other ? way->rank_1.operation : way->others.operation;
    MPI_Op function;
    for (int i = 0; i < ranks; i++) {
        same[i] = other[i] = 1;
        displs[i] = 2 * i;
    }
    other[0] = 2;
    other[1] = 0; /* the same sum */
    MPI_Op_create(add, 1, &function);
    struct collective call = collective_of(
        operation, is_other ? way->rank_1.count : way->others.count, MPI_INT, in, out);
    int has_other_counts = is_other && way->others.operation == way->rank_1.operation;
    call.comm = comm;
    call.root = is_other ? way->rank_1.root : way->others.root;
    call.sendcounts = call.recvcounts = has_other_counts ? other : same;
    call.sdispls = call.rdispls = displs;
    if (strcmp(way->name, "operation") == 0 && is_other)
        call.op = MPI_MAX;
    if (strcmp(way->name, "user_op_count") == 0)
        call.op = function;
    if (strcmp(way->name, "allgatherv") == 0)
        call.sendtype = call.recvtype = MPI_BYTE;
    print_result(way->name, collective_call(&call));
    MPI_Op_free(&function);
}

/* ---- Gathers of sizes that differ ---- */

static void gather_sizes(int given, int expected)
{
    enum { GAP = -77 };
    memset(in, rank, sizeof(in));
    memset(out, GAP, sizeof(out));
    int class = class_of(
        MPI_Gather(in, rank ? given : expected, MPI_CHAR, out, expected, MPI_CHAR, 0, world));
    memset(in, GAP, sizeof(in)); /* the caller owns it again */
    for (int i = 0; rank == 0 && given <= expected && i < ranks * expected; i++)
        wrong += out[i] != (i % expected < (i < expected ? expected : given) ? i / expected : GAP);
    printf("rank %d, %d for %d: %s, %d wrong\n", rank, given, expected,
           class == MPI_ERR_TRUNCATE ? "truncated"
           : class                   ? "an error"
                                     : "no error",
           wrong);
}

/* Rank 1 makes another call, after so many that match: no rank waits for ever. */
static void gather_with_another_call(int matching)
{
    MPI_Comm copy;
    MPI_Comm_dup(world, &copy);
    while (matching--)
        MPI_Bcast(in, 1, MPI_CHAR, 0, copy);
    if (rank == 1)
        MPI_Alltoall(in, 1024, MPI_CHAR, out, 1024, MPI_CHAR, copy);
    else
        MPI_Gather(in, 16384, MPI_CHAR, out, 16384, MPI_CHAR, 0, copy);
}

static void gathers(void)
{
    static const int sizes[][2] = {{65536, 65536}, {65536, 32768}, {65536, 100},
                                   {32768, 65536}, {100, 65536},   {65536, 65536}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        gather_sizes(sizes[i][0], sizes[i][1]);
    for (int matching = 0; matching < 3; matching++)
        gather_with_another_call(matching);
}

int main(int argc, char **argv)
{
    int barriers = 0, sums = 0;
    mpi_begin(&argc, &argv);
    comm = world;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "copy") == 0)
            MPI_Comm_dup(world, &comm);
        else if (strcmp(argv[i], "sizes") == 0)
            gathers();
        else if (sscanf(argv[i], "barriers=%d", &barriers) == 1)
            while (barriers--)
                MPI_Barrier(comm);
        else if (sscanf(argv[i], "sums=%d", &sums) == 1)
            while (sums--)
                MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm);
        for (size_t k = 0; k < COUNT_OF(ways); k++)
            if (strcmp(argv[i], ways[k].name) == 0)
                call_differently(&ways[k]);
    }
    MPI_Finalize(); /* a launcher kills the others when a rank ends without it */
    return wrong != 0;
}
