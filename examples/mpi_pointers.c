/* examples/mpi_pointers.c: MPI ranks that send pointers instead of data.
 *
 *   mpicc mpi_pointers.c -o mpi_pointers
 *   mpiexec -n 4 onespace run ./mpi_pointers
 *
 * The program knows nothing of onespace. As tasks of one space the ranks follow each other's
 * pointers; as plain processes (mpiexec -n 4 ./mpi_pointers) it ends with a segmentation fault, as
 * it should. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 20 };

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *mine = malloc(COUNT * sizeof(*mine));
    for (int i = 0; i < COUNT; i++)
        mine[i] = rank + 1;

    /* Sends eight bytes, and gives access to eight megabytes. */
    uint64_t send = (uintptr_t)mine, receive;
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Sendrecv(&send, 1, MPI_UINT64_T, right, 0, &receive, 1, MPI_UINT64_T, left, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double *theirs = (const double *)(uintptr_t)receive;
    double sum = 0;
    for (int i = 0; i < COUNT; i++)
        sum += theirs[i];
    int wrong = sum != (double)COUNT * (left + 1), any_wrong;
    printf("rank %d read the array of rank %d: %s\n", rank, left, wrong ? "wrong" : "right");

    MPI_Allreduce(&wrong, &any_wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD); /* all have read */
    free(mine);
    MPI_Finalize();
    return any_wrong;
}
