/* mpi_first_calls LIBRARY: two threads call MPI functions for the first time at once, one of them
 * in a constructor of the library, which the C library runs under its lock for loading. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

static sem_t runs;

void constructor_runs(void);
void constructor_runs(void)
{
    sem_post(&runs);
    usleep(200000); /* the other thread is in its call */
}

static void *call_mpi(void *unused)
{
    int is_complete;
    sem_wait(&runs);
    MPI_Testall(0, NULL, &is_complete, MPI_STATUSES_IGNORE);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    mpi_begin_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    sem_init(&runs, 0, 0);
    pthread_create(&thread, NULL, call_mpi, NULL);
    CHECK(dlopen(argv[1], RTLD_NOW) != NULL);
    pthread_join(thread, NULL);
    return mpi_end();
}
