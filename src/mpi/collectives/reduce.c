/* src/mpi/collectives/reduce.c: MPI_Reduce, MPI_Allreduce, MPI_Reduce_scatter(_block), MPI_Scan,
 * MPI_Exscan.
 *
 * The engine combines all reductions. What it receives depends on operation and type:
 *
 * - predefined operation, type without gaps: the program's buffers and a loop
 * - the same, pair with gaps, up to 4 KiB: packed copies, because gaps must not be accessed, and a
 *   loop
 * - function of the program, up to 4 KiB: packed copies, or the program's buffers if the type has
 *   no gaps; `combine` is called once for all of the data, which a function may rely on
 * - longer pairs with gaps and functions: the program's buffers, in blocks (engine_blocks)
 *
 * A predefined operation without a loop is like a function: MPI_Reduce_local does it.
 *
 * Ranks decide by what MPI requires to be equal: the operation, the count, and the type signature,
 * hence whether the type is predefined, and its size. Not by extents and gaps, which may differ
 * where the operation is the program's. */
#include <stdlib.h>

#include "mpi/collectives/coll_call.h"
#include "mpi/types/types.h"

struct reduce_ctx {
    struct coll_call *call;
    struct reduce_operation of;
    struct engine_operation operation;
    size_t item_bytes;              /* as the engine counts */
    int is_packed;                  /* the engine gets bufs->send and recv, */
    struct item_layout packed_type; /* with items of this type */
    struct pack_bufs *bufs;
    struct operand_bufs operands;
    struct engine_blocks blocks;
};

/* ---- Combining by functions of the program ---- */

/* engine_operation.combine. The data is contiguous here; the function gets it with the type's gaps.
 * MPI_Reduce_local(a, b) computes b = a OP b. */
static void combine_short(void *context, void *into, const void *from, size_t bytes,
                          int from_is_first)
{
    struct reduce_ctx *ctx = context;
    struct coll_call *call = ctx->call;
    const struct item_layout *type = &ctx->of.type;
    struct operand_bufs *operands = &ctx->operands;
    MPI_Count items = (MPI_Count)(bytes / type->size);
    struct typed_buf first = typed_buf_of_bytes(from_is_first ? from : into, bytes),
                     second = typed_buf_of_bytes(from_is_first ? into : from, bytes),
                     sum = {operands->sum, items, *type}, next = {operands->next, items, *type},
                     result = typed_buf_of_bytes(into, bytes);
    coll_set_error(call, typed_buf_copy(&next, &second));
    if (type->layout)
        coll_set_error(call, typed_buf_copy(&sum, &first));
    coll_set_error(call,
                   pmpi()->Reduce_local(type->layout ? operands->sum : first.addr, operands->next,
                                        (int)items, call->recvbuf.datatype, call->op));
    coll_set_error(call, typed_buf_copy(&result, &next));
}

/* Items of a rank's buffer. */
static struct typed_buf items_at(const struct reduce_ctx *ctx, const void *data, const void *layout,
                                 size_t offset, size_t bytes)
{
    size_t size = ctx->of.type.size;
    const struct loop_nest *of = layout;
    ptrdiff_t extent = of ? (ptrdiff_t)of->extent : (ptrdiff_t)size;
    return (struct typed_buf){(char *)data + (ptrdiff_t)(offset / size) * extent,
                              (MPI_Count)(bytes / size),
                              {size, extent, of}};
}

static void load_block(void *context, enum engine_operand operand, const void *data,
                       const void *layout, size_t offset, size_t bytes)
{
    struct reduce_ctx *ctx = context;
    const struct typed_buf from = items_at(ctx, data, layout, offset, bytes),
                           to = {operand == ENGINE_SUM ? ctx->operands.sum : ctx->operands.next,
                                 from.count, ctx->of.type};
    coll_set_error(ctx->call, typed_buf_copy(&to, &from));
}

static void combine_block(void *context, size_t bytes)
{
    struct reduce_ctx *ctx = context;
    struct operand_bufs *operands = &ctx->operands;
    size_t items = bytes / ctx->of.type.size;
    if (ctx->of.loop) {
        ctx->of.loop(operands->sum, operands->next, items);
        return;
    }
    coll_set_error(ctx->call, pmpi()->Reduce_local(operands->sum, operands->next, (int)items,
                                                   ctx->call->recvbuf.datatype, ctx->call->op));
    char *sum = operands->next;
    operands->next = operands->sum;
    operands->sum = sum;
}

static void store_block(void *context, void *data, const void *layout, size_t offset, size_t bytes)
{
    struct reduce_ctx *ctx = context;
    const struct typed_buf to = items_at(ctx, data, layout, offset, bytes),
                           sum = {ctx->operands.sum, to.count, ctx->of.type};
    coll_set_error(ctx->call, typed_buf_copy(&to, &sum));
}

/* ---- The decision, and what the engine gets ---- */

