/* src/mpi/collectives/nodes_move.c: see nodes.h; the operations that move data, little of it.
 *
 * Leaders get what their space gives, exchange that, and have the ranks read what is for them. What
 * a call moves in all must be known to each rank, or it could not decide whether it is little: so
 * not what has a count for each rank that only the root knows (MPI_Gatherv, MPI_Scatterv), or that
 * only two ranks know (MPI_Alltoallv, MPI_Alltoallw). */
#include "mpi/collectives/nodes_parts.h"

#include <string.h>

/* ---- Within a space ---- */

/* The engine's call on the ranks of the space, all of which make it. One rank alone has none. */
static void begin_here(const struct nodes *nodes, struct exchange *here, const char *name)
{
    const struct described what = {.name = name,
                                   .root = ENGINE_EVERYBODY,
                                   .count = -1,
                                   .type = MPI_DATATYPE_NULL,
                                   .op = MPI_OP_NULL};
    exchange_begin(here, nodes->here, &what);
}

static void run_here(struct exchange *here, enum engine_call what, int from, int to,
                     const struct engine_offer *mine, engine_take *take, void *context)
{
    const struct engine_part nothing = {0};
    if (here->result == MPI_SUCCESS && here->communicator)
        exchange_run(here, what, from, to, mine, take, context);
    else if (here->result == MPI_SUCCESS)
        take(context, here->rank, &nothing);
}

static int end_here(const struct nodes *nodes, struct exchange *here)
{
    int result = here->result;
    if (here->communicator)
        exchange_end(here, nodes->here, &result);
    return result;
}

/* The same for each reader. */
static struct engine_offer all_of(const struct engine_part *part)
{
    return (struct engine_offer){.base = part->data, .bytes = part->bytes, .form = part->form};
}

/* What a leader puts into its room from each rank of its space. */
struct filling {
    struct exchange *here;
    char *room;
    const int *starts; /* by place in the space; NULL: `each` bytes of each from `first` on */
    size_t each;
    int first;
};

static void fill(void *context, int from, const struct engine_part *part)
{
    const struct filling *filling = context;
    const int *starts = filling->starts ? filling->starts + from : NULL;
    size_t at = starts ? (size_t)starts[0] : (size_t)(from - filling->first) * filling->each,
           bytes = starts ? (size_t)(starts[1] - starts[0]) : filling->each;
    struct piece piece = piece_of_bytes(filling->room + at, bytes);
    exchange_get(filling->here, &piece, from, part);
}

/* All ranks of the space give `mine` to the leader. */
static int to_leader(const struct nodes *nodes, const struct piece *mine, char *room,
                     const int *starts, size_t each)
{
    struct exchange here;
    struct engine_part own = piece_part(mine);
    const struct engine_offer offer = all_of(&own);
    struct filling filling = {&here, room, starts, each, 0};
    begin_here(nodes, &here, "MPI_Gather");
    here.own = nodes_is_leader(nodes) ? &own : NULL;
    run_here(&here, ENGINE_GATHER, ENGINE_EVERYBODY, 0, nodes_is_leader(nodes) ? NULL : &offer,
             fill, &filling);
    return end_here(nodes, &here);
}

/* What a rank reads in its leader's room. */
struct reading {
    struct exchange *here;
    const struct nodes *nodes;
    const struct many *to;
    struct shape shape;
    size_t each; /* of Alltoall: what a rank has for another */
};

static void put(const struct reading *reading, int rank, const char *from, size_t bytes)
{
    struct piece piece;
    const struct engine_part part = {from, bytes, NULL};
    exchange_piece(reading->to, &reading->shape, rank, &piece);
    int result = piece_fill(&piece, &part);
    if (reading->here->result == MPI_SUCCESS)
        reading->here->result = result;
}

/* The data of all ranks in node order. */
static void read_all(void *context, int from, const struct engine_part *part)
{
    const struct reading *reading = context;
    const struct nodes *nodes = reading->nodes;
    if (from == reading->here->rank && !(part = reading->here->own))
        return;
    for (int i = 0; i < nodes->ranks; i++)
        put(reading, nodes->by_place[i], (const char *)part->data + nodes->starts[i],
            (size_t)(nodes->starts[i + 1] - nodes->starts[i]));
}

