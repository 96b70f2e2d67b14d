/* mpi_traced.c: calls that a profiling tool counts: messages, collective operations before and
 * after the layer begins with them, and a window. */
#include "mpi_check.h"

int main(int argc, char **argv)
{
    MPI_Win window;
    long *base, mine = 1;
    int sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 40; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 50; i++) {
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == ranks * (ranks - 1) / 2);
    }
    for (int i = 0; i < 60; i++)
        OK(MPI_Bcast(&sum, 1, MPI_INT, 0, MPI_COMM_WORLD));
    for (int i = 0; i < 7; i++)
        if (rank == 0)
            OK(MPI_Send(&sum, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
        else if (rank == 1)
            OK(MPI_Recv(&sum, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window));
    for (int i = 0; i < 9; i++) {
        OK(MPI_Win_fence(0, window));
        OK(MPI_Put(&mine, 1, MPI_LONG, (rank + 1) % ranks, 0, 1, MPI_LONG, window));
    }
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_free(&window));
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
