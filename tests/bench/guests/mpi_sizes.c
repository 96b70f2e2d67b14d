/* Two ranks: sends whose number and sizes the test knows, by each way that bench/miniapps/sizes.c
 * counts, and touches memory. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char out[5000], in[5000];

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int other = 1 - rank;
    MPI_Request request;
    for (int i = 0; i < 3; i++) { /* nothing */
        MPI_Isend(out, 0, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, &request);
        MPI_Recv(in, 0, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 5; i++) /* 40 bytes, from rank 0 only */
        if (rank == 0)
            MPI_Send(out, 5, MPI_DOUBLE, other, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(in, 5, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) /* one byte */
        MPI_Ssend(out, 1, MPI_CHAR, other, 2, MPI_COMM_WORLD);
    else
        MPI_Recv(in, 1, MPI_CHAR, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    /* 4,096 and 4,097 bytes */
    for (int size = 4096; size <= 4097; size++)
        MPI_Sendrecv(out, size, MPI_CHAR, other, 3, in, size, MPI_CHAR, other, 3, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
    char *touched = malloc(bytes + 1);
    memset(touched, rank, bytes + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("done %d\n", touched[bytes]);
    free(touched);
    MPI_Finalize();
    return 0;
}
