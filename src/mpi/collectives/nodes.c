/* src/mpi/collectives/nodes.c: see nodes.h; which rank is where, the barrier and the broadcast. */
#include "mpi/collectives/nodes_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- Setting up ---- */

static _Atomic int
    is_finalizing; /* set by MPI_Finalize's thread, which frees communicators later */

static int note_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    is_finalizing = 1;
    return MPI_SUCCESS;
}

/* MPI_Finalize deletes attributes of MPI_COMM_SELF first, and those of others when some libraries
 * do not free communicators any more. */
static int watch_finalize(void)
{
    static _Atomic int keyval = MPI_KEYVAL_INVALID;
    if (keyval != MPI_KEYVAL_INVALID)
        return MPI_SUCCESS;
    int result = pmpi_create_keyval(&keyval, note_finalize);
    return result == MPI_SUCCESS ? pmpi()->Comm_set_attr(MPI_COMM_SELF, keyval, NULL) : result;
}

/* The first rank in the caller's space. */
static int first_here(const struct group *group)
{
    int first = 0;
    while (first < group->rank && !group_in_space(group, first))
        first++;
    return first;
}

/* Where each rank is, from the first rank of each one's space. */
static void arrange(struct nodes *nodes, const int *first)
{
    int *sizes = nodes->by_space + 1; /* until they are summed up */
    nodes->is_in_order = 1;
    for (int i = 0; i < nodes->ranks; i++) {
        int is_first = first[i] == i;
        nodes->of[i].leader = is_first ? nodes->spaces++ : nodes->of[first[i]].leader;
        nodes->of[i].place = sizes[nodes->of[i].leader]++;
        nodes->is_in_order &= nodes->of[i].leader == nodes->spaces - 1;
    }
    for (int i = 0; i < nodes->spaces; i++) {
        nodes->most_here = sizes[i] > nodes->most_here ? sizes[i] : nodes->most_here;
        sizes[i] += nodes->by_space[i];
    }
    for (int i = 0; i < nodes->ranks; i++)
        nodes->by_place[nodes_place(nodes, i)] = i;
}

static int split(struct nodes *nodes, MPI_Comm comm, int first)
{
    int result = pmpi()->Comm_split(comm, first, nodes->rank, &nodes->here);
    if (result == MPI_SUCCESS)
        result = pmpi()->Comm_split(comm, first == nodes->rank ? 0 : MPI_UNDEFINED, nodes->rank,
                                    &nodes->leaders);
    if (result == MPI_SUCCESS)
        result = pmpi()->Comm_set_errhandler(nodes->here, MPI_ERRORS_RETURN);
    if (result == MPI_SUCCESS && nodes->leaders != MPI_COMM_NULL)
        result = pmpi()->Comm_set_errhandler(nodes->leaders, MPI_ERRORS_RETURN);
    return result;
}

/* Whether all ranks have what the caller has: a rank that lacks something tells the others. */
static int all_have(MPI_Comm comm, int have, int *error)
{
    int all = 0;
    if (*error == MPI_SUCCESS)
        *error = pmpi()->Allreduce(&have, &all, 1, MPI_INT, MPI_MIN, comm);
    return *error == MPI_SUCCESS && all;
}

static struct nodes *allocate(const struct group *group, int is_leader)
{
    size_t ranks = (size_t)group->ranks;
    struct nodes *nodes = calloc(1, sizeof(*nodes) + ranks * sizeof(nodes->of[0]));
    if (!nodes)
        return NULL;
    nodes->rank = group->rank;
    nodes->ranks = group->ranks;
    nodes->here = nodes->leaders = MPI_COMM_NULL;
    nodes->merge = MPI_OP_NULL;
    nodes->records[0] = nodes->records[1] = MPI_DATATYPE_NULL;
    nodes->by_space = calloc(5 * (ranks + 1), sizeof(int));
    nodes->rooms[0] = is_leader ? malloc(2 * (size_t)MOVE_MAX) : NULL;
    if (!nodes->by_space || (is_leader && !nodes->rooms[0])) {
        nodes_free(nodes);
        return NULL;
    }
    nodes->by_place = nodes->by_space + ranks + 1;
    nodes->starts = nodes->by_place + ranks + 1;
    nodes->counts = nodes->starts + ranks + 1;
    nodes->displacements = nodes->counts + ranks + 1;
    nodes->rooms[1] = is_leader ? nodes->rooms[0] + MOVE_MAX : NULL;
    return nodes;
}

/* 1: the ranks of each space can exchange data (one alone need not), and there are several spaces,
 * and fewer than ranks. */
static int set_up(struct nodes *nodes, MPI_Comm comm, const int *first, int *error)
{
    arrange(nodes, first);
    if (nodes->spaces == 1 || nodes->spaces == nodes->ranks)
        return 0;
    *error = watch_finalize();
    if (*error == MPI_SUCCESS)
        *error = split(nodes, comm, first[nodes->rank]);
    const struct communicator *here =
        *error == MPI_SUCCESS ? communicator_of(nodes->here, 1, error) : NULL;
    nodes->engine = here ? here->engine : NULL;
    if (*error == MPI_SUCCESS)
        *error = nodes_agree_begin(nodes);
    return all_have(comm, nodes_size(nodes, nodes_own(nodes)) == 1 || nodes->engine, error);
}

