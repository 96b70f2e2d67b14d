/* src/mpi/collectives/alltoall.c: MPI_Alltoall, MPI_Alltoallv, MPI_Alltoallw. */
#include "mpi/collectives/coll_call.h"

int alltoall_check(const struct coll_call *call, struct item_layout *sendtype,
                   struct item_layout *recvtype)
{
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    int in_place = sendbuf->addr == MPI_IN_PLACE;
    int error = buf_check_blocks(recvbuf, call->size, BUF_RECEIVED, recvtype);
    if (error == MPI_SUCCESS)
        error = buf_check_blocks(in_place ? recvbuf : sendbuf, call->size,
                                 in_place ? BUF_RECEIVED : BUF_SENT, sendtype);
    if (error != MPI_SUCCESS)
        return error;
    /* Some data at the same address is an alias, as MPICH compares counts and types. */
    if (sendbuf->addr != recvbuf->addr || sendbuf->counts != recvbuf->counts ||
        sendbuf->datatypes != recvbuf->datatypes ||
        (!recvbuf->datatypes && sendbuf->datatype != recvbuf->datatype))
        return MPI_SUCCESS;
    for (int i = 0; i < call->size; i++)
        if (buf_count(recvbuf, i))
            return coll_may_alias() ? MPI_SUCCESS : MPI_ERR_BUFFER;
    return MPI_SUCCESS;
}

/* MPI_SUCCESS, or the class of this rank's error before anything was exchanged. */
static int alltoall(struct coll_call *call)
{
    struct item_layout sendtype;
    struct send_ctx send;
    struct typed_buf own = {0};
    struct recv_each_ctx recv = {call, &call->recvbuf, {0}};
    int in_place = call->sendbuf.addr == MPI_IN_PLACE;
    const struct coll_buf *sendbuf = in_place ? &call->recvbuf : &call->sendbuf;
    int error = alltoall_check(call, &sendtype, &recv.type);
    if (error == MPI_SUCCESS)
        error = send_begin(call, sendbuf, &sendtype, in_place, &send);
    if (error != MPI_SUCCESS)
        return error;
    if (!in_place)
        buf_block(sendbuf, &sendtype, call->rank, &own);
    const struct engine_part own_part = typed_buf_part(&own);
    call->own_part = in_place ? NULL : &own_part;
    coll_exchange(call, ENGINE_ALLTOALL, ENGINE_ALL_RANKS, ENGINE_ALL_RANKS, &send.offer, recv_each,
                  &recv);
    call->own_part = NULL;
    send_end(&send);
    return MPI_SUCCESS;
}

int coll_alltoall(struct coll_call *call, int *result)
{
    return coll_run(call, result, alltoall);
}
