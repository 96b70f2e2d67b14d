/* mpi_smsc_death: rank 1 sends messages that lie in its own memory until they are received, and
 * exits. Rank 0 receives them afterwards. */
#include <signal.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

enum { MESSAGES = 8, SIZE = 16 << 10 };

static void send_and_end(void)
{
    MPI_Request requests[MESSAGES];
    char *data = malloc(MESSAGES * SIZE);
    int pid = getpid(), are_done;
    MPI_Send(&pid, 1, MPI_INT, 0, MESSAGES, world);
    usleep(300000); /* rank 0 has left MPI_Recv, in which it would receive what comes */
    for (int i = 0; i < MESSAGES; i++) {
        memset(data + i * SIZE, 'a' + i, SIZE);
        MPI_Isend(data + i * SIZE, SIZE, MPI_BYTE, 0, i, world, &requests[i]);
    }
    MPI_Testall(MESSAGES, requests, &are_done, MPI_STATUSES_IGNORE); /* only to make progress */
    _exit(0);
}

int main(int argc, char **argv)
{
    static char in[SIZE];
    int pid;
    mpi_begin(&argc, &argv);
    if (rank == 1)
        send_and_end();
    MPI_Recv(&pid, 1, MPI_INT, 1, MESSAGES, world, MPI_STATUS_IGNORE);
    while (kill(pid, 0) == 0)
        usleep(1000);
    sleep(1); /* the reaper has unmapped what no task holds */
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Recv(in, SIZE, MPI_BYTE, 1, i, world, MPI_STATUS_IGNORE);
        for (int at = 0; at < SIZE; at++)
            wrong += in[at] != 'a' + i;
    }
    report();
    _exit(wrong != 0);
}
