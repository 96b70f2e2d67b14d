/* bench/miniapps/empty.c: initializes and finalizes MPI: the cost of the launcher, the libraries
 * and MPI itself. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    double start = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("barrier %.9f\n", MPI_Wtime() - start);
    return MPI_Finalize();
}