struct nodes *nodes_new(MPI_Comm comm, const struct group *group, int *error)
{
    int mine = first_here(group);
    struct nodes *nodes = allocate(group, mine == group->rank);
    int *first = calloc((size_t)group->ranks, sizeof(*first));
    *error = MPI_SUCCESS;
    int has_memory = all_have(comm, nodes && first, error);
    if (*error == MPI_SUCCESS && (!has_memory || !nodes || !first))
        *error = MPI_ERR_NO_MEM;
    if (*error == MPI_SUCCESS)
        *error = pmpi()->Allgather(&mine, 1, MPI_INT, first, 1, MPI_INT, comm);
    if (*error != MPI_SUCCESS || !set_up(nodes, comm, first, error)) {
        nodes_free(nodes);
        nodes = NULL;
    }
    free(first);
    return nodes;
}

void nodes_free(struct nodes *nodes)
{
    if (!nodes)
        return;
    if (!is_finalizing || !pmpi_is_open_mpi()) /* MPICH complains about a type that is left */
        nodes_agree_end(nodes);
    if (!is_finalizing && nodes->here != MPI_COMM_NULL)
        pmpi()->Comm_free(&nodes->here);
    if (!is_finalizing && nodes->leaders != MPI_COMM_NULL)
        pmpi()->Comm_free(&nodes->leaders);
    free(nodes->by_space);
    free(nodes->rooms[0]);
    free(nodes);
}

/* ---- The operations ---- */

static int barrier_here(const struct nodes *nodes)
{
    int result;
    return collective_barrier(nodes->here, &result) ? result : pmpi()->Barrier(nodes->here);
}

int nodes_broadcast_here(const struct nodes *nodes, const struct one *data, int place)
{
    int result;
    return collective_broadcast(nodes->here, data, place, &result)
               ? result
               : pmpi()->Bcast(data->buffer, (int)data->count, data->type, place, nodes->here);
}

int nodes_barrier(const struct nodes *nodes, int *result)
{
    *result = barrier_here(nodes);
    if (*result == MPI_SUCCESS && nodes_is_leader(nodes))
        *result = pmpi()->Barrier(nodes->leaders);
    if (*result == MPI_SUCCESS)
        *result = barrier_here(nodes);
    return 1;
}

/* Keeps the root's record. */
static void merge_data(void *context, const struct nodes_record *first, struct nodes_record *second)
{
    (void)context;
    if (first->has_data)
        memcpy(second, first, NODES_SHORT);
}

static int broadcast(const struct nodes *nodes, const struct one *data, int root)
{
    int from = nodes->of[root].leader, is_there = nodes_own(nodes) == from, result = MPI_SUCCESS;
    if (is_there)
        result = nodes_broadcast_here(nodes, data, nodes->of[root].place);
    if (result == MPI_SUCCESS && nodes_is_leader(nodes))
        result = pmpi()->Bcast(data->buffer, (int)data->count, data->type, from, nodes->leaders);
    if (!is_there && result == MPI_SUCCESS)
        result = nodes_broadcast_here(nodes, data, 0);
    return result;
}

/* Broadcasts by way of memory of the size that the root gives, because this rank expects another.
 * The other ranks get their data. */
static int broadcast_other_size(const struct nodes *nodes, const struct piece *piece, size_t bytes,
                                int root)
{
    struct exchange call = {.rank = nodes->rank, .result = MPI_SUCCESS};
    struct engine_part part = {malloc(bytes), bytes, NULL};
    const struct one data = {(void *)part.data, (MPI_Count)bytes, MPI_BYTE};
    if (!part.data)
        return MPI_ERR_NO_MEM;
    int result = broadcast(nodes, &data, root);
    if (result == MPI_SUCCESS)
        result = exchange_get_broadcast(&call, piece, root, &part);
    free(data.buffer);
    return result;
}

int nodes_broadcast(const struct nodes *nodes, const struct one *data, int root, int *result)
{
    struct piece piece = {0};
    const struct nodes_joint joint = {merge_data, NULL, 0};
    struct nodes_record record = {.way = NODES_LIBRARY, .has_data = nodes->rank == root};
    int error = root >= nodes->ranks
                    ? MPI_ERR_ROOT
                    : exchange_one(data, data->count ? USE_SENDS : USE_BROADCASTS, &piece);
    if (error == MPI_SUCCESS && data->count && piece.shape.size &&
        (size_t)data->count <= BROADCAST_MAX / piece.shape.size) {
        record.bytes = (uint32_t)piece_bytes(&piece);
        record.way = nodes_way_of(record.bytes, SHORT_DATA_MAX);
    }
    if (record.way == NODES_INLINE && record.has_data)
        error = piece_pack(&piece, record.data);
    enum nodes_way way = nodes_agree(nodes, &joint, error, &record, result);
    if (way == NODES_INLINE) {
        struct exchange call = {.rank = nodes->rank, .result = MPI_SUCCESS};
        const struct engine_part part = {record.data, record.bytes, NULL};
        *result = exchange_get_broadcast(&call, &piece, root, &part);
    } else if (way == NODES_LAYER)
        *result = record.bytes == piece_bytes(&piece)
                      ? broadcast(nodes, data, root)
                      : broadcast_other_size(nodes, &piece, record.bytes, root);
    return way != NODES_LIBRARY;
}
