/* src/mpi/collectives/nodes_exchange.c: see nodes.h. MPI_Bcast, MPI_Gather, MPI_Allgather,
 * MPI_Allgatherv, MPI_Scatter and MPI_Alltoall over several nodes.
 *
 * Leaders gather what their node sends and exchange that, those of MPI_Alltoall by the MPI library,
 * and the ranks read their part in the leader's buffer. All ranks must know how much data a call
 * moves, to decide whether that is little. So the library runs operations with a count for each
 * rank that only the root knows (MPI_Gatherv, MPI_Scatterv), or only two ranks (MPI_Alltoallv,
 * MPI_Alltoallw). */
#include <string.h>

#include "mpi/collectives/nodes.h"

/* ---- Within a node ---- */

/* All ranks of the node make an engine's call. A rank that is alone has no communicator. */
static void begin_within(const struct nodes *nodes, struct coll_call *within,
                         enum coll_operation operation)
{
    *within = (struct coll_call){.operation = operation,
                                 .comm = nodes->node_comm,
                                 .sendbuf = {.datatype = MPI_DATATYPE_NULL},
                                 .recvbuf = {.datatype = MPI_DATATYPE_NULL},
                                 .root = COLL_ALL_RANKS};
    coll_begin(within);
}

static void exchange_within(struct coll_call *within, enum engine_kind kind, int from, int to,
                            const struct engine_offer *offer, engine_receive *receive,
                            void *context)
{
    const struct engine_part nothing = {0};
    if (within->error == MPI_SUCCESS && within->communicator)
        coll_exchange(within, kind, from, to, offer, receive, context);
    else if (within->error == MPI_SUCCESS)
        receive(context, within->rank, &nothing);
}

static int end_within(struct coll_call *within)
{
    int result = within->error;
    within->own_part = NULL;
    if (within->communicator)
        coll_end(within, &result);
    return result;
}

static struct engine_offer offer_to_all(const struct engine_part *part)
{
    return (struct engine_offer){.base = part->data, .bytes = part->bytes, .layout = part->layout};
}

/* How a leader receives a block from each rank of its node. */
struct gather_ctx {
    struct coll_call *within;
    char *buffer;
    const int *starts; /* of the blocks, by local rank; NULL: `bytes` bytes from each */
    size_t bytes;
};

static void gather_block(void *context, int source, const struct engine_part *part)
{
    const struct gather_ctx *ctx = context;
    const int *starts = ctx->starts;
    size_t at = starts ? (size_t)(starts[source] - starts[0]) : (size_t)source * ctx->bytes,
           bytes = starts ? (size_t)(starts[source + 1] - starts[source]) : ctx->bytes;
    struct typed_buf block = typed_buf_of_bytes(ctx->buffer + at, bytes);
    coll_receive(ctx->within, &block, source, part);
}

/* Gathers `sendblock` of all ranks of the node to the leader's first buffer. */
static int gather_to_leader(const struct nodes *nodes, const struct typed_buf *sendblock,
                            const int *starts, size_t bytes)
{
    struct coll_call within;
    const struct engine_part own = typed_buf_part(sendblock);
    const struct engine_offer offer = offer_to_all(&own);
    struct gather_ctx ctx = {&within, nodes->buffers[0], starts, bytes};
    begin_within(nodes, &within, COLL_GATHER);
    within.own_part = nodes_is_leader(nodes) ? &own : NULL;
    exchange_within(&within, ENGINE_GATHER, ENGINE_ALL_RANKS, 0,
                    nodes_is_leader(nodes) ? NULL : &offer, gather_block, &ctx);
    return end_within(&within);
}

/* How a rank reads blocks in its leader's buffer, or in a record. */
struct read_ctx {
    struct coll_call *within; /* with the error and, for the leader, own_part */
    const struct nodes *nodes;
    const struct coll_buf *recvbuf;
    struct item_layout type;
    size_t block_bytes; /* of MPI_Alltoall: from one rank to another */
};

