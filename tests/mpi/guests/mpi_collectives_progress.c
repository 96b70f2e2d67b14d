/* mpi_collectives_progress: rank 0 comes to a collective operation after it has sent a message that
 * its receiver, which already waits in that operation, has to answer: a rank that waits must make
 * the MPI library's progress. Each operation in which rank 1 waits for rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4 << 20, OPERATIONS = 4 };

static int rank, ranks;

static void wait_for_rank_0(int what, char *data)
{
    int one = 1, sum = 0;
    if (what == 0)
        MPI_Bcast(data, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
    else if (what == 1)
        MPI_Barrier(MPI_COMM_WORLD);
    else if (what == 2)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Alltoall(data, BYTES / 2 / ranks, MPI_BYTE, data + BYTES / 2, BYTES / 2 / ranks,
                     MPI_BYTE, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int wrong = 0;
    char *message = malloc(BYTES), *data = calloc(1, BYTES);
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int what = 0; what < OPERATIONS; what++) {
        memset(message, rank == 0 ? what + 1 : 0, BYTES);
        if (rank == 1)
            MPI_Irecv(message, BYTES, MPI_BYTE, 0, what, MPI_COMM_WORLD, &request);
        if (rank == 0)
            MPI_Send(message, BYTES, MPI_BYTE, 1, what, MPI_COMM_WORLD);
        wait_for_rank_0(what, data);
        if (rank == 1)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; rank == 1 && i < BYTES; i++)
            wrong += message[i] != what + 1;
    }
    printf("rank %d: %d wrong\n", rank, wrong);
    free(message);
    free(data);
    MPI_Finalize();
    return wrong != 0;
}
