/* src/mpi/wrap/collectives.c: wraps MPI's collective operations, with int and with large counts,
 * and nonblocking ones.
 *
 * Each wrapper asks first whether the MPI library serves the communicator, then has the layer run
 * the call (mpi/collectives/coll_call.h), or calls the library. A library without functions for
 * large counts gets those that fit as int. */
#include <limits.h>
#include <stdlib.h>

#include "mpi/collectives/coll_call.h"
#include "mpi/wrap/wrap.h"

/* ---- The arguments ---- */

static inline struct coll_buf block(const void *addr, MPI_Count count, MPI_Datatype datatype)
{
    return (struct coll_buf){.addr = (void *)addr, .count = count, .datatype = datatype};
}

static inline struct coll_buf blocks(const void *addr, const void *counts, const void *displs,
                                     MPI_Datatype datatype, int is_large)
{
    return (struct coll_buf){.addr = (void *)addr,
                             .counts = counts,
                             .displs = displs,
                             .datatype = datatype,
                             .is_large = is_large};
}

static inline struct coll_buf blocks_w(const void *addr, const void *counts, const void *displs,
                                       const MPI_Datatype *datatypes, int is_large)
{
    return (struct coll_buf){.addr = (void *)addr,
                             .counts = counts,
                             .displs = displs,
                             .datatypes = datatypes,
                             .datatype = MPI_DATATYPE_NULL,
                             .is_large = is_large};
}

#define CALL(operation_, sendbuf_, recvbuf_, root_)                                                \
    ((struct coll_call){.operation = operation_,                                                   \
                        .comm = comm,                                                              \
                        .sendbuf = sendbuf_,                                                       \
                        .recvbuf = recvbuf_,                                                       \
                        .root = root_})
#define REDUCTION(operation_, recvbuf_, root_)                                                     \
    ((struct coll_call){.operation = operation_,                                                   \
                        .comm = comm,                                                              \
                        .sendbuf = {.addr = (void *)sendbuf},                                      \
                        .recvbuf = recvbuf_,                                                       \
                        .op = op,                                                                  \
                        .root = root_})

/* Sets `result` and is true if the layer runs the call. */
#define IN_LAYER(run, is_reduction, call)                                                          \
    (!communicator_is_library(comm, is_reduction) && run(&(call), &result))

/* ---- Libraries without large counts ---- */

/* Arguments as int. Those that are not significant on this rank are 0 or NULL. */
struct int_args {
    int sendcount, recvcount;
    int *sendcounts, *sdispls, *recvcounts, *rdispls;
};

static int to_int(MPI_Count value, int *error)
{
    if (value >= INT_MIN && value <= INT_MAX)
        return (int)value;
    *error = MPI_ERR_COUNT;
    return 0;
}

static int *array_to_int(const void *values, int ranks, int *error)
{
    int *copy = values ? malloc(((size_t)ranks + 1) * sizeof(*copy)) : NULL;
    if (values && !copy)
        *error = MPI_ERR_NO_MEM;
    for (int i = 0; copy && i < ranks; i++)
        copy[i] = to_int(int_array_get(values, 1, i), error);
    return copy;
}

/* Sets how many ranks the arrays are for, and whether the root's arguments are significant here.
 * Between two groups they are for the other one's ranks; but the result of a reduce-scatter is
 * divided among this one's. */
static int query_communicator(const struct coll_call *call, int root, int *ranks, int *is_root)
{
    MPI_Comm comm = call->comm;
    int is_inter = 0, rank = MPI_PROC_NULL;
    int error = pmpi()->Comm_test_inter(comm, &is_inter);
    if (error == MPI_SUCCESS)
        error = is_inter && call->operation != COLL_REDUCE_SCATTER
                    ? pmpi()->Comm_remote_size(comm, ranks)
                    : pmpi()->Comm_size(comm, ranks);
    if (error == MPI_SUCCESS)
        error = pmpi()->Comm_rank(comm, &rank);
    *is_root = is_inter ? root == MPI_ROOT : root == rank;
    return error;
}

