/* collective.h: each collective operation as a value, so that guests have operations and their
 * arguments in tables. */
#ifndef ONESPACE_TESTS_MPI_COLLECTIVES_GUESTS_COLLECTIVE_H
#define ONESPACE_TESTS_MPI_COLLECTIVES_GUESTS_COLLECTIVE_H

#include "mpi/guests/mpi_check.h"

enum { RANKS_MAX = 64 };

enum operation {
    BARRIER,
    BCAST,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    ALLREDUCE,
    REDUCE,
    SCAN,
    EXSCAN,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    OPERATIONS
};
static const char *const operation_names[OPERATIONS] = {"Barrier",
                                                        "Bcast",
                                                        "Gather",
                                                        "Gatherv",
                                                        "Scatter",
                                                        "Scatterv",
                                                        "Allgather",
                                                        "Allgatherv",
                                                        "Alltoall",
                                                        "Alltoallv",
                                                        "Alltoallw",
                                                        "Allreduce",
                                                        "Reduce",
                                                        "Scan",
                                                        "Exscan",
                                                        "Reduce_scatter",
                                                        "Reduce_scatter_block"};

/* MPI_Bcast has its buffer in recv, reductions their type and count. */
struct collective {
    enum operation operation;
    MPI_Comm comm;
    int root, sendcount, recvcount;
    MPI_Datatype sendtype, recvtype;
    MPI_Op op;
    const void *sendbuf;
    void *recvbuf;
    const int *sendcounts, *sdispls, *recvcounts, *rdispls; /* with an entry for each rank */
    const MPI_Datatype *sendtypes, *recvtypes;              /* of MPI_Alltoallw */
};

static inline int collective_call(const struct collective *c)
{
    switch (c->operation) {
    case BARRIER:
        return MPI_Barrier(c->comm);
    case BCAST:
        return MPI_Bcast(c->recvbuf, c->recvcount, c->recvtype, c->root, c->comm);
    case GATHER:
        return MPI_Gather(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcount,
                          c->recvtype, c->root, c->comm);
    case GATHERV:
        return MPI_Gatherv(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcounts,
                           c->rdispls, c->recvtype, c->root, c->comm);
    case SCATTER:
        return MPI_Scatter(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcount,
                           c->recvtype, c->root, c->comm);
    case SCATTERV:
        return MPI_Scatterv(c->sendbuf, c->sendcounts, c->sdispls, c->sendtype, c->recvbuf,
                            c->recvcount, c->recvtype, c->root, c->comm);
    case ALLGATHER:
        return MPI_Allgather(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcount,
                             c->recvtype, c->comm);
    case ALLGATHERV:
        return MPI_Allgatherv(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcounts,
                              c->rdispls, c->recvtype, c->comm);
    case ALLTOALL:
        return MPI_Alltoall(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcount,
                            c->recvtype, c->comm);
    case ALLTOALLV:
        return MPI_Alltoallv(c->sendbuf, c->sendcounts, c->sdispls, c->sendtype, c->recvbuf,
                             c->recvcounts, c->rdispls, c->recvtype, c->comm);
    case ALLTOALLW:
        return MPI_Alltoallw(c->sendbuf, c->sendcounts, c->sdispls, c->sendtypes, c->recvbuf,
                             c->recvcounts, c->rdispls, c->recvtypes, c->comm);
    case ALLREDUCE:
        return MPI_Allreduce(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op, c->comm);
    case REDUCE:
        return MPI_Reduce(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op, c->root,
                          c->comm);
    case SCAN:
        return MPI_Scan(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op, c->comm);
    case EXSCAN:
        return MPI_Exscan(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op, c->comm);
    case REDUCE_SCATTER:
        return MPI_Reduce_scatter(c->sendbuf, c->recvbuf, c->recvcounts, c->recvtype, c->op,
                                  c->comm);
    default:
        return MPI_Reduce_scatter_block(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op,
                                        c->comm);
    }
}

/* The same count and type on both sides. */
static inline struct collective collective_of(enum operation operation, int count,
                                              MPI_Datatype type, const void *sendbuf, void *recvbuf)
{
    return (struct collective){.operation = operation,
                               .comm = world,
                               .sendcount = count,
                               .recvcount = count,
                               .sendtype = type,
                               .recvtype = type,
                               .op = MPI_SUM,
                               .sendbuf = sendbuf,
                               .recvbuf = recvbuf};
}

/* The items that a rank passes to a reduction and gets from it. */
struct share {
    int counts[RANKS_MAX]; /* of the operations that scatter: of each rank's result */
    int all, first, own; /* items that it passes; the first and the number of those that it gets */
    int operands;        /* the result is of so many ranks, from the first on; 0: it has none */
};

static inline struct share share_of(const struct collective *c, int own_rank, int size, int salt)
{
    struct share share = {.all = c->recvcount, .own = c->recvcount};
    share.operands = c->operation == SCAN                            ? own_rank + 1
                     : c->operation == EXSCAN                        ? own_rank
                     : c->operation == REDUCE && own_rank != c->root ? 0
                                                                     : size;
    if (c->operation < REDUCE_SCATTER)
        return share;
    share.all = 0;
    for (int i = 0; i < size; i++) {
        share.counts[i] = c->operation == REDUCE_SCATTER
                              ? (i + salt) % 3 * (c->recvcount / (2 * size) + 1)
                              : c->recvcount / size + 1;
        share.all += share.counts[i];
        share.first += i < own_rank ? share.counts[i] : 0;
    }
    share.own = share.counts[own_rank];
    return share;
}

/* In its share of both kinds of operations. */
static inline int reduction_call(struct collective c, const struct share *share)
{
    c.recvcounts = share->counts;
    if (c.operation == REDUCE_SCATTER_BLOCK)
        c.recvcount = share->counts[0];
    return collective_call(&c);
}

#endif
