/* src/mpi/wrap/collectives.c: wraps MPI's collective operations. */
#include "mpi/collectives/communicator.h"
#include "mpi/collectives/operations.h"
#include "mpi/wrap/wrap.h"

WRAP(Allgather)
int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                  int receive_count, MPI_Datatype receive_type, MPI_Comm comm)
{
    int result;
    const struct one from = {(void *)send, send_count, send_type};
    const struct many to = {receive, {.count = receive_count}, receive_type, NULL};
    return !communicator_is_left(comm, 0) &&
                   collective_gather(comm, &from, &to, ENGINE_EVERYBODY, &result)
               ? result
               : pmpi()->Allgather(send, send_count, send_type, receive, receive_count,
                                   receive_type, comm);
}

WRAP(Allgatherv)
int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                   const int counts[], const int places[], MPI_Datatype receive_type, MPI_Comm comm)
{
    int result;
    const struct one from = {(void *)send, send_count, send_type};
    const struct many to = {receive, {0, counts, places, 0, 1}, receive_type, NULL};
    return !communicator_is_left(comm, 0) &&
                   collective_gather(comm, &from, &to, ENGINE_EVERYBODY, &result)
               ? result
               : pmpi()->Allgatherv(send, send_count, send_type, receive, counts, places,
                                    receive_type, comm);
}

WRAP(Allreduce)
int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    int result;
    const struct reduction call = {send, receive, count, type, op, comm};
    return !communicator_is_left(comm, 1) && collective_reduce(&call, ENGINE_EVERYBODY, &result)
               ? result
               : pmpi()->Allreduce(send, receive, count, type, op, comm);
}

WRAP(Alltoall)
int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                 int receive_count, MPI_Datatype receive_type, MPI_Comm comm)
{
    int result;
    const struct many from = {(void *)send, {.count = send_count}, send_type, NULL};
    const struct many to = {receive, {.count = receive_count}, receive_type, NULL};
    return !communicator_is_left(comm, 0) && collective_alltoall(comm, &from, &to, &result)
               ? result
               : pmpi()->Alltoall(send, send_count, send_type, receive, receive_count, receive_type,
                                  comm);
}

WRAP(Alltoallv)
int MPI_Alltoallv(const void *send, const int send_counts[], const int send_places[],
                  MPI_Datatype send_type, void *receive, const int receive_counts[],
                  const int receive_places[], MPI_Datatype receive_type, MPI_Comm comm)
{
    int result;
    const struct many from = {(void *)send, {0, send_counts, send_places, 0, 1}, send_type, NULL};
    const struct many to = {receive, {0, receive_counts, receive_places, 0, 1}, receive_type, NULL};
    return !communicator_is_left(comm, 0) && collective_alltoall(comm, &from, &to, &result)
               ? result
               : pmpi()->Alltoallv(send, send_counts, send_places, send_type, receive,
                                   receive_counts, receive_places, receive_type, comm);
}

WRAP(Alltoallw)
int MPI_Alltoallw(const void *send, const int send_counts[], const int send_places[],
                  const MPI_Datatype send_types[], void *receive, const int receive_counts[],
                  const int receive_places[], const MPI_Datatype receive_types[], MPI_Comm comm)
{
    int result;
    const struct many from = {
        (void *)send, {0, send_counts, send_places, 0, 1}, MPI_DATATYPE_NULL, send_types};
    const struct many to = {
        receive, {0, receive_counts, receive_places, 0, 1}, MPI_DATATYPE_NULL, receive_types};
    return !communicator_is_left(comm, 0) && collective_alltoall(comm, &from, &to, &result)
               ? result
               : pmpi()->Alltoallw(send, send_counts, send_places, send_types, receive,
                                   receive_counts, receive_places, receive_types, comm);
}

WRAP(Barrier)
int MPI_Barrier(MPI_Comm comm)
{
    int result;
    return !communicator_is_left(comm, 0) && collective_barrier(comm, &result)
               ? result
               : pmpi()->Barrier(comm);
}

WRAP(Bcast)
int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int result;
    const struct one data = {buffer, count, type};
    return !communicator_is_left(comm, 0) &&
                   collective_broadcast(comm, &data, collective_root(root), &result)
               ? result
               : pmpi()->Bcast(buffer, count, type, root, comm);
}

