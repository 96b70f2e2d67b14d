/* Each rank sends the address of a static array to its right neighbour, which reads it there. */
#include <mpi.h>
#include <stdio.h>

static int numbers[1000];

int main(int argc, char **argv)
{
    int rank, ranks, wrong = 0, *own = numbers, *theirs;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int left = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 1000; i++)
        numbers[i] = rank * 1000 + i;
    MPI_Sendrecv(&own, sizeof(own), MPI_BYTE, (rank + 1) % ranks, 0, &theirs, sizeof(theirs),
                 MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 1000; i++)
        wrong += theirs[i] != left * 1000 + i;
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong != 0;
}
