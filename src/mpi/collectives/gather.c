/* src/mpi/collectives/gather.c: see operations.h. */
#include "mpi/collectives/exchange.h"

/* `taking` is of ranks that get, `own` what this one gives. */
struct gathering {
    struct getting_each taking; /* first: a context of exchange_get_each, too */
    struct engine_part own;
};

static void put(void *context, const struct engine_part *to)
{
    const struct gathering *gathering = context;
    struct exchange *call = gathering->taking.call;
    const struct piece place = {(char *)to->data, (MPI_Count)to->bytes, {1, 1, to->form}};
    int result = piece_fill(&place, &gathering->own);
    if (call->result == MPI_SUCCESS)
        call->result = result;
}

static int has_large(const struct many *to, const struct shape *shape, int ranks)
{
    for (int i = 0; i < (to->places.vary ? ranks : 1); i++)
        if ((size_t)places_count(&to->places, i) * shape->size >= ENGINE_PUT_MIN)
            return 1;
    return 0;
}

static void collect(struct exchange *call, const struct engine_offer *offer,
                    struct gathering *gathering)
{
    struct giving places; /* where a part is got is said as where one is given */
    const struct getting_each *taking = &gathering->taking;
    int is_said = call->is_root && has_large(taking->to, &taking->shape, call->ranks) &&
                  exchange_give(call, taking->to, &taking->shape, 0, &places) == 0;
    int result = engine_collect(call->communicator->engine, call->root, offer,
                                is_said ? &places.offer : NULL, exchange_get_each, put, gathering);
    if (call->result == MPI_SUCCESS)
        call->result = result;
    if (is_said)
        exchange_give_end(&places);
}

/* keeps: this rank gets its own part, too. */
static void gather(struct exchange *call, const struct piece *mine, int keeps,
                   struct gathering *gathering)
{
    char room[PACK_MAX];
    struct engine_part own = piece_part(mine), part = own;
    if (part.form && part.bytes <= PACK_MAX && piece_pack(mine, room) == MPI_SUCCESS)
        part = (struct engine_part){room, part.bytes, NULL};
    struct engine_offer offer = {.base = part.data, .bytes = part.bytes, .form = part.form};
    call->own = keeps ? &own : NULL;
    gathering->own = own;
    if (call->root == ENGINE_EVERYBODY)
        exchange_run(call, ENGINE_GATHER, ENGINE_EVERYBODY, ENGINE_EVERYBODY, &offer,
                     exchange_get_each, gathering);
    else
        collect(call, &offer, gathering);
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

int collective_gather(MPI_Comm comm, const struct one *from, const struct many *to, int root,
                      int *result)
{
    struct exchange call;
    struct gathering gathering = {.taking = {.call = &call, .to = to}};
    struct shape *shape = &gathering.taking.shape;
    struct piece mine;
    const struct described what = described(from, to, root);
    if (!exchange_begin(&call, comm, &what))
        return call.nodes && nodes_gather(call.nodes, from, to, root, &call.result) &&
               exchange_end(&call, comm, result);
    if (call.result == MPI_SUCCESS) {
        int gets = root == ENGINE_EVERYBODY || call.is_root;
        if (gets &&
            (exchange_many(&call, to, shape) != 0 || exchange_is_own_place(&call, from, to, shape)))
            return 0;
        int in_place = from->buffer == MPI_IN_PLACE;
        if (in_place ? !gets || exchange_piece(to, shape, call.rank, &mine) != 0
                     : exchange_one(from, &mine) != 0)
            return 0;
        gather(&call, &mine, gets && !in_place, &gathering);
    }
    return exchange_end(&call, comm, result);
}