int reduce_operation_find(const struct coll_call *call, struct reduce_operation *operation)
{
    MPI_Datatype datatype = call->recvbuf.datatype;
    operation->loop = NULL;
    operation->commutes = 1;
    if (call->op == MPI_OP_NULL)
        return MPI_ERR_OP;
    if (reduce_op_is_predefined(call->op)) {
        const struct predefined_type *basic = predefined_type_of(datatype);
        if (!basic || !reduce_is_supported(call->op, basic))
            return MPI_ERR_OP;
        operation->loop = reduce_function_find(call->op, basic);
        operation->type =
            (struct item_layout){basic->size, (ptrdiff_t)basic->extent,
                                 predefined_type_is_dense(basic) ? NULL : &basic->layout->bytes};
        return MPI_SUCCESS;
    }
    int result = item_layout_find(datatype, &operation->type);
    if (result == MPI_SUCCESS)
        result = type_check_committed(datatype);
    return result == MPI_SUCCESS ? pmpi()->Op_commutative(call->op, &operation->commutes) : result;
}

/* Long operands that the engine gets in blocks. */
static int prepare_blocks(struct reduce_ctx *ctx, size_t count)
{
    const struct item_layout *type = &ctx->of.type;
    ctx->operands = (struct operand_bufs){0};
    int result = operand_bufs_init(&ctx->operands, communicator_pack_bufs(ctx->call->communicator),
                                   ctx->call->recvbuf.datatype, type, count, 1);
    if (result != MPI_SUCCESS)
        return result;
    ctx->blocks = (struct engine_blocks){.max_bytes = ctx->operands.items * type->size,
                                         .layout = type->layout,
                                         .out_layout = type->layout,
                                         .load = load_block,
                                         .combine = combine_block,
                                         .store = store_block};
    ctx->operation.blocks = &ctx->blocks;
    ctx->operation.context = ctx;
    ctx->operation.element = ctx->item_bytes = type->size;
    return MPI_SUCCESS;
}

static int prepare_function(struct reduce_ctx *ctx, size_t count)
{
    const struct item_layout *type = &ctx->of.type;
    if (type->size == 0)
        return COLL_DECLINED;
    if (count * type->size > PACKED_MAX_BYTES)
        return prepare_blocks(ctx, count);
    ctx->bufs = communicator_pack_bufs(ctx->call->communicator);
    if (!ctx->bufs)
        return MPI_ERR_NO_MEM;
    ctx->operation.combine = combine_short;
    ctx->operation.context = ctx;
    ctx->operation.element = count * type->size;
    ctx->item_bytes = type->size;
    ctx->is_packed = type->layout != NULL;
    ctx->packed_type = (struct item_layout){type->size, (ptrdiff_t)type->size, NULL};
    return operand_bufs_init(&ctx->operands, ctx->bufs, ctx->call->recvbuf.datatype, type, count,
                             count);
}

/* For `count` items in all. MPI_SUCCESS; COLL_DECLINED, which depends on the number of items
 * and their size alone; or the class of this rank's error. */