static void read_block(const struct read_ctx *ctx, int source, const char *data, size_t bytes)
{
    struct typed_buf block = {0};
    const struct engine_part part = {data, bytes, NULL};
    buf_block(ctx->recvbuf, &ctx->type, source, &block);
    coll_set_error(ctx->within, typed_buf_receive(&block, &part));
}

/* The blocks of all ranks in node order. */
static void read_gathered(void *context, int source, const struct engine_part *part)
{
    const struct read_ctx *ctx = context;
    const struct nodes *nodes = ctx->nodes;
    if (source == ctx->within->rank && !(part = ctx->within->own_part))
        return;
    for (int i = 0; i < nodes->ranks; i++)
        read_block(ctx, nodes->node_order[i], (const char *)part->data + nodes->block_starts[i],
                   (size_t)(nodes->block_starts[i + 1] - nodes->block_starts[i]));
}

/* For each rank in node order its blocks for the ranks of this node. */
static void read_sorted(void *context, int source, const struct engine_part *part)
{
    const struct read_ctx *ctx = context;
    const struct nodes *nodes = ctx->nodes;
    size_t local_ranks = (size_t)nodes_size(nodes, nodes_own(nodes)), bytes = ctx->block_bytes;
    if (source == ctx->within->rank && !(part = ctx->within->own_part))
        return;
    for (int i = 0; i < nodes->ranks; i++) {
        size_t block = (size_t)i * local_ranks + (size_t)nodes->location[nodes->rank].local_rank;
        read_block(ctx, nodes->node_order[i], (const char *)part->data + block * bytes, bytes);
    }
}

/* For each rank in rank order its blocks for all ranks. */
static void read_column(void *context, int source, const struct engine_part *part)
{
    const struct read_ctx *ctx = context;
    int ranks = ctx->nodes->ranks;
    (void)source;
    for (int i = 0; i < ranks; i++)
        read_block(ctx, i,
                   (const char *)part->data +
                       (size_t)(i * ranks + ctx->nodes->rank) * ctx->block_bytes,
                   ctx->block_bytes);
}

/* Reads the data of all ranks, which an agreement has brought. */
static int read_part(const struct read_ctx *of, const struct engine_part *data,
                     engine_receive *read)
{
    struct read_ctx ctx = *of;
    struct coll_call within = {.error = MPI_SUCCESS, .own_part = data};
    ctx.within = &within;
    read(&ctx, within.rank, data);
    return within.error;
}

/* Has the node's ranks read the leader's first buffer. */
static int read_from_leader(const struct read_ctx *of, size_t bytes, engine_receive *read)
{
    struct coll_call within;
    struct read_ctx ctx = *of;
    int is_leader = nodes_is_leader(of->nodes);
    const struct engine_part buffer = {of->nodes->buffers[0], bytes, NULL};
    const struct engine_offer offer = offer_to_all(&buffer);
    begin_within(of->nodes, &within, COLL_SCATTER);
    ctx.within = &within;
    within.own_part = is_leader ? &buffer : NULL;
    exchange_within(&within, ENGINE_SCATTER, 0, ENGINE_ALL_RANKS, is_leader ? &offer : NULL, read,
                    &ctx);
    return end_within(&within);
}

/* ---- MPI_Gather, MPI_Allgather, MPI_Allgatherv ---- */

/* Returns the bytes of all ranks; 0 if they are too many. Sets block_starts. `recvbuf`: has the
 * count of each rank's items; NULL: all blocks have block_bytes. */
static size_t set_block_starts(const struct nodes *nodes, const struct coll_buf *recvbuf,
                               size_t item_bytes, size_t block_bytes)
{
    size_t all = 0;
    for (int i = 0; i < nodes->ranks && all <= NODES_GATHER_MAX_BYTES; i++) {
        MPI_Count count = recvbuf ? buf_count(recvbuf, nodes->node_order[i]) : 0;
        nodes->block_starts[i] = (int)all;
        all += !recvbuf                                 ? block_bytes
               : (size_t)count > NODES_GATHER_MAX_BYTES ? NODES_GATHER_MAX_BYTES + 1
                                                        : (size_t)count * item_bytes;
    }
    nodes->block_starts[nodes->ranks] = (int)all;
    return all <= NODES_GATHER_MAX_BYTES ? all : 0;
}