static int call_library(const struct coll_call *call, int root, const struct int_args *args)
{
    void *sendbuf = call->sendbuf.addr, *recvbuf = call->recvbuf.addr;
    MPI_Datatype sendtype = call->sendbuf.datatype, recvtype = call->recvbuf.datatype;
    MPI_Comm comm = call->comm;
    switch (call->operation) {
    case COLL_BARRIER:
        return pmpi()->Barrier(comm);
    case COLL_BCAST:
        return pmpi()->Bcast(recvbuf, args->recvcount, recvtype, root, comm);
    case COLL_GATHER:
        return pmpi()->Gather(sendbuf, args->sendcount, sendtype, recvbuf, args->recvcount,
                              recvtype, root, comm);
    case COLL_GATHERV:
        return pmpi()->Gatherv(sendbuf, args->sendcount, sendtype, recvbuf, args->recvcounts,
                               args->rdispls, recvtype, root, comm);
    case COLL_SCATTER:
        return pmpi()->Scatter(sendbuf, args->sendcount, sendtype, recvbuf, args->recvcount,
                               recvtype, root, comm);
    case COLL_SCATTERV:
        return pmpi()->Scatterv(sendbuf, args->sendcounts, args->sdispls, sendtype, recvbuf,
                                args->recvcount, recvtype, root, comm);
    case COLL_ALLGATHER:
        return pmpi()->Allgather(sendbuf, args->sendcount, sendtype, recvbuf, args->recvcount,
                                 recvtype, comm);
    case COLL_ALLGATHERV:
        return pmpi()->Allgatherv(sendbuf, args->sendcount, sendtype, recvbuf, args->recvcounts,
                                  args->rdispls, recvtype, comm);
    case COLL_ALLTOALL:
        return pmpi()->Alltoall(sendbuf, args->sendcount, sendtype, recvbuf, args->recvcount,
                                recvtype, comm);
    case COLL_ALLTOALLV:
        return pmpi()->Alltoallv(sendbuf, args->sendcounts, args->sdispls, sendtype, recvbuf,
                                 args->recvcounts, args->rdispls, recvtype, comm);
    case COLL_ALLTOALLW:
        return pmpi()->Alltoallw(sendbuf, args->sendcounts, args->sdispls, call->sendbuf.datatypes,
                                 recvbuf, args->recvcounts, args->rdispls, call->recvbuf.datatypes,
                                 comm);
    case COLL_REDUCE:
        return pmpi()->Reduce(sendbuf, recvbuf, args->recvcount, recvtype, call->op, root, comm);
    case COLL_ALLREDUCE:
        return pmpi()->Allreduce(sendbuf, recvbuf, args->recvcount, recvtype, call->op, comm);
    case COLL_REDUCE_SCATTER:
        return pmpi()->Reduce_scatter(sendbuf, recvbuf, args->recvcounts, recvtype, call->op, comm);
    case COLL_REDUCE_SCATTER_BLOCK:
        return pmpi()->Reduce_scatter_block(sendbuf, recvbuf, args->recvcount, recvtype, call->op,
                                            comm);
    case COLL_SCAN:
        return pmpi()->Scan(sendbuf, recvbuf, args->recvcount, recvtype, call->op, comm);
    case COLL_EXSCAN:
        return pmpi()->Exscan(sendbuf, recvbuf, args->recvcount, recvtype, call->op, comm);
    }
    return MPI_ERR_INTERN;
}