/* From each space what its ranks, one after another, have for each of this one's. */
static void read_own(void *context, int from, const struct engine_part *part)
{
    const struct reading *reading = context;
    const struct nodes *nodes = reading->nodes;
    size_t here = (size_t)nodes_size(nodes, nodes_own(nodes)), each = reading->each;
    if (from == reading->here->rank && !(part = reading->here->own))
        return;
    const char *data = part->data;
    for (int i = 0; i < nodes->ranks; i++)
        put(reading, nodes->by_place[i],
            data + ((size_t)i * here + (size_t)nodes->of[nodes->rank].place) * each, each);
}

/* From each rank, in the order of the ranks, what it has for this one. */
static void read_column(void *context, int from, const struct engine_part *part)
{
    const struct reading *reading = context;
    int ranks = reading->nodes->ranks;
    (void)from;
    for (int i = 0; i < ranks; i++)
        put(reading, i,
            (const char *)part->data + (size_t)(i * ranks + reading->nodes->rank) * reading->each,
            reading->each);
}

/* Reads the data of all ranks in an agreement's record. */
static int read_record(const struct reading *of, const struct nodes_record *record,
                       engine_take *take)
{
    struct exchange call = {.result = MPI_SUCCESS};
    struct reading reading = *of;
    const struct engine_part all = {record->data, record->bytes, NULL};
    reading.here = &call;
    call.own = &all;
    take(&reading, call.rank, &all);
    return call.result;
}

/* `to`: a place in the space, or ENGINE_EVERYBODY. */
static int from_leader(const struct reading *of, size_t bytes, int to, engine_take *take)
{
    struct exchange here;
    struct reading reading = *of;
    const struct nodes *nodes = of->nodes;
    struct engine_part all = {nodes->rooms[0], bytes, NULL};
    const struct engine_offer offer = all_of(&all);
    begin_here(nodes, &here, "MPI_Scatter");
    reading.here = &here;
    here.own = nodes_is_leader(nodes) && to <= 0 ? &all : NULL;
    run_here(&here, ENGINE_SCATTER, 0, to, nodes_is_leader(nodes) ? &offer : NULL, take, &reading);
    return end_here(nodes, &here);
}

/* ---- Which calls ---- */

/* All ranks' data together; 0 if it is too much. Sets where each place's data begins. */
static size_t lay_out(const struct nodes *nodes, const struct places *places, size_t size,
                      size_t each)
{
    size_t all = 0;
    for (int i = 0; i < nodes->ranks && all <= MOVE_MAX; i++) {
        MPI_Count count = places ? places_count(places, nodes->by_place[i]) : 0;
        nodes->starts[i] = (int)all;
        all += !places ? each : (size_t)count > MOVE_MAX ? MOVE_MAX + 1 : (size_t)count * size;
    }
    nodes->starts[nodes->ranks] = (int)all;
    return all <= MOVE_MAX ? all : 0;
}

/* What leaders exchange: the data of each space. */
static void divide(const struct nodes *nodes)
{
    for (int i = 0; i < nodes->spaces; i++) {
        nodes->displacements[i] = nodes->starts[nodes->by_space[i]];
        nodes->counts[i] = nodes->starts[nodes->by_space[i + 1]] - nodes->displacements[i];
    }
}

/* The data of this rank where it may be in place, of the rank's own type then. */
static int find_mine(const struct nodes *nodes, const struct one *from, const struct many *to,
                     enum use use, const struct shape *shape, struct piece *mine)
{
    return from->buffer == MPI_IN_PLACE ? exchange_piece(to, shape, nodes->rank, mine)
                                        : exchange_one(from, use, mine);
}

/* Checks `all`, and `one` beside it, on a rank that gathers or scatters. MPI_SUCCESS or an error
 * class. */
static int check_all(const struct nodes *nodes, const struct one *one, const struct many *all,
                     enum use use, struct shape *shape)
{
    const struct exchange call = {.rank = nodes->rank, .ranks = nodes->ranks};
    int error = exchange_many(&call, all, use, shape);
    if (error == MPI_SUCCESS && one->buffer != MPI_IN_PLACE &&
        exchange_is_own_place(&call, one, all, shape))
        error = MPI_ERR_BUFFER;
    return error;
}