/* Checks `blocks`, and `one` beside it, on a rank that gathers or scatters. */
static int check_blocks(const struct coll_call *call, const struct coll_buf *one,
                        const struct coll_buf *blocks, struct item_layout *type)
{
    int error = buf_check_blocks(blocks, call->size, BUF_RECEIVED, type);
    if (error == MPI_SUCCESS && one->addr != MPI_IN_PLACE &&
        buf_is_own_block(call, one, blocks, type))
        error = MPI_ERR_BUFFER;
    return error;
}

/* This rank's block, which may be in place in `blocks`. */
static int find_own_block(const struct coll_call *call, const struct coll_buf *one,
                          const struct coll_buf *blocks, enum buf_use use,
                          const struct item_layout *type, struct typed_buf *block)
{
    return one->addr == MPI_IN_PLACE ? buf_block(blocks, type, call->rank, block)
                                     : buf_check(one, use, block);
}

/* Checks that this rank sends no more than it receives from itself, after set_block_starts. */
static int check_own_size(const struct coll_call *call, const struct typed_buf *sendblock)
{
    const struct nodes *nodes = call->communicator->nodes;
    const int *starts = nodes->block_starts + nodes_position(nodes, call->rank);
    size_t expected = (size_t)(starts[1] - starts[0]), sent = typed_buf_bytes(sendblock);
    if (sent <= expected)
        return MPI_SUCCESS;
    coll_report_sizes(call->rank, call->rank, sent, expected);
    return MPI_ERR_TRUNCATE;
}

struct gather_call {
    struct coll_call *call;
    const struct typed_buf *sendblock;
    struct read_ctx read;
};

/* nodes_payload.load */
static int load_gathered(void *context, size_t *bytes)
{
    const struct gather_call *gather = context;
    const struct nodes *nodes = gather->read.nodes;
    const int *starts = nodes->block_starts + nodes->node_starts[nodes_own(nodes)];
    *bytes = (size_t)(starts[nodes_size(nodes, nodes_own(nodes))] - starts[0]);
    return gather_to_leader(nodes, gather->sendblock, starts, 0);
}

/* nodes_payload.combine: appends what higher nodes send. */
static int append_gathered(void *context, struct engine_part *lower, struct engine_part *higher)
{
    (void)context;
    if (lower->bytes + higher->bytes > NODES_GATHER_MAX_BYTES)
        return MPI_ERR_OTHER;
    memcpy((char *)lower->data + lower->bytes, higher->data, higher->bytes);
    lower->bytes += higher->bytes;
    higher->bytes = 0;
    return MPI_SUCCESS;
}

/* nodes_payload.store */
static void store_gathered(void *context, const struct engine_part *data)
{
    const struct gather_call *gather = context;
    if (coll_receives(gather->call))
        coll_set_error(gather->call, read_part(&gather->read, data, read_gathered));
}

