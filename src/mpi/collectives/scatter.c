/* src/mpi/collectives/scatter.c: see operations.h. */
#include "mpi/collectives/exchange.h"

/* The root's. MPI_SUCCESS, or the class of what is wrong with this rank's arguments. */
static int give(struct exchange *call, const struct many *from, const struct one *to)
{
    struct shape shape;
    struct giving giving;
    struct piece own = {0}, piece = {0};
    struct taking taking = {call, &piece};
    int in_place = to->buffer == MPI_IN_PLACE;
    int error = exchange_many(call, from, from->places.vary ? USE_SENDS : USE_RECEIVES, &shape);
    if (error == MPI_SUCCESS && exchange_is_own_place(call, to, from, &shape))
        error = MPI_ERR_BUFFER;
    if (error == MPI_SUCCESS && !in_place)
        error = exchange_one(to, USE_RECEIVES, &piece);
    if (error == MPI_SUCCESS && !in_place)
        error = exchange_piece(from, &shape, call->rank, &own);
    if (error == MPI_SUCCESS)
        error = exchange_give(call, from, &shape, 0, &giving);
    if (error != MPI_SUCCESS)
        return error;
    struct engine_part part = piece_part(&own);
    call->own = in_place ? NULL : &part;
    exchange_run(call, ENGINE_SCATTER, call->root, ENGINE_EVERYBODY, &giving.offer, exchange_take,
                 &taking);
    exchange_give_end(&giving);
    return MPI_SUCCESS;
}

static int take(struct exchange *call, const struct one *to)
{
    struct piece piece;
    int error = to->buffer == MPI_IN_PLACE ? exchange_in_place_error()
                                           : exchange_one(to, USE_RECEIVES, &piece);
    if (error != MPI_SUCCESS)
        return error;
    struct taking taking = {call, &piece};
    exchange_run(call, ENGINE_SCATTER, call->root, ENGINE_EVERYBODY, NULL, exchange_take, &taking);
    return MPI_SUCCESS;
}

/* What each gets is the same for all but in MPI_Scatterv. */
static struct described described(const struct many *from, const struct one *to, int root)
{
    int varies = from->places.vary, is_given = to->buffer == MPI_IN_PLACE;
    struct described what = {.name = varies ? "MPI_Scatterv" : "MPI_Scatter",
                             .root = root,
                             .count = is_given ? from->places.count : to->count,
                             .type = is_given ? from->type : to->type,
                             .op = MPI_OP_NULL};
    if (varies)
        what.count = -1;
    return what;
}

int collective_scatter(MPI_Comm comm, const struct many *from, const struct one *to, int root,
                       int *result)
{
    struct exchange call;
    const struct described what = described(from, to, root);
    if (!exchange_begin(&call, comm, &what))
        return call.nodes && nodes_scatter(call.nodes, from, to, root, &call.result) &&
               exchange_end(&call, comm, result);
    if (call.result == MPI_SUCCESS) {
        int error = call.is_root ? give(&call, from, to) : take(&call, to);
        if (error != MPI_SUCCESS)
            exchange_fail(&call, error);
    }
    return exchange_end(&call, comm, result);
}
