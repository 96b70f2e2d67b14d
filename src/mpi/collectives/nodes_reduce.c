/* src/mpi/collectives/nodes_reduce.c: see nodes.h. MPI_Reduce, MPI_Allreduce, MPI_Scan and
 * MPI_Exscan over several nodes.
 *
 * The ranks of a node combine their data, and the leaders combine the results by the MPI library.
 * That keeps the rank order if ranks are in node order: otherwise an operation must commute, and
 * the library runs scans. Data that fits the records of an agreement is combined with them, by the
 * layer's loops. */
#include <string.h>

#include "mpi/collectives/nodes.h"

struct nodes_reduce_ctx {
    struct coll_call *call;
    const struct nodes *nodes;
    struct reduce_operation operation;
    struct operand_bufs operands; /* `sum`: of this node, `next`: of others */
    int error;                    /* the first error while records were combined */
};

static void set_error(struct nodes_reduce_ctx *ctx, int error)
{
    if (ctx->error == MPI_SUCCESS)
        ctx->error = error;
}

static struct typed_buf buf_at(const struct nodes_reduce_ctx *ctx, void *addr)
{
    return (struct typed_buf){addr, ctx->call->recvbuf.count, ctx->operation.type};
}

/* The buffer with this rank's operand. */
static struct typed_buf own_operand(const struct nodes_reduce_ctx *ctx)
{
    const struct coll_call *call = ctx->call;
    return buf_at(ctx,
                  call->sendbuf.addr == MPI_IN_PLACE ? call->recvbuf.addr : call->sendbuf.addr);
}

/* Leaves the result in `sum`; exchanges the addresses of the two if necessary. */
static int combine_two(const struct nodes_reduce_ctx *ctx, struct typed_buf *sum,
                       struct typed_buf *next)
{
    const struct coll_call *call = ctx->call;
    int count = (int)call->recvbuf.count;
    if (ctx->operation.loop) {
        ctx->operation.loop(sum->addr, next->addr, (size_t)count);
        return MPI_SUCCESS;
    }
    int result =
        pmpi()->Reduce_local(sum->addr, next->addr, count, call->recvbuf.datatype, call->op);
    char *addr = sum->addr;
    sum->addr = next->addr;
    next->addr = addr;
    return result;
}

/* ---- The decision ---- */

/* Checks this rank's arguments, and sets its decision. */
static int prepare(struct nodes_reduce_ctx *ctx, struct coll_call *call,
                   enum nodes_decision *decision)
{
    MPI_Count count = call->recvbuf.count;
    const struct reduce_rules rules = reduce_rules_of(call);
    *ctx = (struct nodes_reduce_ctx){
        .call = call, .nodes = call->communicator->nodes, .error = MPI_SUCCESS};
    *decision = NODES_LIBRARY;
    if (call->root >= call->size)
        return MPI_ERR_ROOT;
    if (count <= 0)
        return count == 0 ? MPI_SUCCESS : MPI_ERR_COUNT;
    int result = reduce_operation_find(call, &ctx->operation);
    const struct item_layout *type = &ctx->operation.type;
    if (result == MPI_SUCCESS)
        result = reduce_check_bufs(call, &rules, type->layout != NULL);
    if (result != MPI_SUCCESS)
        return result;
    if (type->size && (size_t)count <= NODES_REDUCE_MAX_BYTES / type->size &&
        (ctx->operation.commutes || ctx->nodes->ranks_are_in_node_order))
        *decision = nodes_decide((size_t)count * type->size, SHORT_DATA_MAX_BYTES);
    return *decision == NODES_LIBRARY
               ? MPI_SUCCESS
               : operand_bufs_init(&ctx->operands, NULL, call->recvbuf.datatype, type,
                                   (size_t)count, (size_t)count);
}

/* nodes_merge.combine */
static void combine_records(void *context, const struct nodes_record *lower,
                            struct nodes_record *higher)
{
    struct nodes_reduce_ctx *ctx = context;
    if (nodes_sizes_differ(lower, higher) || higher->decision != NODES_INLINE)
        return;
    if (!ctx->operands.sum) { /* this rank passes another size, which its own record reports */
        higher->decision = NODES_LIBRARY;
        return;
    }
    struct typed_buf sum = buf_at(ctx, ctx->operands.sum), next = buf_at(ctx, ctx->operands.next);
    const struct engine_part lower_data = {lower->data, lower->bytes, NULL},
                             higher_data = {higher->data, higher->bytes, NULL};
    set_error(ctx, typed_buf_receive(&sum, &lower_data));
    set_error(ctx, typed_buf_receive(&next, &higher_data));
    set_error(ctx, combine_two(ctx, &sum, &next));
    set_error(ctx, typed_buf_pack(&sum, higher->data));
}