int nodes_gather(struct coll_call *call)
{
    const struct nodes *nodes = call->communicator->nodes;
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    size_t bytes = 0;
    struct typed_buf sendblock = {0};
    struct gather_call gather = {call, &sendblock, {.nodes = nodes, .recvbuf = recvbuf}};
    struct read_ctx *read = &gather.read;
    int root = call->root, receives = coll_receives(call);
    int has_counts = call->operation == COLL_ALLGATHERV;
    if (call->operation == COLL_GATHERV)
        return 0;
    int error = root >= call->size ? MPI_ERR_ROOT : MPI_SUCCESS;
    if (error == MPI_SUCCESS && receives)
        error = check_blocks(call, sendbuf, recvbuf, &read->type);
    if (error == MPI_SUCCESS)
        error = sendbuf->addr == MPI_IN_PLACE && !receives
                    ? coll_in_place_error()
                    : find_own_block(call, sendbuf, recvbuf, BUF_SENT, &read->type, &sendblock);
    if (error == MPI_SUCCESS)
        bytes = set_block_starts(nodes, has_counts ? recvbuf : NULL, read->type.size,
                                 typed_buf_bytes(&sendblock));
    const struct nodes_payload payload = {load_gathered, append_gathered, store_gathered, root};
    const struct nodes_operation operation = {nodes_merge_disjoint, &payload, &gather, 1};
    struct nodes_record record = {.decision = nodes_decide(bytes, LONG_DATA_MAX_BYTES),
                                  .bytes = (uint32_t)bytes};
    if (bytes && has_counts)
        error = check_own_size(call, &sendblock);
    if (record.decision == NODES_INLINE && error == MPI_SUCCESS)
        error = typed_buf_pack(
            &sendblock, record.data + nodes->block_starts[nodes_position(nodes, call->rank)]);
    enum nodes_decision decision = nodes_agree(call, &operation, error, &record);
    if (decision == NODES_INLINE) {
        const struct engine_part data = {record.data, record.bytes, NULL};
        store_gathered(&gather, &data);
    }
    return decision != NODES_LIBRARY;
}

/* ---- MPI_Bcast, MPI_Scatter ---- */

/* Data that the root sends to all ranks; those of MPI_Scatter read their block of it. */
struct root_call {
    struct coll_call *call;
    struct typed_buf sent; /* of the root */
    struct typed_buf recv; /* of all ranks, but one that is in place: then recv.addr is NULL */
    size_t block_bytes;    /* of MPI_Scatter: a rank's */
};

struct recv_packed_ctx {
    struct coll_call *within;
    struct typed_buf to;
    size_t bytes; /* received */
};

static void receive_packed(void *context, int source, const struct engine_part *part)
{
    struct recv_packed_ctx *ctx = context;
    coll_receive(ctx->within, &ctx->to, source, part);
    ctx->bytes += part->bytes;
}

/* nodes_payload.load: moves the root's data to its leader. */
static int load_from_root(void *context, size_t *bytes)
{
    const struct root_call *root = context;
    const struct coll_call *call = root->call;
    const struct nodes *nodes = call->communicator->nodes;
    int local_root = nodes->location[call->root].local_rank;
    struct coll_call within;
    *bytes = typed_buf_bytes(&root->sent);
    if (local_root == 0)
        return call->rank == call->root ? typed_buf_pack(&root->sent, nodes->buffers[0])
                                        : MPI_SUCCESS;
    const struct engine_part sent = typed_buf_part(&root->sent);
    const struct engine_offer offer = offer_to_all(&sent);
    struct recv_packed_ctx ctx = {&within,
                                  typed_buf_of_bytes(nodes->buffers[0], NODES_GATHER_MAX_BYTES), 0};
    begin_within(nodes, &within, COLL_GATHER);
    exchange_within(&within, ENGINE_GATHER, local_root, 0, call->rank == call->root ? &offer : NULL,
                    receive_packed, &ctx);
    *bytes = ctx.bytes;
    return end_within(&within);
}

/* nodes_payload.store of MPI_Bcast */
static void store_bcast(void *context, const struct engine_part *data)
{
    const struct root_call *root = context;
    coll_receive_bcast(root->call, &root->recv, root->call->root, data);
}

/* Keeps the root's record. */
static void merge_root_record(void *context, const struct nodes_record *lower,
                              struct nodes_record *higher)
{
    (void)context;
    if (lower->is_root)
        memcpy(higher, lower,
               lower->decision == NODES_INLINE ? NODES_SHORT_BYTES : NODES_HEAD_BYTES);
}

