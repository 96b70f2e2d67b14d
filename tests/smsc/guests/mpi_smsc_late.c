/* mpi_smsc_late: rank 1 comes to MPI_Init a second after the others. */
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

int main(int argc, char **argv)
{
    static int sent[4096], got[4096];
    const char *number = getenv("PMIX_RANK");
    if (number && strcmp(number, "1") == 0)
        sleep(1);
    mpi_begin(&argc, &argv);
    for (int i = 0; i < 4096; i++)
        sent[i] = rank * 4096 + i;
    MPI_Sendrecv(sent, 4096, MPI_INT, next_rank, 0, got, 4096, MPI_INT, previous_rank, 0, world,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 4096; i++)
        wrong += got[i] != previous_rank * 4096 + i;
    return mpi_end();
}
