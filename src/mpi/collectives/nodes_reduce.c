/* src/mpi/collectives/nodes_reduce.c: see nodes.h; the operations that combine data, little of it.
 *
 * What the ranks of a space combine their leader combines with that of the others, by the MPI
 * library. That keeps the order of the ranks where they lie space by space: else an operation must
 * commute, and there are no scans. Which calls come here depends on the operation, which all ranks
 * have in common, on the bytes of data, and on where ranks are. */
#include "mpi/collectives/nodes_parts.h"

#include <string.h>

#include "mpi/collectives/scratch.h"
#include "mpi/types/types.h"

/* One rank's call. */
struct combining {
    const struct nodes *nodes;
    const struct reduction *call;
    struct shape shape; /* of the type */
    int commutes;
    struct scratch scratch; /* `sum`: of this space; `next`: of others */
};

/* ---- Within a space ---- */

/* To the leader's `to`. */
static int reduce_here(struct combining *combining, char *to)
{
    int result;
    const struct nodes *nodes = combining->nodes;
    struct reduction here = *combining->call;
    here.comm = nodes->here;
    here.receive = nodes_is_leader(nodes) ? to : NULL;
    here.send = here.send == MPI_IN_PLACE ? combining->call->receive : here.send;
    return collective_reduce(&here, 0, &result)
               ? result
               : pmpi()->Reduce(here.send, here.receive, (int)here.count, here.type, here.op, 0,
                                nodes->here);
}

static int scan_here(const struct combining *combining, int is_exclusive)
{
    int result;
    struct reduction here = *combining->call;
    here.comm = combining->nodes->here;
    if (collective_scan(&here, is_exclusive, &result))
        return result;
    return (is_exclusive ? pmpi()->Exscan : pmpi()->Scan)(here.send, here.receive, (int)here.count,
                                                          here.type, here.op, here.comm);
}

/* From the leader to the root, which is in its space. */
static int hand_on(const struct nodes *nodes, const struct reduction *call, void *sum, int root)
{
    int *counts = nodes->counts, *displacements = nodes->displacements, result;
    memset(counts, 0, (size_t)nodes->most_here * sizeof(int));
    memset(displacements, 0, (size_t)nodes->most_here * sizeof(int));
    counts[nodes->of[root].place] = (int)call->count;
    const struct many from = {sum, {0, counts, displacements, 0, 1}, call->type, NULL};
    const struct one to = {call->receive, nodes->rank == root ? call->count : 0, call->type};
    if (!collective_scatter(nodes->here, &from, &to, 0, &result))
        result = pmpi()->Scatterv(sum, counts, displacements, call->type, call->receive,
                                  (int)to.count, call->type, 0, nodes->here);
    return result;
}

/* ---- Which calls ---- */

static int find_operation(struct combining *combining)
{
    const struct reduction *call = combining->call;
    if (call->count <= 0 || call->type == MPI_DATATYPE_NULL || call->op == MPI_OP_NULL)
        return -1;
    const struct predefined_type *basic = predefined_type_of(call->type);
    int is_predefined = reduce_op_is_predefined(call->op);
    combining->commutes = 1;
    if (is_predefined ? !basic || !reduce_is_supported(call->op, basic)
                      : pmpi()->Op_commutative(call->op, &combining->commutes) != MPI_SUCCESS)
        return -1;
    const struct shape *shape = &combining->shape;
    return shape_find(call->type, &combining->shape) == 0 && shape->size &&
                   (size_t)call->count <= REDUCE_MAX / shape->size
               ? 0
               : -1;
}

/* gets: this rank gets a result. */
static int may_combine(const struct combining *combining, int gets, int may_alias)
{
    const struct reduction *call = combining->call;
    int has_form = combining->shape.form != NULL;
    return gets ? exchange_may_combine(call->send, call->receive, has_form, may_alias)
                : exchange_may_give(call->send, has_form);
}

static int get_scratch(struct combining *combining)
{
    size_t count = (size_t)combining->call->count;
    return scratch_new(&combining->scratch, NULL, combining->call->type, &combining->shape, count,
                       count);
}

/* ---- The operations ---- */