/* Calls the library's function with int counts. `root`: as the program passed it. */
static int call_with_int_counts(const struct coll_call *call, int root)
{
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    int is_gather = call->operation == COLL_GATHER || call->operation == COLL_GATHERV;
    int is_scatter = call->operation == COLL_SCATTER || call->operation == COLL_SCATTERV;
    int ranks = 0, is_root = 0, error = query_communicator(call, root, &ranks, &is_root);
    struct int_args args = {0};
    if (error == MPI_SUCCESS && sendbuf->addr != MPI_IN_PLACE && (!is_scatter || is_root)) {
        args.sendcount = to_int(sendbuf->count, &error);
        args.sendcounts = array_to_int(sendbuf->counts, ranks, &error);
        args.sdispls = array_to_int(sendbuf->displs, ranks, &error);
    }
    if (error == MPI_SUCCESS && (!is_gather || is_root) &&
        !(is_scatter && recvbuf->addr == MPI_IN_PLACE)) {
        args.recvcount = to_int(recvbuf->count, &error);
        args.recvcounts = array_to_int(recvbuf->counts, ranks, &error);
        args.rdispls = array_to_int(recvbuf->displs, ranks, &error);
    }
    if (error == MPI_SUCCESS)
        error = call_library(call, root, &args);
    else
        pmpi()->Comm_call_errhandler(call->comm, error);
    free(args.sendcounts);
    free(args.sdispls);
    free(args.recvcounts);
    free(args.rdispls);
    return error;
}

/* ---- The wrappers ---- */

#define LIBRARY_INT(base, call, root, ...) pmpi()->base(__VA_ARGS__)
#define LIBRARY_LARGE(base, call, root, ...)                                                       \
    (pmpi()->base##_c ? pmpi()->base##_c(__VA_ARGS__) : call_with_int_counts(&(call), root))

/* Defines MPI_NAME and MPI_NAME_c. */
#define INT_AND_LARGE(define, name)                                                                \
    define(name, name, int, int, LIBRARY_INT, 0)                                                   \
        define(name, name##_c, MPI_Count, MPI_Aint, LIBRARY_LARGE, 1)

WRAP(Barrier)
int MPI_Barrier(MPI_Comm comm)
{
    int result;
    const struct coll_buf none = {0};
    return IN_LAYER(coll_barrier, 0, CALL(COLL_BARRIER, none, none, COLL_ALL_RANKS))
               ? result
               : pmpi()->Barrier(comm);
}

#define BCAST_CALL                                                                                 \
    CALL(COLL_BCAST, (struct coll_buf){0}, block(buffer, count, datatype), coll_root(root))
#define BCAST(base, name, count_t, displ_t, LIBRARY, is_large)                                     \
    WRAP(name)                                                                                     \
    int MPI_##name(void *buffer, count_t count, MPI_Datatype datatype, int root, MPI_Comm comm)    \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(coll_bcast, 0, BCAST_CALL)                                                 \
                   ? result                                                                        \
                   : LIBRARY(base, BCAST_CALL, root, buffer, count, datatype, root, comm);         \
    }
INT_AND_LARGE(BCAST, Bcast)

/* MPI_Gather and MPI_Scatter. */
#define ROOTED_CALL(operation)                                                                     \
    CALL(operation, block(sendbuf, sendcount, sendtype), block(recvbuf, recvcount, recvtype),      \
         coll_root(root))
#define ROOTED(base, name, count_t, LIBRARY, run, operation)                                       \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, count_t sendcount, MPI_Datatype sendtype, void *recvbuf,   \
                   count_t recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)              \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(run, 0, ROOTED_CALL(operation))                                            \
                   ? result                                                                        \
                   : LIBRARY(base, ROOTED_CALL(operation), root, sendbuf, sendcount, sendtype,     \
                             recvbuf, recvcount, recvtype, root, comm);                            \
    }
#define GATHER(base, name, count_t, displ_t, LIBRARY, is_large)                                    \
    ROOTED(base, name, count_t, LIBRARY, coll_gather, COLL_GATHER)
#define SCATTER(base, name, count_t, displ_t, LIBRARY, is_large)                                   \
    ROOTED(base, name, count_t, LIBRARY, coll_scatter, COLL_SCATTER)
INT_AND_LARGE(GATHER, Gather)
INT_AND_LARGE(SCATTER, Scatter)

#define GATHERV_CALL(is_large)                                                                     \
    CALL(COLL_GATHERV, block(sendbuf, sendcount, sendtype),                                        \
         blocks(recvbuf, recvcounts, displs, recvtype, is_large), coll_root(root))
