/* src/mpi/collectives/exchange.c: see exchange.h. */
#include "mpi/collectives/exchange.h"

#include <stdlib.h>

#include "mpi/group/group.h"
#include "mpi/pmpi/message.h"

int exchange_begin(struct exchange *call, MPI_Comm comm, const struct described *what)
{
    int root = what->root;
    *call = (struct exchange){.root = root, .result = MPI_SUCCESS};
    call->communicator = communicator_of(comm, what->is_reduction, &call->result);
    if (!call->communicator)
        return call->result != MPI_SUCCESS;
    call->nodes = call->communicator->nodes;
    call->result = check_call(comm, what);
    if (call->result != MPI_SUCCESS)
        return 1;
    if (!call->communicator->engine)
        return 0;
    call->rank = call->communicator->group->rank;
    call->ranks = call->communicator->group->ranks;
    call->is_root = root == call->rank;
    if (root != ENGINE_EVERYBODY && (root < 0 || root >= call->ranks))
        exchange_fail(call, MPI_ERR_ROOT);
    return 1;
}

void exchange_fail(struct exchange *call, int error)
{
    call->result = error;
    engine_fail(call->communicator->engine); /* a lost peer's error would hide this one */
}

int exchange_end(const struct exchange *call, MPI_Comm comm, int *result)
{
    int polled = call->communicator ? progress_until_idle() : MPI_SUCCESS;
    *result = call->result != MPI_SUCCESS ? call->result : polled;
    if (*result != MPI_SUCCESS)
        pmpi()->Comm_call_errhandler(comm, *result);
    else if (!call->nodes) /* there each space counts its own */
        communicator_count(call->communicator);
    return 1;
}

char *exchange_room(const struct exchange *call, int has_form, size_t bytes)
{
    struct rooms *rooms =
        has_form && bytes <= SHORT_MAX ? communicator_rooms(call->communicator) : NULL;
    return rooms ? rooms->given : NULL;
}

void exchange_tell_sizes(const struct exchange *call, int from, size_t given, size_t expected)
{
    layer_message(call->rank,
                  "rank %d gives %zu bytes in a collective operation in which this rank expects "
                  "%zu: counts and types must match",
                  from, given, expected);
}

void exchange_get(struct exchange *call, const struct piece *piece, int from,
                  const struct engine_part *part)
{
    if (from == call->rank && !(part = call->own))
        return;
    int result = piece_fill(piece, part);
    if (result == MPI_ERR_TRUNCATE)
        exchange_tell_sizes(call, from, part->bytes, piece_bytes(piece));
    if (call->result == MPI_SUCCESS)
        call->result = result;
}

void exchange_take(void *context, int from, const struct engine_part *part)
{
    const struct taking *taking = context;
    exchange_get(taking->call, taking->piece, from, part);
}

void exchange_get_each(void *context, int from, const struct engine_part *part)
{
    const struct getting_each *taking = context;
    struct piece piece;
    if (from == taking->call->rank && !taking->call->own)
        return;
    exchange_piece(taking->to, &taking->shape, from, &piece);
    exchange_get(taking->call, &piece, from, part);
}

void exchange_run(struct exchange *call, enum engine_call what, int from, int to,
                  const struct engine_offer *mine, engine_take *take, void *context)
{
    int result = engine_exchange(call->communicator->engine, what, from, to, mine, take, context);
    if (call->result == MPI_SUCCESS)
        call->result = result;
}

static int find_shape(MPI_Datatype type, enum use use, struct shape *shape)
{
    int result = shape_find(type, shape);
    int is_checked = pmpi_is_open_mpi() ? use != USE_RECEIVES : use != USE_BROADCASTS;
    return result == MPI_SUCCESS && is_checked ? shape_check_committed(type) : result;
}

int exchange_one(const struct one *one, enum use use, struct piece *piece)
{
    *piece = (struct piece){.address = one->buffer, .count = one->count};
    if (one->count < 0)
        return MPI_ERR_COUNT;
    int result = find_shape(one->type, use, &piece->shape);
    if (result != MPI_SUCCESS)
        return result;
    if (one->buffer == MPI_IN_PLACE)
        return exchange_in_place_error();
    return one->buffer || !one->count || piece->shape.form ? MPI_SUCCESS : MPI_ERR_BUFFER;
}

int exchange_check_buffers(const struct reduction *call, const struct use_of_buffers *use,
                           int has_form)
{
    if (use->gets ? call->receive == MPI_IN_PLACE : call->send == MPI_IN_PLACE)
        return use->error;
    if (!has_form && (!call->send || (use->gets && !call->receive)))
        return MPI_ERR_BUFFER;
    return use->must_differ && call->send == call->receive ? use->error : MPI_SUCCESS;
}

/* Whether the data has no address although there is some. An address in its types may be absolute,
 * so that MPI_BOTTOM, which is NULL in some libraries, is one. */
static int is_nowhere(const struct exchange *call, const struct many *many, int has_form)
{
    if (many->buffer || has_form)
        return 0;
    for (int i = 0; i < call->ranks; i++)
        if (places_count(&many->places, i))
            return 1;
    return 0;
}

