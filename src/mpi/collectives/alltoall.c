/* src/mpi/collectives/alltoall.c: see operations.h. */
#include "mpi/collectives/exchange.h"

/* MPI_SUCCESS, or an error before anything was exchanged. */
static int turn(struct exchange *call, const struct many *from, const struct shape *shape,
                int in_place, struct getting_each *taking)
{
    struct giving giving;
    struct piece own = {0};
    int error = exchange_give(call, from, shape, in_place, &giving);
    if (error != MPI_SUCCESS)
        return error;
    if (!in_place)
        exchange_piece(from, shape, call->rank, &own);
    struct engine_part part = piece_part(&own);
    call->own = in_place ? NULL : &part;
    exchange_run(call, ENGINE_ALLTOALL, ENGINE_EVERYBODY, ENGINE_EVERYBODY, &giving.offer,
                 exchange_get_each, taking);
    exchange_give_end(&giving);
    return MPI_SUCCESS;
}

/* Of MPI_Alltoall, each gives the same to each. */
static struct described described(const struct many *from, const struct many *to)
{
    const struct many *given = from->buffer == MPI_IN_PLACE ? to : from;
    struct described what = {.name = "MPI_Alltoall",
                             .root = ENGINE_EVERYBODY,
                             .count = given->places.count,
                             .type = given->type,
                             .op = MPI_OP_NULL};
    if (to->places.vary) {
        what.name = to->types ? "MPI_Alltoallw" : "MPI_Alltoallv";
        what.count = -1;
    }
    return what;
}

int collective_alltoall(MPI_Comm comm, const struct many *from, const struct many *to, int *result)
{
    struct exchange call;
    struct getting_each taking = {&call, to, {0}};
    const struct described what = described(from, to);
    if (!exchange_begin(&call, comm, &what))
        return call.nodes && nodes_alltoall(call.nodes, from, to, &call.result) &&
               exchange_end(&call, comm, result);
    if (call.result == MPI_SUCCESS) {
        int in_place = from->buffer == MPI_IN_PLACE;
        const struct many *given = in_place ? to : from;
        struct shape shape;
        int error = exchange_many(&call, to, USE_RECEIVES, &taking.shape);
        if (error == MPI_SUCCESS)
            error = exchange_many(&call, given, in_place ? USE_RECEIVES : USE_SENDS, &shape);
        if (error == MPI_SUCCESS && exchange_is_aliased(&call, from, to))
            error = MPI_ERR_BUFFER;
        if (error == MPI_SUCCESS)
            error = turn(&call, given, &shape, in_place, &taking);
        if (error != MPI_SUCCESS)
            exchange_fail(&call, error);
    }
    return exchange_end(&call, comm, result);
}
