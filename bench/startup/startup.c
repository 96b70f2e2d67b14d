/* bench/startup/startup.c: an MPI program that only calls MPI_Init and MPI_Finalize. */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    return MPI_Finalize();
}
