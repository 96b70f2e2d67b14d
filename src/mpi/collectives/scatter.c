/* src/mpi/collectives/scatter.c: see operations.h. */
#include "mpi/collectives/exchange.h"

static int give(struct exchange *call, const struct many *from, const struct one *to)
{
    struct shape shape;
    struct giving giving;
    struct piece own = {0}, piece = {0};
    struct taking taking = {call, &piece};
    int in_place = to->buffer == MPI_IN_PLACE;
    if (exchange_many(call, from, &shape) != 0 || exchange_is_own_place(call, to, from, &shape) ||
        (!in_place &&
         (exchange_one(to, &piece) != 0 || exchange_piece(from, &shape, call->rank, &own) != 0)) ||
        exchange_give(call, from, &shape, 0, &giving) != 0)
        return -1;
    struct engine_part part = piece_part(&own);
    call->own = in_place ? NULL : &part;
    exchange_run(call, ENGINE_SCATTER, call->root, ENGINE_EVERYBODY, &giving.offer, exchange_take,
                 &taking);
    exchange_give_end(&giving);
    return 0;
}

static int take(struct exchange *call, const struct one *to)
{
    struct piece piece;
    if (to->buffer == MPI_IN_PLACE || exchange_one(to, &piece) != 0)
        return -1;
    struct taking taking = {call, &piece};
    exchange_run(call, ENGINE_SCATTER, call->root, ENGINE_EVERYBODY, NULL, exchange_take, &taking);
    return 0;
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
    if (call.result == MPI_SUCCESS && (call.is_root ? give(&call, from, to) : take(&call, to)) != 0)
        return 0;
    return exchange_end(&call, comm, result);
}