#define GATHERV(base, name, count_t, displ_t, LIBRARY, is_large)                                   \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, count_t sendcount, MPI_Datatype sendtype, void *recvbuf,   \
                   const count_t recvcounts[], const displ_t displs[], MPI_Datatype recvtype,      \
                   int root, MPI_Comm comm)                                                        \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(coll_gather, 0, GATHERV_CALL(is_large))                                    \
                   ? result                                                                        \
                   : LIBRARY(base, GATHERV_CALL(is_large), root, sendbuf, sendcount, sendtype,     \
                             recvbuf, recvcounts, displs, recvtype, root, comm);                   \
    }
INT_AND_LARGE(GATHERV, Gatherv)

#define SCATTERV_CALL(is_large)                                                                    \
    CALL(COLL_SCATTERV, blocks(sendbuf, sendcounts, displs, sendtype, is_large),                   \
         block(recvbuf, recvcount, recvtype), coll_root(root))
#define SCATTERV(base, name, count_t, displ_t, LIBRARY, is_large)                                  \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, const count_t sendcounts[], const displ_t displs[],        \
                   MPI_Datatype sendtype, void *recvbuf, count_t recvcount, MPI_Datatype recvtype, \
                   int root, MPI_Comm comm)                                                        \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(coll_scatter, 0, SCATTERV_CALL(is_large))                                  \
                   ? result                                                                        \
                   : LIBRARY(base, SCATTERV_CALL(is_large), root, sendbuf, sendcounts, displs,     \
                             sendtype, recvbuf, recvcount, recvtype, root, comm);                  \
    }
INT_AND_LARGE(SCATTERV, Scatterv)

/* MPI_Allgather and MPI_Alltoall. */
#define TO_ALL_CALL(operation)                                                                     \
    CALL(operation, block(sendbuf, sendcount, sendtype), block(recvbuf, recvcount, recvtype),      \
         COLL_ALL_RANKS)
#define TO_ALL(base, name, count_t, LIBRARY, run, operation)                                       \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, count_t sendcount, MPI_Datatype sendtype, void *recvbuf,   \
                   count_t recvcount, MPI_Datatype recvtype, MPI_Comm comm)                        \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(run, 0, TO_ALL_CALL(operation))                                            \
                   ? result                                                                        \
                   : LIBRARY(base, TO_ALL_CALL(operation), 0, sendbuf, sendcount, sendtype,        \
                             recvbuf, recvcount, recvtype, comm);                                  \
    }
#define ALLGATHER(base, name, count_t, displ_t, LIBRARY, is_large)                                 \
    TO_ALL(base, name, count_t, LIBRARY, coll_gather, COLL_ALLGATHER)
#define ALLTOALL(base, name, count_t, displ_t, LIBRARY, is_large)                                  \
    TO_ALL(base, name, count_t, LIBRARY, coll_alltoall, COLL_ALLTOALL)
INT_AND_LARGE(ALLGATHER, Allgather)
INT_AND_LARGE(ALLTOALL, Alltoall)

#define ALLGATHERV_CALL(is_large)                                                                  \
    CALL(COLL_ALLGATHERV, block(sendbuf, sendcount, sendtype),                                     \
         blocks(recvbuf, recvcounts, displs, recvtype, is_large), COLL_ALL_RANKS)
#define ALLGATHERV(base, name, count_t, displ_t, LIBRARY, is_large)                                \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, count_t sendcount, MPI_Datatype sendtype, void *recvbuf,   \
                   const count_t recvcounts[], const displ_t displs[], MPI_Datatype recvtype,      \
                   MPI_Comm comm)                                                                  \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(coll_gather, 0, ALLGATHERV_CALL(is_large))                                 \
                   ? result                                                                        \
                   : LIBRARY(base, ALLGATHERV_CALL(is_large), 0, sendbuf, sendcount, sendtype,     \
                             recvbuf, recvcounts, displs, recvtype, comm);                         \
    }
