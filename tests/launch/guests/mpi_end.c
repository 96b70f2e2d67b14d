/* mpi_end HOW: the last rank ends in the named way; the others wait in a barrier for it, or, with
 * HOW ending in "-alone", have ended well before, or end in the same way, "-all", or one of them
 * does, "-two". mpi_end sleep: all wait to be killed. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end(const char *how)
{
    if (strncmp(how, "exit", 4) == 0)
        exit(3);
    if (strncmp(how, "return", 6) == 0)
        return;
    if (strncmp(how, "mpi_abort", 9) == 0)
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (strncmp(how, "crash", 5) == 0)
        *(volatile int *)8 = 1;
    if (strncmp(how, "abort", 5) == 0)
        abort();
    if (strncmp(how, "kill", 4) == 0)
        raise(SIGKILL);
    if (strncmp(how, "finalized", 9) == 0) {
        MPI_Finalize();
        exit(4);
    }
}

int main(int argc, char **argv)
{
    int rank, ranks;
    const char *how = argc > 1 ? argv[1] : "return";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d ready as %d\n", rank, getpid());
    fflush(stdout);
    if (strcmp(how, "sleep") == 0)
        sleep(600);
    if (rank == ranks - 1 || strstr(how, "-all") || (strstr(how, "-two") && rank == ranks - 2))
        end(how);
    else if (strncmp(how, "finalized", 9) != 0 && strcmp(how, "return") != 0)
        sleep(600); /* a rank that waits inside MPI would spin; the launcher must end this one */
    MPI_Finalize();
    return 0;
}
