/* tests/launch/guests/mpi_many.c: the sum of all rank numbers, and a message that goes around
 * twice, to which each rank adds its number. Rank 0 says both. */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 2 };

/* The number that comes back to rank 0 in the end. */
static long pass_around(int rank, int ranks)
{
    long value = 0;
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    for (int round = 0; round < ROUNDS; round++) {
        if (rank != 0)
            MPI_Recv(&value, 1, MPI_LONG, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        value += rank;
        MPI_Send(&value, 1, MPI_LONG, next, round, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(&value, 1, MPI_LONG, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return value;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long sum = -1, number = rank, around = pass_around(rank, ranks);
    MPI_Allreduce(&number, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (sum != (long)ranks * (ranks - 1) / 2) {
        fprintf(stderr, "rank %d: the sum is %ld\n", rank, sum);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (rank == 0)
        printf("%d ranks, sum %ld, around %ld\n", ranks, sum, around);
    MPI_Finalize();
    return 0;
}
