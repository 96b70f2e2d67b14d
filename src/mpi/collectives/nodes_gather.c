/* src/mpi/collectives/nodes_gather.c: see nodes.h. MPI_Gather, MPI_Allgather, MPI_Allgatherv,
 * MPI_Scatter and MPI_Alltoall over several nodes.
 *
 * Leaders gather what their node sends, exchange that, and the ranks read their part in the
 * leader's buffer. All ranks must know how much data a call moves, to decide whether that is
 * little. So the library runs operations with a count for each rank that only the root knows
 * (MPI_Gatherv, MPI_Scatterv), or only two ranks (MPI_Alltoallv, MPI_Alltoallw). */
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
    const int *starts; /* of the blocks, by local rank; NULL: `bytes` bytes from each, from */
    size_t bytes;      /* local rank `first` on */
    int first;
};

static void gather_block(void *context, int source, const struct engine_part *part)
{
    const struct gather_ctx *ctx = context;
    const int *starts = ctx->starts ? ctx->starts + source : NULL;
    size_t at = starts ? (size_t)starts[0] : (size_t)(source - ctx->first) * ctx->bytes,
           bytes = starts ? (size_t)(starts[1] - starts[0]) : ctx->bytes;
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
    struct gather_ctx ctx = {&within, nodes->buffers[0], starts, bytes, 0};
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

/* Reads the data of all ranks in an agreement's record. */
static int read_record(const struct read_ctx *of, const struct nodes_record *record,
                       engine_receive *read)
{
    struct read_ctx ctx = *of;
    const struct engine_part data = {record->data, record->bytes, NULL};
    struct coll_call within = {.error = MPI_SUCCESS, .own_part = &data};
    ctx.within = &within;
    read(&ctx, within.rank, &data);
    return within.error;
}

/* Has the node's ranks read the leader's first buffer. `to`: a local rank, or COLL_ALL_RANKS. */
static int read_from_leader(const struct read_ctx *of, size_t bytes, int to, engine_receive *read)
{
    struct coll_call within;
    struct read_ctx ctx = *of;
    int is_leader = nodes_is_leader(of->nodes);
    const struct engine_part buffer = {of->nodes->buffers[0], bytes, NULL};
    const struct engine_offer offer = offer_to_all(&buffer);
    begin_within(of->nodes, &within, COLL_SCATTER);
    ctx.within = &within;
    within.own_part = is_leader && to <= 0 ? &buffer : NULL;
    exchange_within(&within, ENGINE_SCATTER, 0, to, is_leader ? &offer : NULL, read, &ctx);
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

static int gather_among_leaders(const struct nodes *nodes, int root)
{
    int own = nodes_own(nodes);
    char *buffer = nodes->buffers[0];
    if (!nodes_is_leader(nodes))
        return MPI_SUCCESS;
    for (int i = 0; i < nodes->count; i++) {
        nodes->displs[i] = nodes->block_starts[nodes->node_starts[i]];
        nodes->counts[i] = nodes->block_starts[nodes->node_starts[i + 1]] - nodes->displs[i];
    }
    if (root == COLL_ALL_RANKS)
        return pmpi()->Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, buffer, nodes->counts, nodes->displs,
                                  MPI_BYTE, nodes->leader_comm);
    int root_node = nodes->location[root].node;
    return pmpi()->Gatherv(own == root_node ? MPI_IN_PLACE : buffer + nodes->displs[own],
                           nodes->counts[own], MPI_BYTE, buffer, nodes->counts, nodes->displs,
                           MPI_BYTE, root_node, nodes->leader_comm);
}

int nodes_gather(struct coll_call *call)
{
    const struct nodes *nodes = call->communicator->nodes;
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    size_t bytes = 0;
    struct typed_buf sendblock = {0};
    struct read_ctx read = {.nodes = nodes, .recvbuf = recvbuf};
    int root = call->root, receives = coll_receives(call);
    int has_counts = call->operation == COLL_ALLGATHERV;
    if (call->operation == COLL_GATHERV)
        return 0;
    int error = root >= call->size ? MPI_ERR_ROOT : MPI_SUCCESS;
    if (error == MPI_SUCCESS && receives)
        error = check_blocks(call, sendbuf, recvbuf, &read.type);
    if (error == MPI_SUCCESS)
        error = sendbuf->addr == MPI_IN_PLACE && !receives
                    ? coll_in_place_error()
                    : find_own_block(call, sendbuf, recvbuf, BUF_SENT, &read.type, &sendblock);
    if (error == MPI_SUCCESS)
        bytes = set_block_starts(nodes, has_counts ? recvbuf : NULL, read.type.size,
                                 typed_buf_bytes(&sendblock));
    const struct nodes_merge merge = {nodes_merge_disjoint, NULL, 1};
    struct nodes_record record = {.decision = nodes_decide(bytes, LONG_DATA_MAX_BYTES),
                                  .bytes = (uint32_t)bytes};
    if (bytes && has_counts)
        error = check_own_size(call, &sendblock);
    if (record.decision == NODES_INLINE && error == MPI_SUCCESS)
        error = typed_buf_pack(
            &sendblock, record.data + nodes->block_starts[nodes_position(nodes, call->rank)]);
    enum nodes_decision decision = nodes_agree(call, &merge, error, &record);
    if (decision == NODES_INLINE && receives)
        call->error = read_record(&read, &record, read_gathered);
    if (decision != NODES_LAYER)
        return decision != NODES_LIBRARY;
    call->error = gather_to_leader(nodes, &sendblock,
                                   nodes->block_starts + nodes->node_starts[nodes_own(nodes)], 0);
    if (call->error == MPI_SUCCESS)
        call->error = gather_among_leaders(nodes, root);
    if (call->error == MPI_SUCCESS && root == COLL_ALL_RANKS)
        call->error = read_from_leader(&read, bytes, COLL_ALL_RANKS, read_gathered);
    else if (call->error == MPI_SUCCESS && nodes->location[root].node == nodes_own(nodes))
        call->error =
            read_from_leader(&read, bytes, nodes->location[root].local_rank, read_gathered);
    return 1;
}

/* ---- MPI_Scatter ---- */

/* Moves the root's data (`all`, NULL on the other ranks of its node), which is in rank order, to
 * the buffer of its leader, in node order. */
static int move_to_leader(const struct nodes *nodes, const struct typed_buf *all, int root,
                          size_t block_bytes)
{
    struct coll_call within;
    int local_root = nodes->location[root].local_rank;
    int is_sorted = nodes->ranks_are_in_node_order;
    size_t bytes = block_bytes * (size_t)nodes->ranks;
    struct engine_part own = {0};
    struct engine_offer offer = {0};
    struct gather_ctx ctx = {&within, nodes->buffers[is_sorted ? 0 : 1], NULL, bytes, local_root};
    begin_within(nodes, &within, COLL_GATHER);
    if (all) {
        own = typed_buf_part(all);
        offer = offer_to_all(&own);
        within.own_part = local_root == 0 ? &own : NULL;
    }
    exchange_within(&within, ENGINE_GATHER, local_root, 0, all && local_root ? &offer : NULL,
                    gather_block, &ctx);
    for (int i = 0; nodes_is_leader(nodes) && !is_sorted && i < nodes->ranks; i++)
        memcpy(nodes->buffers[0] + (size_t)i * block_bytes,
               nodes->buffers[1] + (size_t)nodes->node_order[i] * block_bytes, block_bytes);
    return end_within(&within);
}

static int scatter_among_leaders(const struct nodes *nodes, int root_node, size_t block_bytes)
{
    int own = nodes_own(nodes), bytes = nodes_size(nodes, own) * (int)block_bytes;
    for (int i = 0; i < nodes->count; i++) {
        nodes->counts[i] = nodes_size(nodes, i) * (int)block_bytes;
        nodes->displs[i] = nodes->node_starts[i] * (int)block_bytes;
    }
    return pmpi()->Scatterv(nodes->buffers[0], nodes->counts, nodes->displs, MPI_BYTE,
                            own == root_node ? MPI_IN_PLACE : nodes->buffers[0], bytes, MPI_BYTE,
                            root_node, nodes->leader_comm);
}

struct scatter_ctx {
    struct coll_call *within;
    const struct typed_buf *recvblock;
    int in_place; /* the rank keeps what it has */
};

static void receive_scattered(void *context, int source, const struct engine_part *part)
{
    const struct scatter_ctx *ctx = context;
    if (!ctx->in_place)
        coll_receive(ctx->within, ctx->recvblock, source, part);
}

/* From the leader's buffer, which begins with this node's blocks, or on the root's node with those
 * of all nodes. */
static int scatter_within(const struct nodes *nodes, const struct typed_buf *recvblock,
                          int in_place, int is_root_node, size_t block_bytes)
{
    struct coll_call within;
    struct scatter_ctx ctx = {&within, recvblock, in_place};
    int is_leader = nodes_is_leader(nodes);
    size_t first = is_root_node ? (size_t)nodes->node_starts[nodes_own(nodes)] : 0;
    const struct engine_part own = {is_leader ? nodes->buffers[0] + first * block_bytes : NULL,
                                    block_bytes, NULL};
    const struct engine_offer offer = {
        .base = own.data, .bytes = block_bytes, .stride = block_bytes};
    begin_within(nodes, &within, COLL_SCATTER);
    within.own_part = is_leader ? &own : NULL;
    exchange_within(&within, ENGINE_SCATTER, 0, ENGINE_ALL_RANKS, is_leader ? &offer : NULL,
                    receive_scattered, &ctx);
    return end_within(&within);
}

int nodes_scatter(struct coll_call *call)
{
    const struct nodes *nodes = call->communicator->nodes;
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    struct item_layout type;
    struct typed_buf recvblock = {0}, all = {0};
    size_t block_bytes = 0, ranks = (size_t)call->size;
    int root = call->root, is_root = call->rank == root, in_place = recvbuf->addr == MPI_IN_PLACE;
    if (call->operation == COLL_SCATTERV)
        return 0;
    int error = root >= call->size ? MPI_ERR_ROOT : MPI_SUCCESS;
    if (error == MPI_SUCCESS && is_root)
        error = check_blocks(call, recvbuf, sendbuf, &type);
    if (error == MPI_SUCCESS)
        error = in_place && !is_root
                    ? coll_in_place_error()
                    : find_own_block(call, recvbuf, sendbuf, BUF_RECEIVED, &type, &recvblock);
    if (error == MPI_SUCCESS)
        block_bytes = typed_buf_bytes(&recvblock);
    if (error == MPI_SUCCESS && is_root)
        all = (struct typed_buf){sendbuf->addr, sendbuf->count * call->size, type};
    const struct nodes_merge merge = {nodes_merge_disjoint, NULL, 1};
    size_t bytes = block_bytes > NODES_GATHER_MAX_BYTES / ranks ? 0 : block_bytes * ranks;
    struct nodes_record record = {.decision = nodes_decide(bytes, LONG_DATA_MAX_BYTES),
                                  .bytes = (uint32_t)bytes};
    if (record.decision == NODES_INLINE && error == MPI_SUCCESS && is_root)
        error =
            typed_buf_bytes(&all) <= bytes ? typed_buf_pack(&all, record.data) : MPI_ERR_TRUNCATE;
    enum nodes_decision decision = nodes_agree(call, &merge, error, &record);
    if (decision == NODES_INLINE && !in_place) {
        const struct engine_part part = {record.data + (size_t)call->rank * block_bytes,
                                         block_bytes, NULL};
        call->error = typed_buf_receive(&recvblock, &part);
    }
    if (decision != NODES_LAYER)
        return decision != NODES_LIBRARY;
    int root_node = nodes->location[root].node, is_root_node = nodes_own(nodes) == root_node;
    if (is_root_node)
        call->error = move_to_leader(nodes, is_root ? &all : NULL, root, block_bytes);
    if (call->error == MPI_SUCCESS && nodes_is_leader(nodes))
        call->error = scatter_among_leaders(nodes, root_node, block_bytes);
    if (call->error == MPI_SUCCESS)
        call->error = scatter_within(nodes, &recvblock, in_place, is_root_node, block_bytes);
    return 1;
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
    const struct nodes_merge merge = {nodes_merge_disjoint, NULL, 1};
    size_t bytes =
        read.block_bytes > NODES_GATHER_MAX_BYTES / largest ? 0 : read.block_bytes * ranks;
    struct nodes_record record = {.decision = nodes_decide(bytes, LONG_DATA_MAX_BYTES / ranks),
                                  .bytes = (uint32_t)bytes};
    if (record.decision == NODES_INLINE && error == MPI_SUCCESS)
        error = typed_buf_pack(&all, record.data + (size_t)call->rank * bytes);
    enum nodes_decision decision = nodes_agree(call, &merge, error, &record);
    if (decision == NODES_INLINE)
        call->error = read_record(&read, &record, read_column);
    if (decision != NODES_LAYER)
        return decision != NODES_LIBRARY;
    call->error = gather_to_leader(nodes, &all, NULL, bytes);
    if (call->error == MPI_SUCCESS && nodes_is_leader(nodes))
        call->error = alltoall_among_leaders(nodes, read.block_bytes);
    if (call->error == MPI_SUCCESS)
        call->error = read_from_leader(&read, bytes * local_ranks, COLL_ALL_RANKS, read_sorted);
    return 1;
}
