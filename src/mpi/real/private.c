/* src/mpi/real/private.c: see private.h. */
#include "mpi/real/private.h"

#include <pthread.h>

/* Under the mutex, which is never held across a call of MPI that another thread may wait for: the
 * communicator has one rank. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static MPI_Comm communicator;
static int is_made, has_ended;

/* Not MPI_Comm_dup, which would call the program's copy callbacks. */
static void make(void)
{
    communicator = MPI_COMM_NULL;
    if (real()->Comm_split(MPI_COMM_SELF, 0, 0, &communicator) != MPI_SUCCESS)
        communicator = MPI_COMM_NULL;
    else
        real()->Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    is_made = 1;
}

MPI_Comm private_communicator(void)
{
    pthread_mutex_lock(&mutex);
    if (!is_made && !has_ended)
        make();
    MPI_Comm found = has_ended ? MPI_COMM_NULL : communicator;
    pthread_mutex_unlock(&mutex);
    return found;
}

void private_communicator_end(void)
{
    pthread_mutex_lock(&mutex);
    if (is_made && !has_ended && communicator != MPI_COMM_NULL)
        real()->Comm_free(&communicator);
    has_ended = 1;
    pthread_mutex_unlock(&mutex);
}
