/* src/mpi/collectives/nodes_reduce.c: see nodes.h. MPI_Reduce, MPI_Allreduce, MPI_Scan and
 * MPI_Exscan over several nodes.
 *
 * The ranks of a node combine their data, and the leaders combine the results: in the messages of
 * the agreement, or those of a scan by the MPI library. That keeps the rank order if ranks are in
 * node order: otherwise an operation must commute, and the library runs scans. */
#include <string.h>

#include "mpi/collectives/nodes.h"

struct nodes_reduce_ctx {
    struct coll_call *call;
    const struct nodes *nodes;
    struct reduce_operation operation;
    struct operand_bufs operands; /* `sum`: of this node, `next`: of others */
    int error;                    /* the first error while data was combined */
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

/* nodes_operation.merge */
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

/* Reduces within the node. `to`: of the leader. */
static int reduce_within(struct nodes_reduce_ctx *ctx, void *to)
{
    int result;
    const struct nodes *nodes = ctx->nodes;
    struct coll_call within = *ctx->call;
    within.operation = COLL_REDUCE;
    within.comm = nodes->node_comm;
    within.root = 0;
    within.sendbuf.addr = own_operand(ctx).addr;
    within.recvbuf.addr = nodes_is_leader(nodes) ? to : NULL;
    return coll_reduce(&within, &result)
               ? result
               : pmpi()->Reduce(within.sendbuf.addr, within.recvbuf.addr, (int)within.recvbuf.count,
                                within.recvbuf.datatype, within.op, 0, nodes->node_comm);
}

/* nodes_payload.load */
static int load_sum(void *context, size_t *bytes)
{
    struct nodes_reduce_ctx *ctx = context;
    char *buffer = ctx->nodes->buffers[0];
    const struct typed_buf sum = buf_at(ctx, ctx->operands.sum);
    int is_dense = !ctx->operation.type.layout;
    int result = reduce_within(ctx, is_dense ? buffer : sum.addr);
    if (result != MPI_SUCCESS || !nodes_is_leader(ctx->nodes))
        return result;
    *bytes = typed_buf_bytes(&sum);
    return is_dense ? MPI_SUCCESS : typed_buf_pack(&sum, buffer);
}

/* nodes_payload.combine */
static int combine_sums(void *context, struct engine_part *lower, struct engine_part *higher)
{
    struct nodes_reduce_ctx *ctx = context;
    struct typed_buf sum = buf_at(ctx, (char *)lower->data),
                     next = buf_at(ctx, (char *)higher->data);
    if (lower->bytes != typed_buf_bytes(&sum) || higher->bytes != lower->bytes)
        return MPI_ERR_OTHER;
    if (!ctx->operation.type.layout) {
        int result = combine_two(ctx, &sum, &next);
        (sum.addr == lower->data ? higher : lower)->bytes = 0;
        return result;
    }
    sum.addr = ctx->operands.sum;
    next.addr = ctx->operands.next;
    int result = typed_buf_receive(&sum, lower);
    if (result == MPI_SUCCESS)
        result = typed_buf_receive(&next, higher);
    if (result == MPI_SUCCESS)
        result = combine_two(ctx, &sum, &next);
    higher->bytes = 0;
    return result == MPI_SUCCESS ? typed_buf_pack(&sum, (char *)lower->data) : result;
}

/* nodes_payload.store */
static void store_sum(void *context, const struct engine_part *sum)
{
    struct nodes_reduce_ctx *ctx = context;
    const struct typed_buf to = buf_at(ctx, ctx->call->recvbuf.addr);
    if (coll_receives(ctx->call))
        coll_set_error(ctx->call, typed_buf_receive(&to, sum));
}

int nodes_reduce(struct coll_call *call)
{
    struct nodes_reduce_ctx ctx;
    enum nodes_decision decision;
    int error = prepare(&ctx, call, &decision);
    const struct typed_buf operand = own_operand(&ctx);
    const struct nodes_payload payload = {load_sum, combine_sums, store_sum, call->root};
    const struct nodes_operation operation = {combine_records, &payload, &ctx, 0};
    struct nodes_record record = {.decision = decision};
    if (error == MPI_SUCCESS && decision != NODES_LIBRARY)
        record.bytes = (uint32_t)typed_buf_bytes(&operand);
    if (error == MPI_SUCCESS && decision == NODES_INLINE)
        error = typed_buf_pack(&operand, record.data);
    decision = nodes_agree(call, &operation, error, &record);
    if (decision == NODES_INLINE) {
        const struct engine_part sum = {record.data, record.bytes, NULL};
        coll_set_error(call, ctx.error);
        store_sum(&ctx, &sum);
    }
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

static int bcast_from_leader(const struct nodes_reduce_ctx *ctx, char *buf)
{
    int result;
    struct coll_buf recvbuf = ctx->call->recvbuf;
    recvbuf.addr = buf;
    struct coll_call within = {
        .operation = COLL_BCAST, .comm = ctx->nodes->node_comm, .recvbuf = recvbuf, .root = 0};
    return coll_bcast(&within, &result)
               ? result
               : pmpi()->Bcast(buf, (int)recvbuf.count, recvbuf.datatype, 0, within.comm);
}

/* Broadcasts the sum of the nodes before this one within the node, and puts it in front of each
 * rank's result. */
static int prepend_lower_nodes(const struct nodes_reduce_ctx *ctx)
{
    const struct nodes *nodes = ctx->nodes;
    const struct coll_call *call = ctx->call;
    const struct coll_buf *recvbuf = &call->recvbuf;
    char *lower = ctx->operands.next;
    int result = bcast_from_leader(ctx, lower);
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
    int result = reduce_within(ctx, ctx->operands.sum);
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
    const struct nodes_operation operation = {nodes_merge_disjoint, NULL, NULL, 1};
    struct nodes_record record = {.decision = decision};
    if (error == MPI_SUCCESS && decision != NODES_LIBRARY) {
        size_t bytes = typed_buf_bytes(&operand);
        record.bytes = (uint32_t)bytes;
        record.decision =
            bytes <= LONG_DATA_MAX_BYTES / (size_t)call->size ? NODES_INLINE : NODES_LAYER;
        if (record.decision == NODES_INLINE)
            error = typed_buf_pack(&operand, record.data + (size_t)call->rank * bytes);
    }
    decision = nodes_agree(call, &operation, error, &record);
    if (decision == NODES_INLINE)
        call->error = scan_record(&ctx, &record);
    else if (decision == NODES_LAYER)
        call->error = scan(&ctx);
    operand_bufs_free(&ctx.operands);
    return decision != NODES_LIBRARY;
}
