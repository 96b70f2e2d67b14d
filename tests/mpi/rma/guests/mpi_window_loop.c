/* mpi_window_loop: rank 0 posts a large receive, and loops over operations on a window, none of
 * which waits, until rank 1, which sends first, has changed the window. So these operations must
 * make progress. */
#include <stdlib.h>

#include "mpi/guests/mpi_check.h"

enum { ROUNDS = 5, BYTES = 1 << 20 };

static MPI_Win window;

static long fetch_and_add(long value)
{
    long before = -1;
    OK(MPI_Fetch_and_op(&value, &before, MPI_LONG, 0, 0, MPI_SUM, window));
    OK(MPI_Win_flush(0, window));
    return before;
}

int main(int argc, char **argv)
{
    long *base;
    char *message = calloc(1, BYTES);
    mpi_begin(&argc, &argv);
    OK(MPI_Win_allocate(sizeof(*base), sizeof(*base), MPI_INFO_NULL, world, &base, &window));
    *base = 0;
    MPI_Barrier(world);
    OK(MPI_Win_lock_all(0, window));
    for (int round = 1; round <= ROUNDS; round++) {
        MPI_Request receive;
        if (rank == 0) {
            OK(MPI_Irecv(message, BYTES, MPI_CHAR, 1, 0, world, &receive));
            while (fetch_and_add(0) < round)
                ;
            OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
            CHECK(message[BYTES - 1] == round);
        } else if (rank == 1) {
            memset(message, round, BYTES);
            OK(MPI_Send(message, BYTES, MPI_CHAR, 0, 0, world));
            (void)fetch_and_add(1);
        }
    }
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
    free(message);
    return mpi_end();
}