INT_AND_LARGE(ALLGATHERV, Allgatherv)

#define ALLTOALLV_CALL(is_large)                                                                   \
    CALL(COLL_ALLTOALLV, blocks(sendbuf, sendcounts, sdispls, sendtype, is_large),                 \
         blocks(recvbuf, recvcounts, rdispls, recvtype, is_large), COLL_ALL_RANKS)
#define ALLTOALLV(base, name, count_t, displ_t, LIBRARY, is_large)                                 \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, const count_t sendcounts[], const displ_t sdispls[],       \
                   MPI_Datatype sendtype, void *recvbuf, const count_t recvcounts[],               \
                   const displ_t rdispls[], MPI_Datatype recvtype, MPI_Comm comm)                  \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(coll_alltoall, 0, ALLTOALLV_CALL(is_large))                                \
                   ? result                                                                        \
                   : LIBRARY(base, ALLTOALLV_CALL(is_large), 0, sendbuf, sendcounts, sdispls,      \
                             sendtype, recvbuf, recvcounts, rdispls, recvtype, comm);              \
    }
INT_AND_LARGE(ALLTOALLV, Alltoallv)

#define ALLTOALLW_CALL(is_large)                                                                   \
    CALL(COLL_ALLTOALLW, blocks_w(sendbuf, sendcounts, sdispls, sendtypes, is_large),              \
         blocks_w(recvbuf, recvcounts, rdispls, recvtypes, is_large), COLL_ALL_RANKS)
#define ALLTOALLW(base, name, count_t, displ_t, LIBRARY, is_large)                                 \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, const count_t sendcounts[], const displ_t sdispls[],       \
                   const MPI_Datatype sendtypes[], void *recvbuf, const count_t recvcounts[],      \
                   const displ_t rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)         \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(coll_alltoall, 0, ALLTOALLW_CALL(is_large))                                \
                   ? result                                                                        \
                   : LIBRARY(base, ALLTOALLW_CALL(is_large), 0, sendbuf, sendcounts, sdispls,      \
                             sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm);            \
    }
INT_AND_LARGE(ALLTOALLW, Alltoallw)

#define REDUCE_CALL REDUCTION(COLL_REDUCE, block(recvbuf, count, datatype), coll_root(root))
#define REDUCE(base, name, count_t, displ_t, LIBRARY, is_large)                                    \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, void *recvbuf, count_t count, MPI_Datatype datatype,       \
                   MPI_Op op, int root, MPI_Comm comm)                                             \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(coll_reduce, 1, REDUCE_CALL)                                               \
                   ? result                                                                        \
                   : LIBRARY(base, REDUCE_CALL, root, sendbuf, recvbuf, count, datatype, op, root, \
                             comm);                                                                \
    }
INT_AND_LARGE(REDUCE, Reduce)

/* Reductions without a root and with one count. */
#define REDUCE_ALL_CALL(operation)                                                                 \
    REDUCTION(operation, block(recvbuf, count, datatype), COLL_ALL_RANKS)
#define REDUCE_ALL(base, name, count_t, LIBRARY, run, operation)                                   \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, void *recvbuf, count_t count, MPI_Datatype datatype,       \
                   MPI_Op op, MPI_Comm comm)                                                       \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(run, 1, REDUCE_ALL_CALL(operation))                                        \
                   ? result                                                                        \
                   : LIBRARY(base, REDUCE_ALL_CALL(operation), 0, sendbuf, recvbuf, count,         \
                             datatype, op, comm);                                                  \
    }
#define ALLREDUCE(base, name, count_t, displ_t, LIBRARY, is_large)                                 \
    REDUCE_ALL(base, name, count_t, LIBRARY, coll_reduce, COLL_ALLREDUCE)
#define REDUCE_SCATTER_BLOCK(base, name, count_t, displ_t, LIBRARY, is_large)                      \
    REDUCE_ALL(base, name, count_t, LIBRARY, coll_reduce_scatter, COLL_REDUCE_SCATTER_BLOCK)