/* Checks that this rank gives no more than it says to get from itself. Sizes are those of the last
 * lay_out. */
static int check_own_size(const struct nodes *nodes, const struct piece *mine)
{
    const int *starts = nodes->starts + nodes_place(nodes, nodes->rank);
    size_t expected = (size_t)(starts[1] - starts[0]), given = piece_bytes(mine);
    if (given <= expected)
        return MPI_SUCCESS;
    const struct exchange call = {.rank = nodes->rank};
    exchange_tell_sizes(&call, nodes->rank, given, expected);
    return MPI_ERR_TRUNCATE;
}

/* ---- The operations ---- */

static int exchange_gathered(const struct nodes *nodes, int root)
{
    int own = nodes_own(nodes), to = root == ENGINE_EVERYBODY ? own : nodes->of[root].leader;
    char *room = nodes->rooms[0];
    if (!nodes_is_leader(nodes))
        return MPI_SUCCESS;
    divide(nodes);
    if (root == ENGINE_EVERYBODY)
        return pmpi()->Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, room, nodes->counts,
                                  nodes->displacements, MPI_BYTE, nodes->leaders);
    return pmpi()->Gatherv(own == to ? MPI_IN_PLACE : room + nodes->displacements[own],
                           nodes->counts[own], MPI_BYTE, room, nodes->counts, nodes->displacements,
                           MPI_BYTE, to, nodes->leaders);
}

int nodes_gather(const struct nodes *nodes, const struct one *from, const struct many *to, int root,
                 int *result)
{
    size_t bytes = 0;
    struct piece mine;
    struct reading reading = {.nodes = nodes, .to = to};
    int gets = root == ENGINE_EVERYBODY || root == nodes->rank;
    if (to->places.vary && root != ENGINE_EVERYBODY)
        return 0;
    int error = root >= nodes->ranks ? MPI_ERR_ROOT : MPI_SUCCESS;
    if (error == MPI_SUCCESS && gets)
        error = check_all(nodes, from, to, USE_RECEIVES, &reading.shape);
    if (error == MPI_SUCCESS)
        error = from->buffer == MPI_IN_PLACE && !gets
                    ? exchange_in_place_error()
                    : find_mine(nodes, from, to, USE_SENDS, &reading.shape, &mine);
    if (error == MPI_SUCCESS)
        bytes = lay_out(nodes, to->places.vary ? &to->places : NULL, reading.shape.size,
                        piece_bytes(&mine));
    const struct nodes_joint joint = {nodes_unite, NULL, 1};
    struct nodes_record record = {.way = nodes_way_of(bytes, LONG_DATA_MAX),
                                  .bytes = (uint32_t)bytes};
    if (bytes && to->places.vary)
        error = check_own_size(nodes, &mine);
    if (record.way == NODES_INLINE && error == MPI_SUCCESS)
        error = piece_pack(&mine, record.data + nodes->starts[nodes_place(nodes, nodes->rank)]);
    enum nodes_way way = nodes_agree(nodes, &joint, error, &record, result);
    if (way == NODES_INLINE && gets)
        *result = read_record(&reading, &record, read_all);
    if (way != NODES_LAYER)
        return way != NODES_LIBRARY;
    *result = to_leader(nodes, &mine, nodes->rooms[0],
                        nodes->starts + nodes->by_space[nodes_own(nodes)], 0);
    if (*result == MPI_SUCCESS)
        *result = exchange_gathered(nodes, root);
    int is_there = root == ENGINE_EVERYBODY || nodes->of[root].leader == nodes_own(nodes);
    if (*result == MPI_SUCCESS && is_there)
        *result = from_leader(&reading, bytes,
                              root == ENGINE_EVERYBODY ? root : nodes->of[root].place, read_all);
    return 1;
}

