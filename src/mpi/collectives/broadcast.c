/* src/mpi/collectives/broadcast.c: see operations.h. */
#include "mpi/collectives/exchange.h"

int exchange_get_broadcast(struct exchange *call, const struct piece *piece, int from,
                           const struct engine_part *part)
{
    size_t expected = piece_bytes(piece);
    if (from == call->rank)
        return call->result;
    exchange_get(call, piece, from, part);
    if (pmpi_is_open_mpi() || call->result != MPI_SUCCESS || part->bytes >= expected)
        return call->result;
    exchange_tell_sizes(call, from, part->bytes, expected);
    return call->result = MPI_ERR_OTHER;
}

static void take(void *context, int from, const struct engine_part *part)
{
    const struct taking *taking = context;
    exchange_get_broadcast(taking->call, taking->piece, from, part);
}

/* Ranks pass on what they got, so each has a small derived type packed. */
static void broadcast(struct exchange *call, const struct piece *piece)
{
    size_t bytes = piece_bytes(piece);
    char *room = exchange_room(call, piece->shape.form != NULL, bytes);
    int is_packed = room != NULL;
    struct piece packed = piece_of_bytes(room, bytes);
    if (is_packed && call->is_root)
        call->result = piece_pack(piece, room);
    struct taking taking = {call, is_packed ? &packed : piece};
    struct engine_part part = piece_part(taking.piece);
    struct engine_offer mine = {.base = part.data, .bytes = bytes, .form = part.form};
    int result = engine_broadcast(call->communicator->engine, call->root, &mine, take, &taking);
    if (call->result == MPI_SUCCESS)
        call->result = result;
    if (is_packed && !call->is_root && call->result == MPI_SUCCESS)
        call->result = piece_fill(piece, &part);
}

int collective_broadcast(MPI_Comm comm, const struct one *data, int root, int *result)
{
    struct exchange call;
    struct piece piece;
    const struct described what = {.name = "MPI_Bcast",
                                   .root = root,
                                   .count = data->count,
                                   .type = data->type,
                                   .op = MPI_OP_NULL};
    if (!exchange_begin(&call, comm, &what))
        return call.nodes && nodes_broadcast(call.nodes, data, root, &call.result) &&
               exchange_end(&call, comm, result);
    if (call.result == MPI_SUCCESS) {
        int error = exchange_one(data, data->count ? USE_SENDS : USE_BROADCASTS, &piece);
        if (error == MPI_SUCCESS)
            broadcast(&call, &piece);
        else
            exchange_fail(&call, error);
    }
    return exchange_end(&call, comm, result);
}
