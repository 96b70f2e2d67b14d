/* mpi_collectives_progress: rank 0 comes to a collective operation after it has sent a message that
 * its receiver, which already waits in that operation, has to answer: a rank that waits must make
 * the MPI library's progress. Each operation in which rank 1 waits for rank 0. */
#include "mpi/collectives/guests/collective.h"

enum { BYTES = 4 << 20 };

int main(int argc, char **argv)
{
    static const enum operation operations[] = {BCAST, BARRIER, ALLREDUCE, ALLTOALL};
    static char message[BYTES], data[BYTES];
    MPI_Request request;
    mpi_begin(&argc, &argv);
    for (int i = 0; i < (int)COUNT_OF(operations); i++) {
        int count = operations[i] == ALLTOALL ? BYTES / 2 / ranks : 8;
        struct collective call =
            collective_of(operations[i], count, MPI_BYTE, data, data + BYTES / 2);
        call.op = MPI_BXOR;
        memset(message, rank == 0 ? i + 1 : 0, BYTES);
        if (rank == 1)
            MPI_Irecv(message, BYTES, MPI_BYTE, 0, i, world, &request);
        if (rank == 0)
            MPI_Send(message, BYTES, MPI_BYTE, 1, i, world);
        collective_call(&call);
        if (rank == 1)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int at = 0; rank == 1 && at < BYTES; at++)
            wrong += message[at] != i + 1;
    }
    return mpi_end();
}
