/* bench/demo/neighbour.c: each rank sends the address of a static array and reads its neighbour's
 * array through the pointer it received. Plain MPI; works only if the ranks share one address
 * space. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

static int numbers[1000];

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 1000; i++)
        numbers[i] = 1000 * rank + i;

    uint64_t mine = (uintptr_t)numbers, theirs;
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    MPI_Sendrecv(&mine, 1, MPI_UINT64_T, previous, 0, &theirs, 1, MPI_UINT64_T, next, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const int *array = (const int *)(uintptr_t)theirs;
    int wrong = 0;
    for (int i = 0; i < 1000; i++)
        wrong += array[i] != 1000 * next + i;
    printf("rank %d, at %p, reads numbers[7] of rank %d: %d%s\n", rank, (void *)array, next,
           array[7], wrong ? " (wrong)" : "");

    MPI_Barrier(MPI_COMM_WORLD); /* all reads are done */
    MPI_Finalize();
    return wrong != 0;
}
