/* mpi_collectives_differ WHAT...: rank 1 makes another call than the others, one way after another.
 * MPI has each of these fail in undefined ways: only with ONESPACE_LOG=check the next one works. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RANKS = 16 };

static char data[8192], all[8192 * MOST_RANKS];
static int one = 1, sum, is_other, ranks;
static int same[MOST_RANKS], other[MOST_RANKS], places[MOST_RANKS];

static int bcast_of_another_size(void)
{
    return MPI_Bcast(data, is_other ? 4096 : 8192, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static int another_root(void)
{
    return MPI_Bcast(data, 8, MPI_BYTE, is_other, MPI_COMM_WORLD);
}

static int another_operation(void)
{
    return MPI_Allreduce(&one, &sum, 1, MPI_INT, is_other ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
}

static int another_call(void)
{
    return is_other ? MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)
                    : MPI_Barrier(MPI_COMM_WORLD);
}

static int gather_of_another_size(void)
{
    int count = is_other ? 4 : 8;
    return MPI_Gather(data, count, MPI_BYTE, all, count, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static int gather_or_gatherv(void)
{
    return is_other ? MPI_Gatherv(data, 1, MPI_INT, all, same, places, MPI_INT, 0, MPI_COMM_WORLD)
                    : MPI_Gather(data, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

static int scatter_of_another_size(void)
{
    int count = is_other ? 4 : 8;
    return MPI_Scatter(all, count, MPI_BYTE, data, count, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static int allgatherv_of_other_counts(void)
{
    const int *counts = is_other ? other : same;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return MPI_Allgatherv(data, counts[rank], MPI_BYTE, all, counts, places, MPI_BYTE,
                          MPI_COMM_WORLD);
}

static int alltoall_or_alltoallv(void)
{
    return is_other ? MPI_Alltoallv(data, same, places, MPI_INT, all, same, places, MPI_INT,
                                    MPI_COMM_WORLD)
                    : MPI_Alltoall(data, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
}

static int alltoall_of_another_size(void)
{
    int count = is_other ? 2 : 1;
    return MPI_Alltoall(data, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
}

static int reduce_scatter_of_other_counts(void)
{
    return MPI_Reduce_scatter(data, all, is_other ? other : same, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static int reduce_scatter_or_block(void)
{
    return is_other ? MPI_Reduce_scatter_block(data, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)
                    : MPI_Reduce_scatter(data, all, same, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    int (*call)(void);
} ways[] = {
    {"count", bcast_of_another_size},
    {"root", another_root},
    {"operation", another_operation},
    {"call", another_call},
    {"gather", gather_of_another_size},
    {"gatherv", gather_or_gatherv},
    {"scatter", scatter_of_another_size},
    {"allgatherv", allgatherv_of_other_counts},
    {"alltoall", alltoall_of_another_size},
    {"alltoallv", alltoall_or_alltoallv},
    {"reduce_scatter", reduce_scatter_of_other_counts},
    {"block", reduce_scatter_or_block},
};

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    is_other = rank == 1;
    for (int i = 0; i < ranks; i++) {
        same[i] = other[i] = 1;
        places[i] = 2 * i;
    }
    other[0] = 2;
    other[1] = 0; /* the same in all */
    for (int i = 1; i < argc; i++)
        for (unsigned k = 0; k < sizeof(ways) / sizeof(ways[0]); k++)
            if (strcmp(argv[i], ways[k].name) == 0)
                printf("rank %d, %s: %s\n", rank, argv[i],
                       ways[k].call() == MPI_SUCCESS ? "no error" : "failed");
    MPI_Finalize();
    return 0;
}
