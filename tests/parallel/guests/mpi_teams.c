/* MPI ranks that are tasks form teams of the given size, which work on one array each; a rank
 * speaks for itself with the ranks of its number in the other teams, as threads with
 * MPI_THREAD_MULTIPLE would. The last line of main says whether the sum is right. */
#include <mpi.h>
#include <onespace/parallel.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 1000 };

struct part {
    double *cells;
    int first;
};

static void fill(long begin, long end, void *argument)
{
    struct part *part = argument;
    for (long i = begin; i < end; i++)
        part->cells[i] = part->first + (double)i;
}

int main(int argc, char **argv)
{
    struct onespace_parallel *team;
    int rank, ranks, size = atoi(argv[1]);
    MPI_Comm peers;
    void *cells;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int result = onespace_parallel_join(&team, size);
    if (result < 0 || onespace_parallel_shared(team, "cells", LENGTH * sizeof(double), &cells) < 0)
        return printf("join: %d\n", result) > 0;
    int me = onespace_parallel_number(team);
    MPI_Comm_split(MPI_COMM_WORLD, me, rank, &peers);
    struct part part = {cells, rank - me};
    double sum = 0, all = 0, expected = 0;
    if (onespace_parallel_for(team, 0, LENGTH, ONESPACE_PARALLEL_STATIC, fill, &part) < 0)
        return 1;
    for (int i = me; i < LENGTH; i += size)
        sum += part.cells[LENGTH - 1 - i];
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, peers);
    if (onespace_parallel_reduce(team, &all, 1, ONESPACE_PARALLEL_DOUBLE, ONESPACE_PARALLEL_SUM) <
        0)
        return 1;
    for (int first = 0; first < ranks; first += size)
        for (int i = 0; i < LENGTH; i++)
            expected += first + i;
    printf("rank %d is %d of %d: %s\n", rank, me, onespace_parallel_count(team),
           all == expected ? "right" : "wrong");
    MPI_Comm_free(&peers);
    result = onespace_parallel_fini(team);
    MPI_Finalize();
    return result < 0;
}