static int allreduce(struct combining *combining)
{
    const struct nodes *nodes = combining->nodes;
    const struct reduction *call = combining->call;
    const struct one data = {call->receive, call->count, call->type};
    int result = reduce_here(combining, combining->scratch.sum);
    if (result == MPI_SUCCESS && nodes_is_leader(nodes))
        result = pmpi()->Allreduce(combining->scratch.sum, call->receive, (int)call->count,
                                   call->type, call->op, nodes->leaders);
    return result == MPI_SUCCESS ? nodes_broadcast_here(nodes, &data, 0) : result;
}

static int reduce(struct combining *combining, int root)
{
    const struct nodes *nodes = combining->nodes;
    const struct reduction *call = combining->call;
    int to = nodes->of[root].leader, is_there = nodes_own(nodes) == to;
    char *sum = nodes->rank == root ? call->receive : combining->scratch.next;
    int result = reduce_here(combining, combining->scratch.sum);
    if (result == MPI_SUCCESS && nodes_is_leader(nodes))
        result = pmpi()->Reduce(combining->scratch.sum, is_there ? sum : NULL, (int)call->count,
                                call->type, call->op, to, nodes->leaders);
    if (is_there && nodes->of[root].place != 0 && result == MPI_SUCCESS)
        result = hand_on(nodes, call, sum, root);
    return result;
}

int nodes_reduce(const struct nodes *nodes, const struct reduction *call, int root, int *result)
{
    struct combining combining;
    int gets = root == ENGINE_EVERYBODY || nodes->rank == root;
    combining.nodes = nodes;
    combining.call = call;
    if (root >= nodes->ranks || find_operation(&combining) != 0 ||
        !(combining.commutes || nodes->is_in_order) || !may_combine(&combining, gets, 0))
        return 0;
    *result = get_scratch(&combining);
    if (*result == MPI_SUCCESS) {
        *result = root == ENGINE_EVERYBODY ? allreduce(&combining) : reduce(&combining, root);
        scratch_free(&combining.scratch);
    }
    return 1;
}

/* What the spaces before have given, to all ranks of this one, and in front of what they have. */
static int put_before(struct combining *combining, int is_exclusive)
{
    const struct nodes *nodes = combining->nodes;
    const struct reduction *call = combining->call;
    const struct one data = {combining->scratch.next, call->count, call->type};
    int result = nodes_broadcast_here(nodes, &data, 0);
    if (result != MPI_SUCCESS)
        return result;
    if (!is_exclusive || nodes->of[nodes->rank].place > 0)
        return pmpi()->Reduce_local(data.buffer, call->receive, (int)call->count, call->type,
                                    call->op);
    const struct piece to = {call->receive, call->count, combining->shape},
                       from = {data.buffer, call->count, combining->shape};
    return piece_copy(&to, &from);
}

/* In place the ranks' own data is gone after the scan, so what it is in all is found first. */
static int scan(struct combining *combining, int is_exclusive)
{
    const struct nodes *nodes = combining->nodes;
    const struct reduction *call = combining->call;
    int result = reduce_here(combining, combining->scratch.sum);
    if (result == MPI_SUCCESS)
        result = scan_here(combining, is_exclusive);
    if (result == MPI_SUCCESS && nodes_is_leader(nodes))
        result = pmpi()->Exscan(combining->scratch.sum, combining->scratch.next, (int)call->count,
                                call->type, call->op, nodes->leaders);
    return result == MPI_SUCCESS && nodes_own(nodes) > 0 ? put_before(combining, is_exclusive)
                                                         : result;
}

int nodes_scan(const struct nodes *nodes, const struct reduction *call, int is_exclusive,
               int *result)
{
    struct combining combining;
    /* Rank 0 gets nothing of MPI_Exscan, and need not have a buffer for it. */
    int gets = !is_exclusive || nodes->rank > 0 || call->send == MPI_IN_PLACE;
    combining.nodes = nodes;
    combining.call = call;
    if (!nodes->is_in_order || find_operation(&combining) != 0 ||
        !may_combine(&combining, gets, exchange_may_alias()))
        return 0;
    *result = get_scratch(&combining);
    if (*result == MPI_SUCCESS) {
        *result = scan(&combining, is_exclusive);
        scratch_free(&combining.scratch);
    }
    return 1;
}
