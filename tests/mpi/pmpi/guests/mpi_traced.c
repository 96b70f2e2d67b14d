/* mpi_traced: calls that a profiling tool counts: messages, collective operations before and
 * after the layer begins with them, and a window. */
#include "mpi/guests/mpi_check.h"

int main(int argc, char **argv)
{
    MPI_Win window;
    long *base, own = 1;
    int sum;
    mpi_begin(&argc, &argv);
    for (int i = 0; i < 40; i++)
        OK(MPI_Barrier(world));
    for (int i = 0; i < 50; i++) {
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, world));
        CHECK(sum == ranks * (ranks - 1) / 2);
    }
    for (int i = 0; i < 60; i++)
        OK(MPI_Bcast(&sum, 1, MPI_INT, 0, world));
    for (int i = 0; i < 7; i++)
        if (rank == 0)
            OK(MPI_Send(&sum, 1, MPI_INT, 1, 0, world));
        else if (rank == 1)
            OK(MPI_Recv(&sum, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE));
    OK(MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, world, &base, &window));
    for (int i = 0; i < 9; i++) {
        OK(MPI_Win_fence(0, window));
        OK(MPI_Put(&own, 1, MPI_LONG, next_rank, 0, 1, MPI_LONG, window));
    }
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_free(&window));
    return mpi_end();
}
