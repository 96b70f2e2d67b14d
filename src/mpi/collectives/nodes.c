/* src/mpi/collectives/nodes.c: see nodes.h. */
#include "mpi/collectives/exchange.h"

#include <stdlib.h>

#include "mpi/types/reduce.h"

enum { BROADCAST_MAX = 64 << 10, REDUCE_MAX = 16 << 10 }; /* bytes of data */

struct nodes {
    MPI_Comm here, leaders; /* leaders: MPI_COMM_NULL if this rank is none */
    int rank, ranks;
    struct {
        int leader; /* among the leaders */
        int place;  /* within its space */
    } of[];         /* by rank */
};

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
    int result = real_make_keyval(&keyval, note_finalize);
    return result == MPI_SUCCESS ? real()->Comm_set_attr(MPI_COMM_SELF, keyval, NULL) : result;
}

/* The first rank in the caller's space. */
static int first_here(const struct group *group)
{
    int first = 0;
    while (first < group->rank && !group_in_space(group, first))
        first++;
    return first;
}

/* Where each rank is, from the first rank of each one's space; the number of spaces. */
static int arrange(struct nodes *nodes, const int *first, int ranks)
{
    int spaces = 0;
    for (int i = 0; i < ranks; i++) {
        nodes->of[i].leader = first[i] == i ? spaces++ : nodes->of[first[i]].leader;
        nodes->of[i].place = 0;
        for (int j = first[i]; j < i; j++)
            nodes->of[i].place += first[j] == first[i];
    }
    return spaces;
}

static int split(struct nodes *nodes, MPI_Comm comm, int first)
{
    int result = real()->Comm_split(comm, first, nodes->rank, &nodes->here);
    if (result == MPI_SUCCESS)
        result = real()->Comm_split(comm, first == nodes->rank ? 0 : MPI_UNDEFINED, nodes->rank,
                                    &nodes->leaders);
    if (result == MPI_SUCCESS)
        result = real()->Comm_set_errhandler(nodes->here, MPI_ERRORS_RETURN);
    if (result == MPI_SUCCESS && nodes->leaders != MPI_COMM_NULL)
        result = real()->Comm_set_errhandler(nodes->leaders, MPI_ERRORS_RETURN);
    return result;
}

struct nodes *nodes_new(MPI_Comm comm, const struct group *group, int *error)
{
    int ranks = group->ranks, mine = first_here(group);
    struct nodes *nodes = calloc(1, sizeof(*nodes) + (size_t)ranks * sizeof(nodes->of[0]));
    int *first = calloc((size_t)ranks, sizeof(*first)), has_memory = nodes && first, all_have = 0;
    /* A rank without memory tells the others. */
    *error = real()->Allreduce(&has_memory, &all_have, 1, MPI_INT, MPI_MIN, comm);
    if (*error == MPI_SUCCESS && (!all_have || !nodes || !first))
        *error = MPI_ERR_NO_MEM;
    if (*error == MPI_SUCCESS)
        *error = real()->Allgather(&mine, 1, MPI_INT, first, 1, MPI_INT, comm);
    if (*error == MPI_SUCCESS) {
        nodes->rank = group->rank;
        nodes->ranks = ranks;
        nodes->here = nodes->leaders = MPI_COMM_NULL;
        int spaces = arrange(nodes, first, ranks);
        if (spaces > 1 && spaces < ranks) {
            *error = watch_finalize();
            if (*error == MPI_SUCCESS)
                *error = split(nodes, comm, mine);
            if (*error == MPI_SUCCESS) {
                free(first);
                return nodes;
            }
        }
        nodes_free(nodes);
        nodes = NULL;
    }
    free(nodes);
    free(first);
    return NULL;
}

void nodes_free(struct nodes *nodes)
{
    if (nodes && !is_finalizing && nodes->here != MPI_COMM_NULL)
        real()->Comm_free(&nodes->here);
    if (nodes && !is_finalizing && nodes->leaders != MPI_COMM_NULL)
        real()->Comm_free(&nodes->leaders);
    free(nodes);
}

/* ---- Within a space: the layer's, if it takes it ---- */

static int barrier_here(const struct nodes *nodes)
{
    int result;
    return collective_barrier(nodes->here, &result) ? result : real()->Barrier(nodes->here);
}

static int broadcast_here(const struct nodes *nodes, const struct one *data, int root)
{
    int result;
    return collective_broadcast(nodes->here, data, root, &result)
               ? result
               : real()->Bcast(data->buffer, (int)data->count, data->type, root, nodes->here);
}

