/* src/mpi/collectives/gather.c: see operations.h. */
#include "mpi/collectives/exchange.h"

/* keeps: this rank gets its own part, too. */
static void gather(struct exchange *call, const struct piece *mine, int keeps,
                   struct getting_each *taking)
{
    struct engine_part own = piece_part(mine), part = own;
    char *room = exchange_room(call, part.form != NULL, part.bytes);
    if (room && piece_pack(mine, room) == MPI_SUCCESS)
        part = (struct engine_part){room, part.bytes, NULL};
    struct engine_offer offer = {.base = part.data, .bytes = part.bytes, .form = part.form};
    call->own = keeps ? &own : NULL;
    exchange_run(call, ENGINE_GATHER, ENGINE_EVERYBODY, call->root, call->is_root ? NULL : &offer,
                 exchange_get_each, taking);
}

/* What each gives is the same for all but in MPI_Gatherv. */
static struct described described(const struct one *from, const struct many *to, int root)
{
    static const char *const names[2][2] = {{"MPI_Gather", "MPI_Gatherv"},
                                            {"MPI_Allgather", "MPI_Allgatherv"}};
    int to_all = root == ENGINE_EVERYBODY, varies = to->places.vary,
        is_got = varies || from->buffer == MPI_IN_PLACE;
    struct described what = {.name = names[to_all][varies],
                             .root = root,
                             .count = is_got ? to->places.count : from->count,
                             .type = is_got ? to->type : from->type,
                             .op = MPI_OP_NULL};
    if (varies) {
        what.count = -1;
        what.places = to_all ? &to->places : NULL;
    }
    return what;
}

/* MPI_SUCCESS, or the class of what is wrong with this rank's arguments. gets: this rank gathers.
 */
static int find_buffers(const struct one *from, int gets, struct piece *mine,
                        struct getting_each *taking)
{
    const struct exchange *call = taking->call;
    int in_place = from->buffer == MPI_IN_PLACE;
    int error = gets ? exchange_many(call, taking->to, USE_RECEIVES, &taking->shape) : MPI_SUCCESS;
    if (error != MPI_SUCCESS)
        return error;
    if (in_place)
        return gets ? exchange_piece(taking->to, &taking->shape, call->rank, mine)
                    : exchange_in_place_error();
    if (gets && exchange_is_own_place(call, from, taking->to, &taking->shape))
        return MPI_ERR_BUFFER;
    return exchange_one(from, USE_SENDS, mine);
}

int collective_gather(MPI_Comm comm, const struct one *from, const struct many *to, int root,
                      int *result)
{
    struct exchange call;
    struct getting_each taking = {&call, to, {0}};
    struct piece mine;
    const struct described what = described(from, to, root);
    if (!exchange_begin(&call, comm, &what))
        return call.nodes && nodes_gather(call.nodes, from, to, root, &call.result) &&
               exchange_end(&call, comm, result);
    if (call.result == MPI_SUCCESS) {
        int gets = root == ENGINE_EVERYBODY || call.is_root;
        int error = find_buffers(from, gets, &mine, &taking);
        if (error == MPI_SUCCESS)
            gather(&call, &mine, gets && from->buffer != MPI_IN_PLACE, &taking);
        else
            exchange_fail(&call, error);
    }
    return exchange_end(&call, comm, result);
}
