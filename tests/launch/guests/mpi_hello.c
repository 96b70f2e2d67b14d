/* Says who it is, from within MPI; then its arguments. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, ranks, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d, sum %d\n", rank, ranks, sum);
    for (int i = 1; i < argc; i++)
        printf("rank %d argument %s\n", rank, argv[i]);
    MPI_Finalize();
    return 0;
}