/* ---- MPI_Reduce, MPI_Allreduce ---- */

/* Reduces within the node, to the leader's `sum`. */
static int reduce_within(struct nodes_reduce_ctx *ctx)
{
    int result;
    const struct nodes *nodes = ctx->nodes;
    struct coll_call within = *ctx->call;
    within.operation = COLL_REDUCE;
    within.comm = nodes->node_comm;
    within.root = 0;
    within.sendbuf.addr = own_operand(ctx).addr;
    within.recvbuf.addr = nodes_is_leader(nodes) ? ctx->operands.sum : NULL;
    return coll_reduce(&within, &result)
               ? result
               : pmpi()->Reduce(within.sendbuf.addr, within.recvbuf.addr, (int)within.recvbuf.count,
                                within.recvbuf.datatype, within.op, 0, nodes->node_comm);
}

static int allreduce(struct nodes_reduce_ctx *ctx)
{
    const struct nodes *nodes = ctx->nodes;
    const struct coll_call *call = ctx->call;
    const struct coll_buf *recvbuf = &call->recvbuf;
    int result = reduce_within(ctx);
    if (result == MPI_SUCCESS && nodes_is_leader(nodes))
        result = pmpi()->Allreduce(ctx->operands.sum, recvbuf->addr, (int)recvbuf->count,
                                   recvbuf->datatype, call->op, nodes->leader_comm);
    return result == MPI_SUCCESS
               ? nodes_bcast_within(nodes, recvbuf->addr, recvbuf->count, recvbuf->datatype, 0)
               : result;
}

/* Moves the result from the leader to the root, which is another rank of its node. */
static int forward_to_root(const struct nodes_reduce_ctx *ctx, void *sum)
{
    const struct nodes *nodes = ctx->nodes;
    const struct coll_call *call = ctx->call;
    int *counts = nodes->counts, *displs = nodes->displs, result;
    MPI_Datatype datatype = call->recvbuf.datatype;
    MPI_Count recvcount = call->rank == call->root ? call->recvbuf.count : 0;
    memset(counts, 0, (size_t)nodes->largest * sizeof(int));
    memset(displs, 0, (size_t)nodes->largest * sizeof(int));
    counts[nodes->location[call->root].local_rank] = (int)call->recvbuf.count;
    struct coll_call within = {
        .operation = COLL_SCATTERV,
        .comm = nodes->node_comm,
        .sendbuf = {.addr = sum, .counts = counts, .displs = displs, .datatype = datatype},
        .recvbuf = {.addr = call->recvbuf.addr, .count = recvcount, .datatype = datatype},
        .root = 0};
    return coll_scatter(&within, &result)
               ? result
               : pmpi()->Scatterv(sum, counts, displs, datatype, call->recvbuf.addr, (int)recvcount,
                                  datatype, 0, nodes->node_comm);
}

static int reduce(struct nodes_reduce_ctx *ctx)
{
    const struct nodes *nodes = ctx->nodes;
    const struct coll_call *call = ctx->call;
    const struct coll_buf *recvbuf = &call->recvbuf;
    int root_node = nodes->location[call->root].node, is_root_node = nodes_own(nodes) == root_node;
    char *sum = call->rank == call->root ? recvbuf->addr : ctx->operands.next;
    int result = reduce_within(ctx);
    if (result == MPI_SUCCESS && nodes_is_leader(nodes))
        result = pmpi()->Reduce(ctx->operands.sum, is_root_node ? sum : NULL, (int)recvbuf->count,
                                recvbuf->datatype, call->op, root_node, nodes->leader_comm);
    if (is_root_node && nodes->location[call->root].local_rank != 0 && result == MPI_SUCCESS)
        result = forward_to_root(ctx, sum);
    return result;
}

int nodes_reduce(struct coll_call *call)
{
    struct nodes_reduce_ctx ctx;
    enum nodes_decision decision;
    int error = prepare(&ctx, call, &decision);
    const struct typed_buf operand = own_operand(&ctx), to = buf_at(&ctx, call->recvbuf.addr);
    const struct nodes_merge merge = {combine_records, &ctx, 0};
    struct nodes_record record = {.decision = decision};
    if (error == MPI_SUCCESS && decision != NODES_LIBRARY)
        record.bytes = (uint32_t)typed_buf_bytes(&operand);
    if (error == MPI_SUCCESS && decision == NODES_INLINE)
        error = typed_buf_pack(&operand, record.data);
    decision = nodes_agree(call, &merge, error, &record);
    if (decision == NODES_INLINE) {
        const struct engine_part sum = {record.data, record.bytes, NULL};
        call->error = ctx.error;
        if (coll_receives(call) && call->error == MPI_SUCCESS)
            call->error = typed_buf_receive(&to, &sum);
    } else if (decision == NODES_LAYER)
        call->error = call->root == COLL_ALL_RANKS ? allreduce(&ctx) : reduce(&ctx);
    operand_bufs_free(&ctx.operands);
    return decision != NODES_LIBRARY;
}

