/* mpi_collectives_leave: rank 3 of four leaves by _exit right after a barrier. Rank 2 stands in a
 * signal handler then and has not raised its last flag, for which rank 0 waits. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

enum { ALARM_US = 200000, LATE_US = 500000, HANDLER_S = 2 };

static void stay(int number)
{
    (void)number;
    sleep(HANDLER_S);
}

int main(int argc, char **argv)
{
    const struct itimerval alarm = {.it_value.tv_usec = ALARM_US};
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    signal(SIGALRM, stay);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2)
        setitimer(ITIMER_REAL, &alarm, NULL);
    if (rank == 1)
        usleep(LATE_US);
    printf("rank %d: %d\n", rank, MPI_Barrier(MPI_COMM_WORLD));
    fflush(stdout);
    _exit(0);
}