/* The root's data, which is in the order of the ranks, to its leader in node order. */
static int from_root(const struct nodes *nodes, const struct piece *all, int root, size_t each)
{
    struct exchange here;
    int place = nodes->of[root].place;
    size_t bytes = each * (size_t)nodes->ranks;
    struct engine_part own = {0};
    struct engine_offer offer = {0};
    struct filling filling = {&here, nodes->rooms[nodes->is_in_order ? 0 : 1], NULL, bytes, place};
    begin_here(nodes, &here, "MPI_Gather");
    if (all) {
        own = piece_part(all);
        offer = all_of(&own);
        here.own = place == 0 ? &own : NULL;
    }
    run_here(&here, ENGINE_GATHER, place, 0, all && place ? &offer : NULL, fill, &filling);
    for (int i = 0; nodes_is_leader(nodes) && !nodes->is_in_order && i < nodes->ranks; i++)
        memcpy(nodes->rooms[0] + (size_t)i * each,
               nodes->rooms[1] + (size_t)nodes->by_place[i] * each, each);
    return end_here(nodes, &here);
}

static int exchange_scattered(const struct nodes *nodes, int there, size_t each)
{
    int own = nodes_own(nodes), mine = nodes_size(nodes, own) * (int)each;
    for (int i = 0; i < nodes->spaces; i++) {
        nodes->counts[i] = nodes_size(nodes, i) * (int)each;
        nodes->displacements[i] = nodes->by_space[i] * (int)each;
    }
    return pmpi()->Scatterv(nodes->rooms[0], nodes->counts, nodes->displacements, MPI_BYTE,
                            own == there ? MPI_IN_PLACE : nodes->rooms[0], mine, MPI_BYTE, there,
                            nodes->leaders);
}

/* What a rank of a scatter gets, and whether it keeps what it has instead. */
struct part_of_all {
    struct exchange *here;
    const struct piece *piece;
    int is_kept;
};

static void get_part(void *context, int from, const struct engine_part *part)
{
    const struct part_of_all *taking = context;
    if (!taking->is_kept)
        exchange_get(taking->here, taking->piece, from, part);
}

/* is_there: the leader's room has the data of all spaces. */
static int hand_out(const struct nodes *nodes, const struct piece *mine, int is_kept, int is_there,
                    size_t each)
{
    struct exchange here;
    struct part_of_all taking = {&here, mine, is_kept};
    size_t first = is_there ? (size_t)nodes->by_space[nodes_own(nodes)] : 0;
    const struct engine_part own = {nodes->rooms[0] + first * each, each, NULL};
    const struct engine_offer offer = {.base = own.data, .bytes = each, .stride = each};
    begin_here(nodes, &here, "MPI_Scatter");
    here.own = nodes_is_leader(nodes) ? &own : NULL;
    run_here(&here, ENGINE_SCATTER, 0, ENGINE_EVERYBODY, nodes_is_leader(nodes) ? &offer : NULL,
             get_part, &taking);
    return end_here(nodes, &here);
}

int nodes_scatter(const struct nodes *nodes, const struct many *from, const struct one *to,
                  int root, int *result)
{
    struct shape shape;
    struct piece mine, all;
    size_t each = 0, ranks = (size_t)nodes->ranks;
    int is_root = nodes->rank == root, is_kept = to->buffer == MPI_IN_PLACE;
    if (from->places.vary)
        return 0;
    int error = root >= nodes->ranks ? MPI_ERR_ROOT : MPI_SUCCESS;
    if (error == MPI_SUCCESS && is_root)
        error = check_all(nodes, to, from, USE_RECEIVES, &shape);
    if (error == MPI_SUCCESS)
        error = is_kept && !is_root ? exchange_in_place_error()
                                    : find_mine(nodes, to, from, USE_RECEIVES, &shape, &mine);
    if (error == MPI_SUCCESS)
        each = piece_bytes(&mine);
    if (error == MPI_SUCCESS && is_root)
        all = (struct piece){from->buffer, from->places.count * nodes->ranks, shape};
    const struct nodes_joint joint = {nodes_unite, NULL, 1};
    size_t bytes = each > MOVE_MAX / ranks ? 0 : each * ranks;
    struct nodes_record record = {.way = nodes_way_of(bytes, LONG_DATA_MAX),
                                  .bytes = (uint32_t)bytes};
    if (record.way == NODES_INLINE && error == MPI_SUCCESS && is_root)
        error = piece_bytes(&all) <= bytes ? piece_pack(&all, record.data) : MPI_ERR_TRUNCATE;
    enum nodes_way way = nodes_agree(nodes, &joint, error, &record, result);
    if (way == NODES_INLINE && !is_kept) {
        const struct engine_part part = {record.data + (size_t)nodes->rank * each, each, NULL};
        *result = piece_fill(&mine, &part);
    }
    if (way != NODES_LAYER)
        return way != NODES_LIBRARY;
    int there = nodes->of[root].leader, own = nodes_own(nodes);
    *result = own == there ? from_root(nodes, is_root ? &all : NULL, root, each) : MPI_SUCCESS;
    if (*result == MPI_SUCCESS && nodes_is_leader(nodes))
        *result = exchange_scattered(nodes, there, each);
    if (*result == MPI_SUCCESS)
        *result = hand_out(nodes, &mine, is_kept, own == there, each);
    return 1;
}

