/* src/mpi/wrap/nonblocking_collectives.c: wraps MPI's nonblocking collective operations. Those with
 * large counts, with a count for each rank, and the persistent ones are the library's. */
#include "mpi/collectives/nonblocking.h"
#include "mpi/wrap/wrap.h"

#define BLOCK(addr_, count_, datatype_)                                                            \
    {                                                                                              \
        .addr = (void *)(addr_), .count = (count_), .datatype = (datatype_)                        \
    }

/* Sets `result` and is true if the layer runs the call. */
#define IN_LAYER(...)                                                                              \
    nonblocking_start(&(struct coll_call){.comm = comm, __VA_ARGS__}, request, &result)

WRAP(Ibarrier)
int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    int result;
    return IN_LAYER(.operation = COLL_BARRIER, .root = COLL_ALL_RANKS)
               ? result
               : pmpi()->Ibarrier(comm, request);
}

WRAP(Ibcast)
int MPI_Ibcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
               MPI_Request *request)
{
    int result;
    return IN_LAYER(.operation = COLL_BCAST, .recvbuf = BLOCK(buffer, count, datatype),
                    .root = coll_root(root))
               ? result
               : pmpi()->Ibcast(buffer, count, datatype, root, comm, request);
}

#define TO_OR_FROM_ROOT(name, operation_)                                                          \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,       \
                   int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,                  \
                   MPI_Request *request)                                                           \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(.operation = (operation_), .sendbuf = BLOCK(sendbuf, sendcount, sendtype), \
                        .recvbuf = BLOCK(recvbuf, recvcount, recvtype), .root = coll_root(root))   \
                   ? result                                                                        \
                   : pmpi()->name(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,      \
                                  root, comm, request);                                            \
    }
TO_OR_FROM_ROOT(Igather, COLL_GATHER)
TO_OR_FROM_ROOT(Iscatter, COLL_SCATTER)

#define TO_ALL(name, operation_)                                                                   \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,       \
                   int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)      \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(.operation = (operation_), .sendbuf = BLOCK(sendbuf, sendcount, sendtype), \
                        .recvbuf = BLOCK(recvbuf, recvcount, recvtype), .root = COLL_ALL_RANKS)    \
                   ? result                                                                        \
                   : pmpi()->name(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,      \
                                  comm, request);                                                  \
    }
TO_ALL(Iallgather, COLL_ALLGATHER)
TO_ALL(Ialltoall, COLL_ALLTOALL)

WRAP(Ireduce)
int MPI_Ireduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                int root, MPI_Comm comm, MPI_Request *request)
{
    int result;
    return IN_LAYER(.operation = COLL_REDUCE, .sendbuf = {.addr = (void *)sendbuf},
                    .recvbuf = BLOCK(recvbuf, count, datatype), .op = op, .root = coll_root(root))
               ? result
               : pmpi()->Ireduce(sendbuf, recvbuf, count, datatype, op, root, comm, request);
}

WRAP(Iallreduce)
int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    int result;
    return IN_LAYER(.operation = COLL_ALLREDUCE, .sendbuf = {.addr = (void *)sendbuf},
                    .recvbuf = BLOCK(recvbuf, count, datatype), .op = op, .root = COLL_ALL_RANKS)
               ? result
               : pmpi()->Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
}

/* MPICH polls the layer's requests in all calls that test or wait, but not in this one. */
WRAP(Request_get_status)
int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    (void)nonblocking_progress();
    return pmpi()->Request_get_status(request, flag, status);
}