#define SCAN(base, name, count_t, displ_t, LIBRARY, is_large)                                      \
    REDUCE_ALL(base, name, count_t, LIBRARY, coll_scan, COLL_SCAN)
#define EXSCAN(base, name, count_t, displ_t, LIBRARY, is_large)                                    \
    REDUCE_ALL(base, name, count_t, LIBRARY, coll_scan, COLL_EXSCAN)
INT_AND_LARGE(ALLREDUCE, Allreduce)
INT_AND_LARGE(REDUCE_SCATTER_BLOCK, Reduce_scatter_block)
INT_AND_LARGE(SCAN, Scan)
INT_AND_LARGE(EXSCAN, Exscan)

#define REDUCE_SCATTER_CALL(is_large)                                                              \
    REDUCTION(COLL_REDUCE_SCATTER, blocks(recvbuf, recvcounts, NULL, datatype, is_large),          \
              COLL_ALL_RANKS)
#define REDUCE_SCATTER(base, name, count_t, displ_t, LIBRARY, is_large)                            \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, void *recvbuf, const count_t recvcounts[],                 \
                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)                                \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER(coll_reduce_scatter, 1, REDUCE_SCATTER_CALL(is_large))                     \
                   ? result                                                                        \
                   : LIBRARY(base, REDUCE_SCATTER_CALL(is_large), 0, sendbuf, recvbuf, recvcounts, \
                             datatype, op, comm);                                                  \
    }
INT_AND_LARGE(REDUCE_SCATTER, Reduce_scatter)

/* ---- Nonblocking operations ----
 *
 * Those with large counts, with a count for each rank, and the persistent ones are the library's.
 */

/* Open MPI's own that only move data are as fast as the layer's. */
#define IN_LAYER_NONBLOCKING(is_reduction, call)                                                   \
    ((is_reduction || !pmpi_is_open_mpi()) && nonblocking_start(&(call), request, &result))

WRAP(Ibarrier)
int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    int result;
    const struct coll_buf none = {0};
    return IN_LAYER_NONBLOCKING(0, CALL(COLL_BARRIER, none, none, COLL_ALL_RANKS))
               ? result
               : pmpi()->Ibarrier(comm, request);
}

WRAP(Ibcast)
int MPI_Ibcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
               MPI_Request *request)
{
    int result;
    return IN_LAYER_NONBLOCKING(0, BCAST_CALL)
               ? result
               : pmpi()->Ibcast(buffer, count, datatype, root, comm, request);
}

#define IROOTED(name, operation)                                                                   \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,       \
                   int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,                  \
                   MPI_Request *request)                                                           \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER_NONBLOCKING(0, ROOTED_CALL(operation))                                     \
                   ? result                                                                        \
                   : pmpi()->name(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,      \
                                  root, comm, request);                                            \
    }
IROOTED(Igather, COLL_GATHER)
IROOTED(Iscatter, COLL_SCATTER)

#define ITO_ALL(name, operation)                                                                   \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,       \
                   int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)      \
    {                                                                                              \
        int result;                                                                                \
        return IN_LAYER_NONBLOCKING(0, TO_ALL_CALL(operation))                                     \
                   ? result                                                                        \
                   : pmpi()->name(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,      \
                                  comm, request);                                                  \
    }
ITO_ALL(Iallgather, COLL_ALLGATHER)
ITO_ALL(Ialltoall, COLL_ALLTOALL)

WRAP(Ireduce)
int MPI_Ireduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                int root, MPI_Comm comm, MPI_Request *request)
{
    int result;
    return IN_LAYER_NONBLOCKING(1, REDUCE_CALL)
               ? result
               : pmpi()->Ireduce(sendbuf, recvbuf, count, datatype, op, root, comm, request);
}

WRAP(Iallreduce)
int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    int result;
    return IN_LAYER_NONBLOCKING(1, REDUCE_ALL_CALL(COLL_ALLREDUCE))
               ? result
               : pmpi()->Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
}