WRAP(Exscan)
int MPI_Exscan(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op,
               MPI_Comm comm)
{
    int result;
    const struct reduction call = {send, receive, count, type, op, comm};
    return !communicator_is_left(comm, 1) && collective_scan(&call, 1, &result)
               ? result
               : pmpi()->Exscan(send, receive, count, type, op, comm);
}

WRAP(Gather)
int MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
               int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
    int result;
    const struct one from = {(void *)send, send_count, send_type};
    const struct many to = {receive, {.count = receive_count}, receive_type, NULL};
    return !communicator_is_left(comm, 0) &&
                   collective_gather(comm, &from, &to, collective_root(root), &result)
               ? result
               : pmpi()->Gather(send, send_count, send_type, receive, receive_count, receive_type,
                                root, comm);
}

WRAP(Gatherv)
int MPI_Gatherv(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                const int counts[], const int places[], MPI_Datatype receive_type, int root,
                MPI_Comm comm)
{
    int result;
    const struct one from = {(void *)send, send_count, send_type};
    const struct many to = {receive, {0, counts, places, 0, 1}, receive_type, NULL};
    return !communicator_is_left(comm, 0) &&
                   collective_gather(comm, &from, &to, collective_root(root), &result)
               ? result
               : pmpi()->Gatherv(send, send_count, send_type, receive, counts, places, receive_type,
                                 root, comm);
}

WRAP(Reduce)
int MPI_Reduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm)
{
    int result;
    const struct reduction call = {send, receive, count, type, op, comm};
    return !communicator_is_left(comm, 1) &&
                   collective_reduce(&call, collective_root(root), &result)
               ? result
               : pmpi()->Reduce(send, receive, count, type, op, root, comm);
}

WRAP(Reduce_scatter)
int MPI_Reduce_scatter(const void *send, void *receive, const int counts[], MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm)
{
    int result;
    const struct reduction call = {send, receive, 0, type, op, comm};
    const struct places places = {.counts = counts, .vary = 1};
    return !communicator_is_left(comm, 1) && collective_reduce_scatter(&call, &places, &result)
               ? result
               : pmpi()->Reduce_scatter(send, receive, counts, type, op, comm);
}

WRAP(Reduce_scatter_block)
int MPI_Reduce_scatter_block(const void *send, void *receive, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm)
{
    int result;
    const struct reduction call = {send, receive, 0, type, op, comm};
    const struct places places = {.count = count};
    return !communicator_is_left(comm, 1) && collective_reduce_scatter(&call, &places, &result)
               ? result
               : pmpi()->Reduce_scatter_block(send, receive, count, type, op, comm);
}

WRAP(Scan)
int MPI_Scan(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op,
             MPI_Comm comm)
{
    int result;
    const struct reduction call = {send, receive, count, type, op, comm};
    return !communicator_is_left(comm, 1) && collective_scan(&call, 0, &result)
               ? result
               : pmpi()->Scan(send, receive, count, type, op, comm);
}

WRAP(Scatter)
int MPI_Scatter(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
    int result;
    const struct many from = {(void *)send, {.count = send_count}, send_type, NULL};
    const struct one to = {receive, receive_count, receive_type};
    return !communicator_is_left(comm, 0) &&
                   collective_scatter(comm, &from, &to, collective_root(root), &result)
               ? result
               : pmpi()->Scatter(send, send_count, send_type, receive, receive_count, receive_type,
                                 root, comm);
}

WRAP(Scatterv)
int MPI_Scatterv(const void *send, const int counts[], const int places[], MPI_Datatype send_type,
                 void *receive, int receive_count, MPI_Datatype receive_type, int root,
                 MPI_Comm comm)
{
    int result;
    const struct many from = {(void *)send, {0, counts, places, 0, 1}, send_type, NULL};
    const struct one to = {receive, receive_count, receive_type};
    return !communicator_is_left(comm, 0) &&
                   collective_scatter(comm, &from, &to, collective_root(root), &result)
               ? result
               : pmpi()->Scatterv(send, counts, places, send_type, receive, receive_count,
                                  receive_type, root, comm);
}