int nodes_bcast(struct coll_call *call)
{
    const struct coll_buf *desc = &call->recvbuf;
    struct root_call bcast = {.call = call};
    struct typed_buf *buf = &bcast.recv;
    const struct nodes_payload payload = {load_from_root, NULL, store_bcast, COLL_ALL_RANKS};
    const struct nodes_operation operation = {merge_root_record, &payload, &bcast, 0};
    struct nodes_record record = {.decision = NODES_LIBRARY, .is_root = call->rank == call->root};
    int error = call->root >= call->size
                    ? MPI_ERR_ROOT
                    : buf_check(desc, desc->count ? BUF_SENT : BUF_EMPTY_BCAST, buf);
    if (error == MPI_SUCCESS && desc->count && buf->type.size &&
        (size_t)desc->count <= NODES_BCAST_MAX_BYTES / buf->type.size) {
        record.bytes = (uint32_t)typed_buf_bytes(buf);
        /* The root's size counts: another rank's may be wrong. */
        record.decision =
            record.is_root ? nodes_decide(record.bytes, SHORT_DATA_MAX_BYTES) : NODES_INLINE;
        bcast.sent = *buf;
    }
    if (record.decision == NODES_INLINE && record.is_root)
        error = typed_buf_pack(buf, record.data);
    enum nodes_decision decision = nodes_agree(call, &operation, error, &record);
    if (decision == NODES_INLINE) {
        const struct engine_part data = {record.data, record.bytes, NULL};
        store_bcast(&bcast, &data);
    }
    return decision != NODES_LIBRARY;
}

/* nodes_payload.store of MPI_Scatter */
static void store_scattered(void *context, const struct engine_part *data)
{
    const struct root_call *root = context;
    const struct engine_part block = {(const char *)data->data +
                                          (size_t)root->call->rank * root->block_bytes,
                                      root->block_bytes, NULL};
    if (root->recv.addr)
        coll_set_error(root->call, typed_buf_receive(&root->recv, &block));
}

int nodes_scatter(struct coll_call *call)
{
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    struct root_call scatter = {.call = call};
    struct typed_buf *sent = &scatter.sent, *recvblock = &scatter.recv;
    struct item_layout type;
    size_t ranks = (size_t)call->size;
    int is_root = call->rank == call->root, in_place = recvbuf->addr == MPI_IN_PLACE;
    if (call->operation == COLL_SCATTERV)
        return 0;
    int error = call->root >= call->size ? MPI_ERR_ROOT : MPI_SUCCESS;
    if (error == MPI_SUCCESS && is_root)
        error = check_blocks(call, recvbuf, sendbuf, &type);
    if (error == MPI_SUCCESS)
        error = in_place && !is_root
                    ? coll_in_place_error()
                    : find_own_block(call, recvbuf, sendbuf, BUF_RECEIVED, &type, recvblock);
    if (error == MPI_SUCCESS)
        scatter.block_bytes = typed_buf_bytes(recvblock);
    if (error == MPI_SUCCESS && is_root)
        *sent = (struct typed_buf){sendbuf->addr, sendbuf->count * call->size, type};
    if (in_place)
        recvblock->addr = NULL;
    size_t bytes =
        scatter.block_bytes > NODES_GATHER_MAX_BYTES / ranks ? 0 : scatter.block_bytes * ranks;
    if (is_root && error == MPI_SUCCESS && bytes && typed_buf_bytes(sent) > bytes)
        error = MPI_ERR_TRUNCATE;
    const struct nodes_payload payload = {load_from_root, NULL, store_scattered, COLL_ALL_RANKS};
    const struct nodes_operation operation = {nodes_merge_disjoint, &payload, &scatter, 1};
    /* The root's record says where the data is. */
    struct nodes_record record = {.decision =
                                      nodes_decide(bytes, is_root ? LONG_DATA_MAX_BYTES : SIZE_MAX),
                                  .bytes = (uint32_t)bytes};
    if (record.decision == NODES_INLINE && error == MPI_SUCCESS && is_root)
        error = typed_buf_pack(sent, record.data);
    enum nodes_decision decision = nodes_agree(call, &operation, error, &record);
    if (decision == NODES_INLINE) {
        const struct engine_part data = {record.data, record.bytes, NULL};
        store_scattered(&scatter, &data);
    }
    return decision != NODES_LIBRARY;
}