int exchange_many(const struct exchange *call, const struct many *many, enum use use,
                  struct shape *shape)
{
    int result = MPI_SUCCESS, has_form = 0;
    *shape = (struct shape){0};
    if (many->buffer == MPI_IN_PLACE)
        return exchange_in_place_error();
    if (!places_are_valid(&many->places, call->ranks))
        return MPI_ERR_COUNT;
    for (int i = 0; result == MPI_SUCCESS && i < (many->types ? call->ranks : 1); i++) {
        MPI_Datatype type = many->types ? many->types[i] : many->type;
        int is_nothing = many->types && !places_count(&many->places, i) && !pmpi_is_open_mpi();
        result = find_shape(type, is_nothing ? USE_BROADCASTS : use, shape);
        has_form |= shape->form != NULL;
    }
    if (result == MPI_SUCCESS && is_nowhere(call, many, has_form))
        result = MPI_ERR_BUFFER;
    return result;
}

int exchange_is_aliased(const struct exchange *call, const struct many *from, const struct many *to)
{
    if (from->buffer != to->buffer || from->places.counts != to->places.counts ||
        from->types != to->types || (!to->types && from->type != to->type) || exchange_may_alias())
        return 0;
    for (int i = 0; i < call->ranks; i++)
        if (places_count(&to->places, i))
            return 1;
    return 0;
}

int exchange_is_own_place(const struct exchange *call, const struct one *one,
                          const struct many *all, const struct shape *shape)
{
    MPI_Count count = places_count(&all->places, call->rank);
    if (exchange_may_alias() || one->type != all->type || !one->count || !count)
        return 0;
    if (!all->places.vary && one->count != count)
        return 0;
    return one->buffer ==
           (char *)all->buffer + places_at(&all->places, call->rank) * (ptrdiff_t)shape->size;
}

int exchange_piece(const struct many *many, const struct shape *shape, int rank,
                   struct piece *piece)
{
    ptrdiff_t step = many->types ? 1 : shape->extent;
    piece->shape = *shape;
    int result = many->types ? shape_find(many->types[rank], &piece->shape) : MPI_SUCCESS;
    if (result != MPI_SUCCESS)
        return result;
    piece->count = places_count(&many->places, rank);
    piece->address = (char *)many->buffer + places_at(&many->places, rank) * step;
    return MPI_SUCCESS;
}

/* Data in the order of the ranks is offered where it is, or packed as a whole. */
static void give_regular(const struct exchange *call, const struct many *from,
                         const struct shape *shape, struct giving *giving)
{
    MPI_Count count = from->places.count;
    struct piece each = {from->buffer, count, *shape},
                 all = {from->buffer, count * call->ranks, *shape};
    size_t bytes = piece_bytes(&each);
    char *room = exchange_room(call, shape->form != NULL, piece_bytes(&all));
    if (room && piece_pack(&all, room) == MPI_SUCCESS)
        giving->offer = (struct engine_offer){.base = room, .bytes = bytes, .stride = bytes};
    else
        giving->offer = (struct engine_offer){.base = from->buffer,
                                              .bytes = bytes,
                                              .stride = (size_t)(count * shape->extent),
                                              .form = shape->form};
}

static int give_parts(const struct exchange *call, const struct many *from,
                      const struct shape *shape, struct giving *giving)
{
    for (int i = 0; i < call->ranks; i++) {
        struct piece piece;
        int result = exchange_piece(from, shape, i, &piece);
        if (result != MPI_SUCCESS)
            return result;
        giving->parts[i] = piece_part(&piece);
    }
    return MPI_SUCCESS;
}

/* Packs all parts one after another, and gives these. */
static int copy_parts(const struct exchange *call, struct giving *giving)
{
    size_t bytes = 0;
    for (int i = 0; i < call->ranks; i++)
        bytes += giving->parts[i].bytes;
    char *to = giving->copy = malloc(bytes + 1);
    if (!to)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < call->ranks; i++) {
        struct engine_part *part = &giving->parts[i];
        struct piece packed = piece_of_bytes(to, part->bytes);
        int result = piece_fill(&packed, part);
        if (result != MPI_SUCCESS)
            return result;
        *part = piece_part(&packed);
        to += part->bytes;
    }
    return MPI_SUCCESS;
}

int exchange_give(const struct exchange *call, const struct many *from, const struct shape *shape,
                  int is_copied, struct giving *giving)
{
    giving->copy = NULL;
    giving->parts = giving->few;
    giving->offer = (struct engine_offer){0};
    if (!is_copied && !from->places.counts && !from->types) {
        give_regular(call, from, shape, giving);
        return MPI_SUCCESS;
    }
    if (call->ranks > FEW_RANKS &&
        !(giving->parts = malloc((size_t)call->ranks * sizeof(*giving->parts))))
        return MPI_ERR_NO_MEM;
    int result = give_parts(call, from, shape, giving);
    if (result == MPI_SUCCESS && is_copied)
        result = copy_parts(call, giving);
    giving->offer.parts = giving->parts;
    if (result != MPI_SUCCESS)
        exchange_give_end(giving);
    return result;
}

void exchange_give_end(struct giving *giving)
{
    if (giving->parts != giving->few)
        free(giving->parts);
    free(giving->copy);
}
