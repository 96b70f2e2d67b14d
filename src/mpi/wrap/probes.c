/* src/mpi/wrap/probes.c: wraps MPI's point-to-point calls that look for messages without waiting.
 *
 * After an operation of the layer's the library may not yet have received what other ranks sent
 * before it (progress_after_operation). A test that finds nothing then receives it first. */
#include "mpi/collectives/coll_call.h"
#include "mpi/wrap/wrap.h"

/* Calls `test`, which sets `found`, and calls it again if it found nothing too early. */
#define FIND(found, test)                                                                          \
    __extension__({                                                                                \
        int result_ = (test);                                                                      \
        if (result_ == MPI_SUCCESS && !(found) && progress_is_behind()) {                          \
            result_ = progress_catch_up();                                                         \
            if (result_ == MPI_SUCCESS)                                                            \
                result_ = (test);                                                                  \
        }                                                                                          \
        result_;                                                                                   \
    })

WRAP(Iprobe)
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    return FIND(*flag, pmpi()->Iprobe(source, tag, comm, flag, status));
}

WRAP(Improbe)
int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status)
{
    return FIND(*flag, pmpi()->Improbe(source, tag, comm, flag, message, status));
}

WRAP(Test)
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    return FIND(*flag, pmpi()->Test(request, flag, status));
}

WRAP(Testall)
int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    return FIND(*flag, pmpi()->Testall(count, requests, flag, statuses));
}

WRAP(Testany)
int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    return FIND(*flag, pmpi()->Testany(count, requests, index, flag, status));
}

/* One that finds some requests complete has not looked at the rest a second time. */
WRAP(Testsome)
int MPI_Testsome(int count, MPI_Request requests[], int *completed, int indices[],
                 MPI_Status statuses[])
{
    int result = progress_is_behind() ? progress_catch_up() : MPI_SUCCESS;
    return result == MPI_SUCCESS ? pmpi()->Testsome(count, requests, completed, indices, statuses)
                                 : result;
}

/* MPICH polls the layer's requests in all calls that test or wait, but not in this one. */
WRAP(Request_get_status)
int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    (void)nonblocking_progress();
    return FIND(*flag, pmpi()->Request_get_status(request, flag, status));
}