static int prepare(struct reduce_ctx *ctx, struct coll_call *call, MPI_Count count,
                   const struct reduce_rules *rules)
{
    ctx->call = call;
    ctx->operands.memory = NULL; /* the context is large: only what is read is initialised */
    if (count <= 0)
        return count == 0 ? COLL_DECLINED : MPI_ERR_COUNT;
    int result = reduce_operation_find(call, &ctx->of);
    if (result != MPI_SUCCESS)
        return result;
    const struct item_layout *type = &ctx->of.type;
    ctx->is_packed = 0;
    ctx->item_bytes = (size_t)type->extent;
    ctx->operation = (struct engine_operation){
        .loop = ctx->of.loop, .element = ctx->item_bytes, .commutes = ctx->of.commutes};
    if (!ctx->of.loop)
        result = prepare_function(ctx, (size_t)count);
    else if (type->layout && (size_t)count * ctx->item_bytes > PACKED_MAX_BYTES)
        result = prepare_blocks(ctx, (size_t)count);
    else if (type->layout) { /* the loop wants the gaps, but in memory of the layer's */
        ctx->is_packed = 1;
        ctx->packed_type = *type;
        ctx->bufs = communicator_pack_bufs(call->communicator);
        result = ctx->bufs ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    return result == MPI_SUCCESS ? reduce_check_bufs(call, rules, type->layout != NULL) : result;
}

static const void *engine_in(struct reduce_ctx *ctx, MPI_Count count)
{
    struct coll_call *call = ctx->call;
    void *data = call->sendbuf.addr == MPI_IN_PLACE ? call->recvbuf.addr : call->sendbuf.addr;
    if (!ctx->is_packed)
        return data;
    const struct typed_buf from = {data, count, ctx->of.type},
                           to = {ctx->bufs->send, count, ctx->packed_type};
    coll_set_error(call, typed_buf_copy(&to, &from));
    return ctx->bufs->send;
}

static void *engine_out(struct reduce_ctx *ctx)
{
    return ctx->is_packed ? ctx->bufs->recv : ctx->call->recvbuf.addr;
}

/* Takes the engine's result, of `count` items. */
static void finish_reduce(struct reduce_ctx *ctx, MPI_Count count, int result)
{
    coll_set_error(ctx->call, result);
    if (!ctx->is_packed || result != MPI_SUCCESS)
        return;
    const struct typed_buf from = {ctx->bufs->recv, count, ctx->packed_type},
                           to = {ctx->call->recvbuf.addr, count, ctx->of.type};
    coll_set_error(ctx->call, typed_buf_copy(&to, &from));
}

/* ---- The operations ---- */

/* Each returns what coll_run expects of in_space. */

static int reduce(struct coll_call *call)
{
    struct reduce_ctx ctx;
    MPI_Count count = call->recvbuf.count;
    const struct reduce_rules rules = reduce_rules_of(call);
    int error = prepare(&ctx, call, count, &rules);
    if (error == MPI_SUCCESS) {
        int result = engine_reduce(call->communicator->engine, engine_in(&ctx, count),
                                   rules.receives ? engine_out(&ctx) : NULL,
                                   (size_t)count * ctx.item_bytes, &ctx.operation, call->root);
        if (rules.receives)
            finish_reduce(&ctx, count, result);
        else
            coll_set_error(call, result);
    }
    operand_bufs_free(&ctx.operands);
    return error;
}

int coll_reduce(struct coll_call *call, int *result)
{
    return coll_run(call, result, reduce);
}

static int scan(struct coll_call *call)
{
    struct reduce_ctx ctx;
    MPI_Count count = call->recvbuf.count;
    int is_exclusive = call->operation == COLL_EXSCAN;
    const struct reduce_rules rules = reduce_rules_of(call);
    int error = prepare(&ctx, call, count, &rules);
    if (error == MPI_SUCCESS) {
        int result =
            engine_scan(call->communicator->engine, engine_in(&ctx, count), engine_out(&ctx),
                        (size_t)count * ctx.item_bytes, &ctx.operation, is_exclusive);
        if (is_exclusive && call->rank == 0)
            coll_set_error(call, result);
        else
            finish_reduce(&ctx, count, result);
    }
    operand_bufs_free(&ctx.operands);
    return error;
}

int coll_scan(struct coll_call *call, int *result)
{
    return coll_run(call, result, scan);
}

/* Rank i receives items first to first + count - 1 of `all`. */
static void run_reduce_scatter(struct reduce_ctx *ctx, MPI_Count all, MPI_Count first,
                               MPI_Count count)
{
    struct coll_call *call = ctx->call;
    void *recvbuf = call->recvbuf.addr, *out = engine_out(ctx);
    size_t begin = (size_t)first * ctx->item_bytes, bytes = (size_t)count * ctx->item_bytes;
    /* The others read recvbuf while this rank writes its result. */
    int in_place =
        !ctx->is_packed && (call->sendbuf.addr == MPI_IN_PLACE || call->sendbuf.addr == recvbuf);
    if (in_place) {
        ctx->blocks.out_layout = NULL;
        out = malloc(bytes + 1);
        if (!out) {
            coll_fail(call, MPI_ERR_NO_MEM);
            return;
        }
    }
    int result = engine_reduce_scatter(call->communicator->engine, engine_in(ctx, all),
                                       (size_t)all * ctx->item_bytes, out, begin, begin + bytes,
                                       &ctx->operation);
    finish_reduce(ctx, count, result);
    if (in_place && result == MPI_SUCCESS) {
        const struct typed_buf from = typed_buf_of_bytes(out, bytes),
                               to = {recvbuf, count, ctx->of.type};
        coll_set_error(call, typed_buf_copy(&to, &from));
    }
    if (in_place)
        free(out);
}

static int reduce_scatter(struct coll_call *call)
{
    struct reduce_ctx ctx;
    const struct coll_buf *recvbuf = &call->recvbuf;
    MPI_Count first = 0, all = 0;
    if (!buf_counts_are_valid(recvbuf, call->size))
        return MPI_ERR_COUNT;
    for (int i = 0; i < call->size; i++) {
        first += i < call->rank ? buf_count(recvbuf, i) : 0;
        all += buf_count(recvbuf, i);
    }
    const struct reduce_rules rules = reduce_rules_of(call);
    int error = prepare(&ctx, call, all, &rules);
    if (error == MPI_SUCCESS)
        run_reduce_scatter(&ctx, all, first, buf_count(recvbuf, call->rank));
    operand_bufs_free(&ctx.operands);
    return error;
}

int coll_reduce_scatter(struct coll_call *call, int *result)
{
    return coll_run(call, result, reduce_scatter);
}
