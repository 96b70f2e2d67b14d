/* tests/launch/guests/mpi_fragments.c COUNT: takes that many mappings, pages of alternating
 * protection, says "out", and then initialises MPI. */
#include <mpi.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < count; i++)
        if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            return 3;
    if (write(STDOUT_FILENO, "out\n", 4) != 4)
        return 4;
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
