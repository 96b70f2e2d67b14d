/* src/mpi/collectives/nodes_reduce.c: see nodes.h; the operations that combine data, little of it.
 *
 * The ranks of a space combine their data, and their leader combines that with the data of the
 * other leaders, by the MPI library. That keeps the order of the ranks where they lie space by
 * space: else an operation must commute, and there are no scans. Data that fits into the records of
 * an agreement is combined with them, by the layer's own loops. */
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
    reduce_function *loop;  /* of a predefined operation; NULL: the library has to combine */
    struct scratch scratch; /* `sum`: of this space; `next`: of others */
    int result;             /* MPI_SUCCESS or the first error while records were combined */
};

static void note(struct combining *combining, int result)
{
    if (combining->result == MPI_SUCCESS)
        combining->result = result;
}

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

/* Call, with valid arguments, decides the same way on all ranks. */
static enum nodes_way find_way(const struct combining *combining)
{
    size_t count = (size_t)combining->call->count, size = combining->shape.size;
    if (size == 0 || count > REDUCE_MAX / size ||
        !(combining->commutes || combining->nodes->is_in_order))
        return NODES_LIBRARY;
    return nodes_way_of(count * size, SHORT_DATA_MAX);
}

/* MPI_SUCCESS, or the class of what is wrong with this rank's arguments. */
static int find_operation(struct combining *combining)
{
    const struct reduction *call = combining->call;
    combining->commutes = 1;
    combining->loop = NULL;
    if (call->op == MPI_OP_NULL)
        return MPI_ERR_OP;
    if (reduce_op_is_predefined(call->op)) {
        const struct predefined_type *basic =
            call->type == MPI_DATATYPE_NULL ? NULL : predefined_type_of(call->type);
        if (!basic || !reduce_is_supported(call->op, basic))
            return MPI_ERR_OP;
        combining->loop = reduce_function_find(call->op, basic);
        return shape_find(call->type, &combining->shape);
    }
    int result = shape_find(call->type, &combining->shape);
    if (result == MPI_SUCCESS)
        result = shape_check_committed(call->type);
    return result == MPI_SUCCESS ? pmpi()->Op_commutative(call->op, &combining->commutes) : result;
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

/* Leaves the result in `sum`; exchanges the addresses of the two, if need be. */
static int combine_two(const struct combining *combining, struct piece *sum, struct piece *next)
{
    const struct reduction *call = combining->call;
    if (combining->loop) {
        combining->loop(sum->address, next->address, (size_t)call->count);
        return MPI_SUCCESS;
    }
    int result =
        pmpi()->Reduce_local(sum->address, next->address, (int)call->count, call->type, call->op);
    char *address = sum->address;
    sum->address = next->address;
    next->address = address;
    return result;
}

/* Combines the data of two records. */
static void combine(void *context, const struct nodes_record *first, struct nodes_record *second)
{
    struct combining *combining = context;
    const struct reduction *call = combining->call;
    struct scratch *scratch = &combining->scratch;
    if (nodes_differ(first, second) || second->way != NODES_INLINE)
        return;
    if (!scratch->sum) { /* this rank gives another size, which its own record says */
        second->way = NODES_LIBRARY;
        return;
    }
    struct piece sum = {scratch->sum, call->count, combining->shape},
                 next = {scratch->next, call->count, combining->shape};
    const struct engine_part data = {first->data, first->bytes, NULL},
                             after = {second->data, second->bytes, NULL};
    note(combining, piece_fill(&sum, &data));
    note(combining, piece_fill(&next, &after));
    note(combining, combine_two(combining, &sum, &next));
    note(combining, piece_pack(&sum, second->data));
}

/* This rank's arguments and memory: MPI_SUCCESS or an error class. *way: how it would do it. */
static int prepare(struct combining *combining, const struct use_of_buffers *use,
                   enum nodes_way *way)
{
    const struct reduction *call = combining->call;
    *way = NODES_LIBRARY;
    if (call->count <= 0)
        return call->count == 0 ? MPI_SUCCESS : MPI_ERR_COUNT;
    int result = find_operation(combining);
    if (result == MPI_SUCCESS)
        result = exchange_check_buffers(call, use, combining->shape.form != NULL);
    if (result != MPI_SUCCESS)
        return result;
    *way = find_way(combining);
    return *way == NODES_LIBRARY ? MPI_SUCCESS : get_scratch(combining);
}

/* Returns the way of all ranks. After NODES_INLINE each rank that gets the result has it. */
static enum nodes_way reduce_inline(struct combining *combining, int gets, int error,
                                    enum nodes_way way, int *result)
{
    const struct reduction *call = combining->call;
    const void *given = call->send == MPI_IN_PLACE ? call->receive : call->send;
    const struct piece from = {(char *)given, call->count, combining->shape},
                       to = {call->receive, call->count, combining->shape};
    const struct nodes_joint joint = {combine, combining, 0};
    struct nodes_record record = {.way = way};
    if (error == MPI_SUCCESS && way != NODES_LIBRARY)
        record.bytes = (uint32_t)piece_bytes(&from);
    if (error == MPI_SUCCESS && way == NODES_INLINE)
        error = piece_pack(&from, record.data);
    way = nodes_agree(combining->nodes, &joint, error, &record, result);
    if (way != NODES_INLINE)
        return way;
    const struct engine_part sum = {record.data, record.bytes, NULL};
    *result = combining->result;
    if (gets && *result == MPI_SUCCESS)
        *result = piece_fill(&to, &sum);
    return way;
}

static void begin(struct combining *combining, const struct nodes *nodes,
                  const struct reduction *call)
{
    *combining = (struct combining){.nodes = nodes, .call = call, .result = MPI_SUCCESS};
}

int nodes_reduce(const struct nodes *nodes, const struct reduction *call, int root, int *result)
{
    struct combining combining;
    enum nodes_way way = NODES_LIBRARY;
    const struct use_of_buffers use = exchange_use_of_reduce(root, nodes->rank);
    begin(&combining, nodes, call);
    int error = root >= nodes->ranks ? MPI_ERR_ROOT : prepare(&combining, &use, &way);
    way = reduce_inline(&combining, use.gets, error, way, result);
    if (way == NODES_LAYER)
        *result = root == ENGINE_EVERYBODY ? allreduce(&combining) : reduce(&combining, root);
    scratch_free(&combining.scratch);
    return way != NODES_LIBRARY;
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

/* Combines the data of the ranks before this one, and its own unless is_exclusive. */
static int combine_up_to(struct combining *combining, const struct nodes_record *record,
                         int is_exclusive)
{
    const struct reduction *call = combining->call;
    struct piece sum = {combining->scratch.sum, call->count, combining->shape},
                 next = {combining->scratch.next, call->count, combining->shape},
                 to = {call->receive, call->count, combining->shape};
    struct engine_part part = {record->data, record->bytes, NULL};
    int ranks = combining->nodes->rank + !is_exclusive, result = piece_fill(&sum, &part);
    for (int i = 1; i < ranks && result == MPI_SUCCESS; i++) {
        part.data = record->data + (size_t)i * record->bytes;
        result = piece_fill(&next, &part);
        note(combining, combine_two(combining, &sum, &next));
    }
    note(combining, result);
    return ranks && combining->result == MPI_SUCCESS ? piece_copy(&to, &sum) : combining->result;
}

/* Returns the way of all ranks. After NODES_INLINE each rank has its result. */
static enum nodes_way scan_inline(struct combining *combining, int is_exclusive, int error,
                                  enum nodes_way way, int *result)
{
    const struct nodes *nodes = combining->nodes;
    const struct reduction *call = combining->call;
    const void *given = call->send == MPI_IN_PLACE ? call->receive : call->send;
    const struct piece from = {(char *)given, call->count, combining->shape};
    const struct nodes_joint joint = {nodes_unite, NULL, 1};
    struct nodes_record record = {.way = way};
    if (error == MPI_SUCCESS && way != NODES_LIBRARY) {
        size_t bytes = piece_bytes(&from);
        record.bytes = (uint32_t)bytes;
        record.way = bytes <= LONG_DATA_MAX / (size_t)nodes->ranks ? NODES_INLINE : NODES_LAYER;
        if (record.way == NODES_INLINE)
            error = piece_pack(&from, record.data + (size_t)nodes->rank * bytes);
    }
    way = nodes_agree(nodes, &joint, error, &record, result);
    if (way == NODES_INLINE)
        *result = combine_up_to(combining, &record, is_exclusive);
    return way;
}

int nodes_scan(const struct nodes *nodes, const struct reduction *call, int is_exclusive,
               int *result)
{
    struct combining combining;
    enum nodes_way way;
    if (!nodes->is_in_order)
        return 0;
    /* Rank 0 gets nothing of MPI_Exscan, and need not have a buffer for it. */
    const struct use_of_buffers use =
        exchange_use_without_root(call, !is_exclusive || nodes->rank > 0);
    begin(&combining, nodes, call);
    int error = prepare(&combining, &use, &way);
    way = scan_inline(&combining, is_exclusive, error, way, result);
    if (way == NODES_LAYER)
        *result = scan(&combining, is_exclusive);
    scratch_free(&combining.scratch);
    return way != NODES_LIBRARY;
}