static int reduce_here(const struct nodes *nodes, const struct reduction *call)
{
    int result;
    return collective_reduce(call, 0, &result)
               ? result
               : real()->Reduce(call->send, call->receive, (int)call->count, call->type, call->op,
                                0, nodes->here);
}

/* ---- The operations ---- */

/* What only leaders do. */
#define BY_LEADERS(nodes, result, call)                                                            \
    ((result) == MPI_SUCCESS && (nodes)->leaders != MPI_COMM_NULL ? (call) : (result))

int nodes_barrier(const struct nodes *nodes, int *result)
{
    *result = barrier_here(nodes);
    *result = BY_LEADERS(nodes, *result, real()->Barrier(nodes->leaders));
    if (*result == MPI_SUCCESS)
        *result = barrier_here(nodes);
    return 1;
}

int nodes_broadcast(const struct nodes *nodes, const struct one *data, int root, int *result)
{
    struct shape shape;
    if (root >= nodes->ranks || data->count <= 0 || shape_find(data->type, &shape) != 0 ||
        shape.size == 0 || (size_t)data->count > BROADCAST_MAX / shape.size)
        return 0;
    int from = nodes->of[root].leader, is_there = nodes->of[nodes->rank].leader == from;
    *result = MPI_SUCCESS;
    if (is_there)
        *result = broadcast_here(nodes, data, nodes->of[root].place);
    *result =
        BY_LEADERS(nodes, *result,
                   real()->Bcast(data->buffer, (int)data->count, data->type, from, nodes->leaders));
    if (!is_there && *result == MPI_SUCCESS)
        *result = broadcast_here(nodes, data, 0);
    return 1;
}

/* From the leader to the root, which is in its space. */
static int hand_on(const struct nodes *nodes, const struct reduction *call, void *sum, int root)
{
    int place = nodes->of[root].place, ranks, result;
    real()->Comm_size(nodes->here, &ranks);
    int *counts = calloc((size_t)ranks * 2, sizeof(int));
    if (!counts)
        return MPI_ERR_NO_MEM;
    counts[place] = (int)call->count;
    const struct many from = {sum, {0, counts, counts + ranks, 0}, call->type, NULL};
    const struct one to = {call->receive, nodes->rank == root ? call->count : 0, call->type};
    if (!collective_scatter(nodes->here, &from, &to, 0, &result))
        result = real()->Scatterv(sum, counts, counts + ranks, call->type, call->receive,
                                  (int)to.count, call->type, 0, nodes->here);
    free(counts);
    return result;
}

int nodes_reduce(const struct nodes *nodes, const struct reduction *call, int root, int *result)
{
    const struct basic *basic =
        call->count > 0 && call->type != MPI_DATATYPE_NULL && call->op != MPI_OP_NULL
            ? types_basic(call->type)
            : NULL;
    if (root >= nodes->ranks || !types_is_dense(basic) || !reduce_find_standard(call->op, basic) ||
        (size_t)call->count > REDUCE_MAX / basic->size)
        return 0;
    int is_leader = nodes->leaders != MPI_COMM_NULL, is_root = nodes->rank == root;
    int gets = root == ENGINE_EVERYBODY || is_root, in_place = call->send == MPI_IN_PLACE;
    if (gets ? !exchange_may_combine(call->send, call->receive) : !call->send || in_place)
        return 0;
    char room[REDUCE_MAX];
    void *sum = gets ? call->receive : is_leader ? room : NULL;
    struct reduction here = *call;
    here.comm = nodes->here;
    here.receive = is_leader ? sum : NULL;
    here.send = in_place && !is_leader ? call->receive : call->send;
    *result = reduce_here(nodes, &here);
    if (root == ENGINE_EVERYBODY) {
        *result = BY_LEADERS(nodes, *result,
                             real()->Allreduce(MPI_IN_PLACE, sum, (int)call->count, call->type,
                                               call->op, nodes->leaders));
        const struct one data = {sum, call->count, call->type};
        if (*result == MPI_SUCCESS)
            *result = broadcast_here(nodes, &data, 0);
        return 1;
    }
    int to = nodes->of[root].leader, is_there = nodes->of[nodes->rank].leader == to;
    *result = BY_LEADERS(nodes, *result,
                         real()->Reduce(is_there ? MPI_IN_PLACE : sum, sum, (int)call->count,
                                        call->type, call->op, to, nodes->leaders));
    if (is_there && nodes->of[root].place != 0 && *result == MPI_SUCCESS)
        *result = hand_on(nodes, call, sum, root);
    return 1;
}