/* ---- MPI_Scan, MPI_Exscan ---- */

static int scan_within(const struct nodes_reduce_ctx *ctx)
{
    int result;
    struct coll_call within = *ctx->call;
    const struct coll_buf *recvbuf = &within.recvbuf;
    within.comm = ctx->nodes->node_comm;
    if (coll_scan(&within, &result))
        return result;
    return (within.operation == COLL_EXSCAN ? pmpi()->Exscan : pmpi()->Scan)(
        within.sendbuf.addr, recvbuf->addr, (int)recvbuf->count, recvbuf->datatype, within.op,
        within.comm);
}

/* Broadcasts the sum of the nodes before this one within the node, and puts it in front of each
 * rank's result. */
static int prepend_lower_nodes(const struct nodes_reduce_ctx *ctx)
{
    const struct nodes *nodes = ctx->nodes;
    const struct coll_call *call = ctx->call;
    const struct coll_buf *recvbuf = &call->recvbuf;
    char *lower = ctx->operands.next;
    int result = nodes_bcast_within(nodes, lower, recvbuf->count, recvbuf->datatype, 0);
    if (result != MPI_SUCCESS)
        return result;
    if (call->operation == COLL_SCAN || nodes->location[call->rank].local_rank > 0)
        return pmpi()->Reduce_local(lower, recvbuf->addr, (int)recvbuf->count, recvbuf->datatype,
                                    call->op);
    const struct typed_buf to = buf_at(ctx, recvbuf->addr), from = buf_at(ctx, lower);
    return typed_buf_copy(&to, &from);
}

/* In place the scan overwrites the operands, so the node's sum is made first. */
static int scan(struct nodes_reduce_ctx *ctx)
{
    const struct nodes *nodes = ctx->nodes;
    const struct coll_call *call = ctx->call;
    int result = reduce_within(ctx);
    if (result == MPI_SUCCESS)
        result = scan_within(ctx);
    if (result == MPI_SUCCESS && nodes_is_leader(nodes))
        result = pmpi()->Exscan(ctx->operands.sum, ctx->operands.next, (int)call->recvbuf.count,
                                call->recvbuf.datatype, call->op, nodes->leader_comm);
    return result == MPI_SUCCESS && nodes_own(nodes) > 0 ? prepend_lower_nodes(ctx) : result;
}

/* Combines the data in the record of the ranks up to this one, itself only in MPI_Scan. */
static int scan_record(struct nodes_reduce_ctx *ctx, const struct nodes_record *record)
{
    const struct coll_call *call = ctx->call;
    struct typed_buf sum = buf_at(ctx, ctx->operands.sum), next = buf_at(ctx, ctx->operands.next),
                     to = buf_at(ctx, call->recvbuf.addr);
    struct engine_part part = {record->data, record->bytes, NULL};
    int ranks = call->rank + (call->operation == COLL_SCAN);
    int result = typed_buf_receive(&sum, &part);
    for (int i = 1; i < ranks && result == MPI_SUCCESS; i++) {
        part.data = record->data + (size_t)i * record->bytes;
        result = typed_buf_receive(&next, &part);
        if (result == MPI_SUCCESS)
            result = combine_two(ctx, &sum, &next);
    }
    return ranks && result == MPI_SUCCESS ? typed_buf_copy(&to, &sum) : result;
}

int nodes_scan(struct coll_call *call)
{
    struct nodes_reduce_ctx ctx;
    enum nodes_decision decision;
    if (!call->communicator->nodes->ranks_are_in_node_order)
        return 0;
    int error = prepare(&ctx, call, &decision);
    const struct typed_buf operand = own_operand(&ctx);
    const struct nodes_merge merge = {nodes_merge_disjoint, NULL, 1};
    struct nodes_record record = {.decision = decision};
    if (error == MPI_SUCCESS && decision != NODES_LIBRARY) {
        size_t bytes = typed_buf_bytes(&operand);
        record.bytes = (uint32_t)bytes;
        record.decision =
            bytes <= LONG_DATA_MAX_BYTES / (size_t)call->size ? NODES_INLINE : NODES_LAYER;
        if (record.decision == NODES_INLINE)
            error = typed_buf_pack(&operand, record.data + (size_t)call->rank * bytes);
    }
    decision = nodes_agree(call, &merge, error, &record);
    if (decision == NODES_INLINE)
        call->error = scan_record(&ctx, &record);
    else if (decision == NODES_LAYER)
        call->error = scan(&ctx);
    operand_bufs_free(&ctx.operands);
    return decision != NODES_LIBRARY;
}