/* What the ranks of this space have for those of each space. */
static void sort(const struct nodes *nodes, size_t each)
{
    int own = nodes_own(nodes), here = nodes_size(nodes, own);
    char *to = nodes->rooms[1];
    for (int space = 0; space < nodes->spaces; space++)
        for (int from = 0; from < here; from++)
            for (int i = nodes->by_space[space]; i < nodes->by_space[space + 1]; i++) {
                memcpy(to,
                       nodes->rooms[0] + (size_t)(from * nodes->ranks + nodes->by_place[i]) * each,
                       each);
                to += each;
            }
}

/* Each pair of spaces has as much for one another. */
static int exchange_sorted(const struct nodes *nodes, size_t each)
{
    int here = nodes_size(nodes, nodes_own(nodes));
    sort(nodes, each);
    for (int i = 0; i < nodes->spaces; i++) {
        nodes->counts[i] = here * nodes_size(nodes, i) * (int)each;
        nodes->displacements[i] = here * nodes->by_space[i] * (int)each;
    }
    return pmpi()->Alltoallv(nodes->rooms[1], nodes->counts, nodes->displacements, MPI_BYTE,
                             nodes->rooms[0], nodes->counts, nodes->displacements, MPI_BYTE,
                             nodes->leaders);
}

int nodes_alltoall(const struct nodes *nodes, const struct many *from, const struct many *to,
                   int *result)
{
    struct shape shape;
    struct reading reading = {.nodes = nodes, .to = to};
    const struct many *given = from->buffer == MPI_IN_PLACE ? to : from;
    const struct exchange call = {.ranks = nodes->ranks};
    if (to->places.vary)
        return 0;
    int in_place = from->buffer == MPI_IN_PLACE, error;
    error = exchange_many(&call, to, USE_RECEIVES, &reading.shape);
    if (error == MPI_SUCCESS)
        error = exchange_many(&call, given, in_place ? USE_RECEIVES : USE_SENDS, &shape);
    if (error == MPI_SUCCESS && exchange_is_aliased(&call, from, to))
        error = MPI_ERR_BUFFER;
    struct piece all = {0};
    if (error == MPI_SUCCESS)
        all = (struct piece){given->buffer, given->places.count * nodes->ranks, shape};
    size_t ranks = (size_t)nodes->ranks, most = ranks * (size_t)nodes->most_here,
           here = (size_t)nodes_size(nodes, nodes_own(nodes));
    reading.each = piece_bytes(&all) / ranks;
    const struct nodes_joint joint = {nodes_unite, NULL, 1};
    size_t bytes = reading.each > MOVE_MAX / most ? 0 : reading.each * ranks;
    struct nodes_record record = {.way = nodes_way_of(bytes, LONG_DATA_MAX / ranks),
                                  .bytes = (uint32_t)bytes};
    if (record.way == NODES_INLINE && error == MPI_SUCCESS)
        error = piece_pack(&all, record.data + (size_t)nodes->rank * bytes);
    enum nodes_way way = nodes_agree(nodes, &joint, error, &record, result);
    if (way == NODES_INLINE)
        *result = read_record(&reading, &record, read_column);
    if (way != NODES_LAYER)
        return way != NODES_LIBRARY;
    *result = to_leader(nodes, &all, nodes->rooms[0], NULL, reading.each * ranks);
    if (*result == MPI_SUCCESS && nodes_is_leader(nodes))
        *result = exchange_sorted(nodes, reading.each);
    if (*result == MPI_SUCCESS)
        *result = from_leader(&reading, reading.each * ranks * here, ENGINE_EVERYBODY, read_own);
    return 1;
}
