/* mpi_smsc_late.c: rank 1 comes to MPI_Init a second after the others. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static int sent[4096], got[4096];
    const char *number = getenv("PMIX_RANK");
    int rank, ranks, wrong = 0;
    if (number && strcmp(number, "1") == 0)
        sleep(1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 4096; i++)
        sent[i] = rank * 4096 + i;
    MPI_Sendrecv(sent, 4096, MPI_INT, (rank + 1) % ranks, 0, got, 4096, MPI_INT,
                 (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 4096; i++)
        wrong += got[i] != (rank + ranks - 1) % ranks * 4096 + i;
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