/* ---- MPI_Alltoall ---- */

/* Each pair of nodes exchanges equal amounts. The first buffer holds, for each rank of this node in
 * order, its blocks for all ranks in rank order. The second one gets them by receiving node, for
 * each by sending rank. */
static int alltoall_among_leaders(const struct nodes *nodes, size_t block_bytes)
{
    int local_ranks = nodes_size(nodes, nodes_own(nodes));
    char *to = nodes->buffers[1];
    for (int node = 0; node < nodes->count; node++)
        for (int from = 0; from < local_ranks; from++)
            for (int i = nodes->node_starts[node]; i < nodes->node_starts[node + 1]; i++) {
                size_t block = (size_t)from * (size_t)nodes->ranks + (size_t)nodes->node_order[i];
                memcpy(to, nodes->buffers[0] + block * block_bytes, block_bytes);
                to += block_bytes;
            }
    for (int i = 0; i < nodes->count; i++) {
        nodes->counts[i] = local_ranks * nodes_size(nodes, i) * (int)block_bytes;
        nodes->displs[i] = local_ranks * nodes->node_starts[i] * (int)block_bytes;
    }
    return pmpi()->Alltoallv(nodes->buffers[1], nodes->counts, nodes->displs, MPI_BYTE,
                             nodes->buffers[0], nodes->counts, nodes->displs, MPI_BYTE,
                             nodes->leader_comm);
}

int nodes_alltoall(struct coll_call *call)
{
    const struct nodes *nodes = call->communicator->nodes;
    struct item_layout sendtype;
    struct typed_buf all = {0};
    struct read_ctx read = {.nodes = nodes, .recvbuf = &call->recvbuf};
    const struct coll_buf *sendbuf =
        call->sendbuf.addr == MPI_IN_PLACE ? &call->recvbuf : &call->sendbuf;
    if (call->operation != COLL_ALLTOALL)
        return 0;
    int error = alltoall_check(call, &sendtype, &read.type);
    if (error == MPI_SUCCESS)
        all = (struct typed_buf){sendbuf->addr, sendbuf->count * call->size, sendtype};
    size_t ranks = (size_t)call->size, largest = ranks * (size_t)nodes->largest,
           local_ranks = (size_t)nodes_size(nodes, nodes_own(nodes));
    read.block_bytes = typed_buf_bytes(&all) / ranks;
    const struct nodes_operation operation = {nodes_merge_disjoint, NULL, NULL, 1};
    size_t bytes =
        read.block_bytes > NODES_GATHER_MAX_BYTES / largest ? 0 : read.block_bytes * ranks;
    struct nodes_record record = {.decision = nodes_decide(bytes, LONG_DATA_MAX_BYTES / ranks),
                                  .bytes = (uint32_t)bytes};
    if (record.decision == NODES_INLINE && error == MPI_SUCCESS)
        error = typed_buf_pack(&all, record.data + (size_t)call->rank * bytes);
    enum nodes_decision decision = nodes_agree(call, &operation, error, &record);
    if (decision == NODES_INLINE) {
        const struct engine_part data = {record.data, record.bytes, NULL};
        call->error = read_part(&read, &data, read_column);
    }
    if (decision != NODES_LAYER)
        return decision != NODES_LIBRARY;
    call->error = gather_to_leader(nodes, &all, NULL, bytes);
    if (call->error == MPI_SUCCESS && nodes_is_leader(nodes))
        call->error = alltoall_among_leaders(nodes, read.block_bytes);
    if (call->error == MPI_SUCCESS)
        call->error = read_from_leader(&read, bytes * local_ranks, read_sorted);
    return 1;
}
