/* src/mpi/wrap/probes.c: wraps MPI's point-to-point calls that look for messages without waiting.
 *
 * After an operation of the layer's the library may not yet have received what other ranks sent
 * before it (progress_after_operation). A test that finds nothing then receives it first. */
#include "mpi/collectives/coll_call.h"
#include "mpi/wrap/wrap.h"

WRAP(Iprobe)
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    return PROGRESS_FIND(*flag, pmpi()->Iprobe(source, tag, comm, flag, status));
}

WRAP(Improbe)
int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status)
{
    return PROGRESS_FIND(*flag, pmpi()->Improbe(source, tag, comm, flag, message, status));
}

WRAP(Test)
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    return PROGRESS_FIND(*flag, pmpi()->Test(request, flag, status));
}

WRAP(Testall)
int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    return PROGRESS_FIND(*flag, pmpi()->Testall(count, requests, flag, statuses));
}

WRAP(Testany)
int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    return PROGRESS_FIND(*flag, pmpi()->Testany(count, requests, index, flag, status));
}

/* One that finds some requests complete has not looked at the rest a second time. */
WRAP(Testsome)
int MPI_Testsome(int count, MPI_Request requests[], int *completed, int indices[],
                 MPI_Status statuses[])
{
    int result = progress_catch_up();
    return result == MPI_SUCCESS ? pmpi()->Testsome(count, requests, completed, indices, statuses)
                                 : result;
}

/* A receive whose message was sent before an operation has completed, as after the library's own.
 */
WRAP(Cancel)
int MPI_Cancel(MPI_Request *request)
{
    int result = progress_catch_up();
    return result == MPI_SUCCESS ? pmpi()->Cancel(request) : result;
}

/* MPICH polls the layer's requests in all calls that test or wait, but not in this one. */
WRAP(Request_get_status)
int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    (void)nonblocking_progress();
    return PROGRESS_FIND(*flag, pmpi()->Request_get_status(request, flag, status));
}
