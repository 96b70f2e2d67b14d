/* src/mpi/collectives/gather_scatter.c: MPI_Gather, MPI_Gatherv, MPI_Allgather, MPI_Allgatherv,
 * MPI_Scatter, MPI_Scatterv.
 *
 * Each rank that sends publishes where its data is and in which layout; each rank that receives
 * reads it there, whatever type it receives it as. */
#include "mpi/collectives/coll_call.h"

/* ---- Gather ---- */

int gather_check(const struct coll_call *call, struct typed_buf *sendblock,
                 struct item_layout *recvtype)
{
    int receives = coll_receives(call);
    int error = receives ? buf_check_blocks(&call->recvbuf, call->size, BUF_RECEIVED, recvtype)
                         : MPI_SUCCESS;
    if (error != MPI_SUCCESS)
        return error;
    if (call->sendbuf.addr == MPI_IN_PLACE)
        return receives ? buf_block(&call->recvbuf, recvtype, call->rank, sendblock)
                        : coll_in_place_error();
    if (receives && buf_is_own_block(call, &call->sendbuf, &call->recvbuf, recvtype))
        return MPI_ERR_BUFFER;
    return buf_check(&call->sendbuf, BUF_SENT, sendblock);
}

/* MPI_SUCCESS, or the class of this rank's error before anything was exchanged. */
static int gather(struct coll_call *call)
{
    struct typed_buf sendblock;
    struct recv_each_ctx recv = {call, &call->recvbuf, {0}};
    int error = gather_check(call, &sendblock, &recv.type);
    if (error != MPI_SUCCESS)
        return error;
    const struct engine_part own = typed_buf_part(&sendblock);
    struct engine_offer offer = {.base = own.data, .bytes = own.bytes, .layout = own.layout};
    char *packed = coll_pack_buf(call, own.layout != NULL, own.bytes);
    if (packed && typed_buf_pack(&sendblock, packed) == MPI_SUCCESS)
        offer = (struct engine_offer){.base = packed, .bytes = own.bytes};
    if (coll_receives(call) && call->sendbuf.addr != MPI_IN_PLACE)
        call->own_part = &own;
    coll_exchange(call, ENGINE_GATHER, ENGINE_ALL_RANKS, call->root,
                  call->root == call->rank ? NULL : &offer, recv_each, &recv);
    call->own_part = NULL;
    return MPI_SUCCESS;
}

int coll_gather(struct coll_call *call, int *result)
{
    return coll_run(call, result, gather);
}

/* ---- Scatter ---- */

int scatter_check(const struct coll_call *call, struct item_layout *sendtype, struct typed_buf *own,
                  struct typed_buf *recvblock)
{
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    int is_root = call->root == call->rank, in_place = recvbuf->addr == MPI_IN_PLACE;
    enum buf_use use = coll_has_counts(call->operation) ? BUF_SENT : BUF_RECEIVED;
    int error = is_root ? buf_check_blocks(sendbuf, call->size, use, sendtype) : MPI_SUCCESS;
    if (error == MPI_SUCCESS && in_place && !is_root)
        error = coll_in_place_error();
    if (error == MPI_SUCCESS && is_root && buf_is_own_block(call, recvbuf, sendbuf, sendtype))
        error = MPI_ERR_BUFFER;
    if (error == MPI_SUCCESS && !in_place)
        error = buf_check(recvbuf, BUF_RECEIVED, recvblock);
    if (error == MPI_SUCCESS && !in_place && is_root)
        error = buf_block(sendbuf, sendtype, call->rank, own);
    return error;
}

/* MPI_SUCCESS, or the class of this rank's error before anything was exchanged. */
static int scatter_from_root(struct coll_call *call)
{
    const struct coll_buf *sendbuf = &call->sendbuf;
    struct item_layout type;
    struct send_ctx send;
    struct typed_buf own = {0}, recvblock = {0};
    int in_place = call->recvbuf.addr == MPI_IN_PLACE;
    int error = scatter_check(call, &type, &own, &recvblock);
    if (error == MPI_SUCCESS)
        error = send_begin(call, sendbuf, &type, 0, &send);
    if (error != MPI_SUCCESS)
        return error;
    struct recv_ctx recv = {call, &recvblock};
    const struct engine_part own_part = typed_buf_part(&own);
    call->own_part = in_place ? NULL : &own_part;
    coll_exchange(call, ENGINE_SCATTER, call->root, ENGINE_ALL_RANKS, &send.offer, recv_into,
                  &recv);
    call->own_part = NULL;
    send_end(&send);
    return MPI_SUCCESS;
}

static int scatter_receive(struct coll_call *call)
{
    struct typed_buf recvblock;
    int error = scatter_check(call, NULL, NULL, &recvblock);
    if (error != MPI_SUCCESS)
        return error;
    struct recv_ctx recv = {call, &recvblock};
    coll_exchange(call, ENGINE_SCATTER, call->root, ENGINE_ALL_RANKS, NULL, recv_into, &recv);
    return MPI_SUCCESS;
}

static int scatter(struct coll_call *call)
{
    return call->root == call->rank ? scatter_from_root(call) : scatter_receive(call);
}

int coll_scatter(struct coll_call *call, int *result)
{
    return coll_run(call, result, scatter);
}
