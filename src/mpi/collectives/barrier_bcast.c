/* src/mpi/collectives/barrier_bcast.c: MPI_Barrier and MPI_Bcast. */
#include "mpi/collectives/coll_call.h"

static int barrier(struct coll_call *call)
{
    call->error = engine_barrier(call->communicator->engine);
    return MPI_SUCCESS;
}

int coll_barrier(struct coll_call *call, int *result)
{
    return coll_run(call, result, barrier);
}

/* engine_receive; context: struct recv_ctx. MPICH rejects less data than a rank expects, Open MPI
 * accepts it. */
static void receive(void *context, int source, const struct engine_part *part)
{
    const struct recv_ctx *recv = context;
    struct coll_call *call = recv->call;
    size_t expected = typed_buf_bytes(recv->buf);
    if (source == call->rank)
        return;
    coll_receive(call, recv->buf, source, part);
    if (pmpi_is_open_mpi() || call->error != MPI_SUCCESS || part->bytes >= expected)
        return;
    coll_report_sizes(call->rank, source, part->bytes, expected);
    call->error = MPI_ERR_OTHER;
}

/* Ranks pass on the data in the form in which they received it, so each of them packs a short
 * derived type. MPI_SUCCESS, or the class of this rank's error before anything was exchanged. */
static int broadcast(struct coll_call *call)
{
    struct typed_buf buf;
    int is_root = call->root == call->rank;
    int error = buf_check(&call->recvbuf, call->recvbuf.count ? BUF_SENT : BUF_EMPTY_BCAST, &buf);
    if (error != MPI_SUCCESS)
        return error;
    size_t bytes = typed_buf_bytes(&buf);
    char *packed = coll_pack_buf(call, buf.type.layout != NULL, bytes);
    struct typed_buf packed_buf = typed_buf_of_bytes(packed, bytes);
    if (packed && is_root)
        call->error = typed_buf_pack(&buf, packed);
    struct recv_ctx recv = {call, packed ? &packed_buf : &buf};
    struct engine_part part = typed_buf_part(recv.buf);
    const struct engine_offer offer = {.base = part.data, .bytes = bytes, .layout = part.layout};
    coll_set_error(
        call, engine_broadcast(call->communicator->engine, call->root, &offer, receive, &recv));
    if (packed && !is_root && call->error == MPI_SUCCESS)
        call->error = typed_buf_receive(&buf, &part);
    return MPI_SUCCESS;
}

int coll_bcast(struct coll_call *call, int *result)
{
    return coll_run(call, result, broadcast);
}
