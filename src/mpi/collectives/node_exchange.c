/* src/mpi/collectives/node_exchange.c: short MPI_Barrier, MPI_Bcast, MPI_Gather, MPI_Scatter,
 * MPI_Allgather and MPI_Alltoall over several nodes, with several leaders on each (PiP-MColl, arXiv
 * 2305.10612).
 *
 * Each pair of nodes exchanges one message in each direction, however many ranks they have; with a
 * root, each node and the root's exchange one message, one way. The leaders of a node share the
 * other nodes: its rank with the local number l leads for the nodes that are l + 1, l + 1 + P, ...
 * places after it in cyclic order, where P is the number of its ranks. So with as many ranks as
 * other nodes, all messages of an operation travel at the same time.
 *
 *   1. The ranks of a node read one another's data in place, each takes what is for itself, and a
 *      leader packs what is for its nodes.
 *   2. The leaders exchange their messages by the MPI library.
 *   3. The ranks read what is for them in the buffers of their leaders.
 *
 * In MPI_Gather the root's node skips step 1 and the others skip step 3; in MPI_Scatter it is the
 * reverse.
 *
 * Only what is equal on all ranks decides whether this is done. A rank whose arguments are wrong
 * calls the MPI library, which reports the error; the others wait for it, as they do without the
 * layer. A rank that fails later offers its node nothing and sends empty messages, so that those
 * that need its data fail too. */
#include <string.h>

#include "mpi/collectives/nodes.h"

/* The most bytes of a block. Beyond that the MPI library is faster: its ranks copy nothing, and
 * all of them send at once. */
enum {
    BCAST_MAX_BYTES = 32 << 10,
    GATHER_MAX_BYTES = 16 << 10, /* MPI_Allgather too */
    SCATTER_MAX_BYTES = 16 << 10,
    ALLTOALL_MAX_BYTES = 4 << 10,
};
_Static_assert((int)BCAST_MAX_BYTES <= (int)NODES_BUFFER_BYTES, "");

/* To the leader of another node, and from it. All messages of a call go both ways, or one way. */
struct message {
    int node;    /* the partner's; only place_messages sets it */
    int partner; /* that leader's rank in nodes->messages_comm */
    size_t sent_bytes, received_bytes;
    char *sent, *received; /* NULL: there is no message that way */
};

struct exchange {
    struct coll_call *call;
    const struct nodes *nodes;
    size_t block; /* bytes from one rank to another */
    int leads;    /* MPI_Gather, MPI_Scatter: this rank is the root, or leads for the root's node */
    struct item_layout recvtype; /* of recvbuf's blocks */
    struct engine_part own;      /* the data of this rank */
    struct typed_buf recvblock;  /* MPI_Scatter */
    int messages;
    struct message message[NODES_PER_LEADER_MAX];
};

static int is_alltoall(const struct exchange *exchange)
{
    return exchange->call->operation == COLL_ALLTOALL;
}

/* ---- Leaders ---- */

static int ranks_on(const struct nodes *nodes, int node)
{
    return nodes->starts[node + 1] - nodes->starts[node];
}

static int rank_at(const struct nodes *nodes, int node, int local)
{
    return nodes->members[nodes->starts[node] + local];
}

/* The local number of the rank of `node` that leads for the node `distance` places after it. */
static int leader_for(const struct nodes *nodes, int node, int distance)
{
    return (distance - 1) % ranks_on(nodes, node);
}

static int node_after(const struct nodes *nodes, int node, int distance)
{
    return (node + distance) % nodes->count;
}

/* The leader of the node `distance` places after this one that leads for this one. */
static int partner_at(const struct nodes *nodes, int distance)
{
    int node = node_after(nodes, nodes->node, distance);
    return rank_at(nodes, node, leader_for(nodes, node, nodes->count - distance));
}

/* For each distance at which the rank of this node with this local number leads. */
#define EACH_DISTANCE(nodes, distance, local)                                                      \
    for (int distance = (local) + 1; distance < (nodes)->count;                                    \
         distance += ranks_on(nodes, (nodes)->node))

/* The most nodes for which one rank leads. */
static int nodes_per_leader(const struct nodes *nodes)
{
    return (nodes->count - 2) / nodes->ranks_min + 1;
}

/* ---- Messages ---- */

/* As MPI_Waitall, but gives the first error of a request, if there is one. */
static int wait_all(MPI_Request *requests, MPI_Status *statuses, int count)
{
    for (int i = 0; i < count; i++)
        statuses[i].MPI_ERROR = MPI_SUCCESS; /* set only with MPI_ERR_IN_STATUS */
    int result = pmpi()->Waitall(count, requests, statuses);
    for (int i = 0; i < count && result != MPI_SUCCESS; i++)
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            return statuses[i].MPI_ERROR;
    return result;
}

/* A rank that has failed sends empty messages in place of its data; its partners then fail too. */
static void exchange_messages(struct exchange *exchange, const struct message *messages, int count)
{
    MPI_Request requests[2 * NODES_PER_LEADER_MAX];
    MPI_Status statuses[2 * NODES_PER_LEADER_MAX];
    const struct nodes *nodes = exchange->nodes;
    int has_data = exchange->call->error == MPI_SUCCESS;
    int used = 0, received = 0, bytes, result = MPI_SUCCESS;
    for (int i = 0; i < count && messages[i].received && result == MPI_SUCCESS; i++) {
        const struct message *message = &messages[i];
        result = pmpi()->Irecv(message->received, (int)message->received_bytes, MPI_BYTE,
                               message->partner, 0, nodes->messages_comm, &requests[used]);
        used += result == MPI_SUCCESS;
    }
    received = used;
    for (int i = 0; i < count && messages[i].sent && result == MPI_SUCCESS; i++) {
        const struct message *message = &messages[i];
        result = pmpi()->Isend(message->sent, has_data ? (int)message->sent_bytes : 0, MPI_BYTE,
                               message->partner, 0, nodes->messages_comm, &requests[used]);
        used += result == MPI_SUCCESS;
    }
    int completed = wait_all(requests, statuses, used);
    result = result == MPI_SUCCESS ? completed : result;
    for (int i = 0; i < received && result == MPI_SUCCESS; i++) {
        size_t expected = messages[i].received_bytes;
        result = pmpi()->Get_count(&statuses[i], MPI_BYTE, &bytes);
        if (result == MPI_SUCCESS && expected && bytes == 0)
            result = report_failed_peer(nodes->rank, messages[i].partner);
        else if (result == MPI_SUCCESS && (size_t)bytes != expected) {
            coll_report_sizes(nodes->rank, messages[i].partner, (size_t)bytes, expected);
            result = MPI_ERR_TRUNCATE;
        }
    }
    coll_set_error(exchange->call, result);
}

/* ---- Blocks ---- */

/* Bytes that this node receives from another. */
static size_t bytes_from(const struct exchange *exchange, int node)
{
    const struct nodes *nodes = exchange->nodes;
    size_t blocks = (size_t)ranks_on(nodes, node);
    if (is_alltoall(exchange))
        blocks *= (size_t)ranks_on(nodes, nodes->node);
    return blocks * exchange->block;
}

/* Places the messages of this rank in its buffers; those of MPI_Gather and MPI_Scatter on the
 * root's node. All nodes get the same data of MPI_Allgather. */
static void place_messages(struct exchange *exchange)
{
    const struct nodes *nodes = exchange->nodes;
    enum coll_operation operation = exchange->call->operation;
    size_t own_ranks = (size_t)ranks_on(nodes, nodes->node);
    char *sent = nodes->sent, *received = nodes->received;
    exchange->messages = 0;
    EACH_DISTANCE(nodes, distance, nodes->local)
    {
        struct message *message = &exchange->message[exchange->messages++];
        int node = node_after(nodes, nodes->node, distance);
        int differs_by_rank = is_alltoall(exchange) || operation == COLL_SCATTER;
        size_t blocks = operation == COLL_SCATTER ? 1 : own_ranks;
        blocks *= differs_by_rank ? (size_t)ranks_on(nodes, node) : 1;
        *message = (struct message){.node = node,
                                    .partner = partner_at(nodes, distance),
                                    .sent_bytes = blocks * exchange->block,
                                    .received_bytes = bytes_from(exchange, node),
                                    .sent = operation == COLL_GATHER ? NULL : sent,
                                    .received = operation == COLL_SCATTER ? NULL : received};
        received += message->received_bytes;
        sent += differs_by_rank ? message->sent_bytes : 0;
    }
}

/* The block for a rank in the contiguous data for all. */
static struct engine_part block_for(const struct exchange *exchange, const struct engine_part *part,
                                    int rank)
{
    return (struct engine_part){(const char *)part->data + (size_t)rank * exchange->block,
                                exchange->block, NULL};
}

static void pack_block(struct exchange *exchange, const struct engine_part *block, char *to)
{
    const struct typed_buf packed = typed_buf_of_bytes(to, exchange->block);
    coll_set_error(exchange->call, typed_buf_receive(&packed, block));
}

/* Stores the block of a rank in recvbuf. */
static void store_block(struct exchange *exchange, int rank, const struct engine_part *block)
{
    struct typed_buf to;
    int result = buf_block(&exchange->call->recvbuf, &exchange->recvtype, rank, &to);
    if (result == MPI_SUCCESS)
        result = typed_buf_receive(&to, block);
    if (result == MPI_ERR_TRUNCATE)
        coll_report_sizes(exchange->call->rank, rank, block->bytes, typed_buf_bytes(&to));
    coll_set_error(exchange->call, result);
}

/* Packs the blocks for the ranks of the message's node. */
static void pack_blocks_for(const struct exchange *exchange, const struct message *message,
                            const struct engine_part *part, char *to)
{
    const struct nodes *nodes = exchange->nodes;
    for (int local = 0; local < ranks_on(nodes, message->node); local++, to += exchange->block) {
        const struct engine_part block =
            block_for(exchange, part, rank_at(nodes, message->node, local));
        memcpy(to, block.data, block.bytes);
    }
}

/* Whether a rank's part has `blocks` blocks of this rank's size; if not, that is an error. */
static int expect_blocks(struct exchange *exchange, int rank, const struct engine_part *part,
                         size_t blocks)
{
    if (part->bytes == blocks * exchange->block)
        return 1;
    coll_report_sizes(exchange->nodes->rank, rank, part->bytes / blocks, exchange->block);
    coll_set_error(exchange->call, MPI_ERR_TRUNCATE);
    return 0;
}

/* Stores what a leader of this node has received, one block from each rank of its nodes. Returns
 * the address after that. */
static const char *store_received(struct exchange *exchange, int leader, const char *from)
{
    const struct nodes *nodes = exchange->nodes;
    int own_ranks = ranks_on(nodes, nodes->node);
    EACH_DISTANCE(nodes, distance, leader)
    {
        int node = node_after(nodes, nodes->node, distance), count = ranks_on(nodes, node);
        for (int local = 0; local < count; local++) {
            size_t at = (size_t)local;
            if (is_alltoall(exchange))
                at = at * (size_t)own_ranks + (size_t)nodes->local;
            const struct engine_part block = {from + at * exchange->block, exchange->block, NULL};
            store_block(exchange, rank_at(nodes, node, local), &block);
        }
        from += bytes_from(exchange, node);
    }
    return from;
}

static size_t received_bytes(const struct exchange *exchange)
{
    size_t bytes = 0;
    for (int i = 0; i < exchange->messages; i++)
        bytes += exchange->message[i].received_bytes;
    return bytes;
}

/* ---- MPI_Allgather and MPI_Alltoall ---- */

/* engine_receive; context: struct exchange. Step 1, for each rank of this node. */
static void read_node_rank(void *context, int source, const struct engine_part *part)
{
    struct exchange *exchange = context;
    const struct nodes *nodes = exchange->nodes;
    int is_own = source == nodes->local, rank = rank_at(nodes, nodes->node, source);
    if (is_own)
        part = &exchange->own;
    size_t blocks = is_alltoall(exchange) ? (size_t)nodes->ranks : 1;
    if (!expect_blocks(exchange, rank, part, blocks))
        return;
    if (!is_own || exchange->call->sendbuf.addr != MPI_IN_PLACE) {
        const struct engine_part block =
            is_alltoall(exchange) ? block_for(exchange, part, nodes->rank) : *part;
        store_block(exchange, rank, &block);
    }
    if (!is_alltoall(exchange) && exchange->messages)
        pack_block(exchange, part, nodes->sent + (size_t)source * exchange->block);
    for (int i = 0; is_alltoall(exchange) && i < exchange->messages; i++) {
        const struct message *message = &exchange->message[i];
        size_t blocks_before = (size_t)source * (size_t)ranks_on(nodes, message->node);
        pack_blocks_for(exchange, message, part, message->sent + blocks_before * exchange->block);
    }
}

/* engine_receive; context: struct exchange. Step 3, for each leader of this node. */
static void read_leader(void *context, int source, const struct engine_part *part)
{
    struct exchange *exchange = context;
    const struct nodes *nodes = exchange->nodes;
    (void)store_received(exchange, source, source == nodes->local ? nodes->received : part->data);
}

/* The ranks `to` of this node, one or ENGINE_ALL_RANKS, read what the ranks `from` offer. A rank
 * calls `receive` for itself, too, also if it is not one of `to`. */
static void read_within(struct exchange *exchange, enum engine_kind kind, int from, int to,
                        const struct engine_offer *offer, engine_receive *receive)
{
    const struct nodes *nodes = exchange->nodes;
    struct engine *engine = nodes->engine;
    const struct engine_part nothing = {0};
    if (exchange->call->error != MPI_SUCCESS) {
        if (engine)
            engine_fail(engine);
    } else if (engine)
        coll_set_error(exchange->call,
                       engine_exchange(engine, kind, from, to, offer, receive, exchange));
    else
        receive(exchange, nodes->local, &nothing);
}

/* Has every rank of the node read what each offers. */
static void read_all(struct exchange *exchange, const struct engine_part *part,
                     engine_receive *receive)
{
    const struct engine_offer offer = {
        .base = part->data, .bytes = part->bytes, .layout = part->layout};
    read_within(exchange, ENGINE_GATHER, ENGINE_ALL_RANKS, ENGINE_ALL_RANKS, &offer, receive);
}

static void run_exchange(struct exchange *exchange)
{
    place_messages(exchange);
    read_all(exchange, &exchange->own, read_node_rank);
    exchange_messages(exchange, exchange->message, exchange->messages);
    const struct engine_part received = {exchange->nodes->received, received_bytes(exchange), NULL};
    read_all(exchange, &received, read_leader);
}

/* Whether a block is as short as it must be, and those of all ranks fit a buffer. */
static int is_short(const struct exchange *exchange, size_t max_bytes)
{
    size_t block = exchange->block;
    return block > 0 && block <= max_bytes &&
           block * (size_t)exchange->nodes->ranks <= NODES_BUFFER_BYTES;
}

/* This rank does not take part, because the MPI library reports an error of its arguments; or, with
 * call->error set, because the layer knows too little of them: the library would run the call, and
 * wait forever. Returns whether call->error is set. */
static int decline(struct coll_call *call, int error)
{
    if (error == MPI_ERR_NO_MEM || error == MPI_ERR_INTERN)
        coll_set_error(call, error);
    return call->error != MPI_SUCCESS;
}

/* Sets what this rank sends. Only the bytes of a block are equal on all ranks, not count and type.
 * 1; or 0: the MPI library runs the call, unless call->error is set. */
static int prepare_exchange(struct exchange *exchange, struct coll_call *call, size_t max_bytes)
{
    struct typed_buf sent = {0};
    const struct nodes *nodes = call->communicator->nodes;
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    int in_place = sendbuf->addr == MPI_IN_PLACE;
    exchange->call = call;
    exchange->nodes = nodes;
    if (in_place && is_alltoall(exchange))
        return 0;
    int error = buf_check_blocks(recvbuf, call->size, BUF_RECEIVED, &exchange->recvtype);
    if (error == MPI_SUCCESS)
        error = in_place ? buf_block(recvbuf, &exchange->recvtype, call->rank, &sent)
                         : buf_check(sendbuf, BUF_SENT, &sent);
    if (error != MPI_SUCCESS) {
        (void)decline(call, error);
        return 0;
    }
    /* Aliases that MPICH rejects. */
    if (is_alltoall(exchange)
            ? sendbuf->addr == recvbuf->addr && sendbuf->datatype == recvbuf->datatype &&
                  !coll_may_alias()
            : !in_place && buf_is_own_block(call, sendbuf, recvbuf, &exchange->recvtype))
        return 0;
    exchange->block = typed_buf_bytes(&sent);
    if (!is_short(exchange, max_bytes))
        return 0;
    if (is_alltoall(exchange) && exchange->block * (size_t)(nodes->ranks_max * nodes->ranks_max) *
                                         (size_t)nodes_per_leader(nodes) >
                                     NODES_BUFFER_BYTES)
        return 0;
    if (is_alltoall(exchange))
        sent.count *= call->size;
    exchange->own = typed_buf_part(&sent);
    return 1;
}

static int allgather(struct coll_call *call)
{
    struct exchange exchange;
    if (!prepare_exchange(&exchange, call, GATHER_MAX_BYTES))
        return call->error != MPI_SUCCESS;
    run_exchange(&exchange);
    return 1;
}

/* Packs this rank's data for all ranks if its type has gaps. */
static void pack_own(struct exchange *exchange)
{
    const struct typed_buf packed =
        typed_buf_of_bytes(exchange->nodes->packed, exchange->own.bytes);
    if (!exchange->own.layout)
        return;
    coll_set_error(exchange->call, typed_buf_receive(&packed, &exchange->own));
    exchange->own = typed_buf_part(&packed);
}

static int alltoall(struct coll_call *call)
{
    struct exchange exchange;
    if (!prepare_exchange(&exchange, call, ALLTOALL_MAX_BYTES))
        return call->error != MPI_SUCCESS;
    pack_own(&exchange);
    run_exchange(&exchange);
    return 1;
}

/* ---- MPI_Gather and MPI_Scatter ----
 *
 * The ranks of the root's node share the other nodes among them, and of each other node one rank
 * leads. */

struct root_place {
    int is_here; /* on this node */
    int leader;  /* the local number of the root, or of the rank that leads for its node */
    struct message message; /* of that rank: to or from the root's node */
};

static struct root_place find_root(struct exchange *exchange)
{
    const struct nodes *nodes = exchange->nodes;
    int root = exchange->call->root, node = nodes->places[root].node;
    int distance = (node - nodes->node + nodes->count) % nodes->count;
    struct root_place place = {.is_here = distance == 0, .leader = nodes->places[root].local};
    if (!place.is_here) {
        size_t bytes = (size_t)ranks_on(nodes, nodes->node) * exchange->block;
        int is_gather = exchange->call->operation == COLL_GATHER;
        place.leader = leader_for(nodes, nodes->node, distance);
        place.message = (struct message){.partner = partner_at(nodes, distance),
                                         .sent_bytes = bytes,
                                         .received_bytes = bytes,
                                         .sent = is_gather ? nodes->sent : NULL,
                                         .received = is_gather ? NULL : nodes->received};
    }
    exchange->leads = nodes->local == place.leader;
    return place;
}

/* engine_receive; context: struct exchange. On a node without the root, for each of its ranks. */
static void pack_for_root(void *context, int source, const struct engine_part *part)
{
    struct exchange *exchange = context;
    const struct nodes *nodes = exchange->nodes;
    if (!exchange->leads)
        return;
    if (source == nodes->local)
        part = &exchange->own;
    if (expect_blocks(exchange, rank_at(nodes, nodes->node, source), part, 1))
        pack_block(exchange, part, nodes->sent + (size_t)source * exchange->block);
}

/* engine_receive; context: struct exchange. By the root, for each rank of its node: what it has
 * received, then its own block. */
static void store_gathered(void *context, int source, const struct engine_part *part)
{
    struct exchange *exchange = context;
    const struct nodes *nodes = exchange->nodes;
    int is_own = source == nodes->local, rank = rank_at(nodes, nodes->node, source);
    const char *from = is_own ? nodes->received : part->data;
    size_t blocks = 1;
    if (!exchange->leads)
        return;
    EACH_DISTANCE(nodes, distance, source)
    {
        blocks += (size_t)ranks_on(nodes, node_after(nodes, nodes->node, distance));
    }
    if (!is_own && !expect_blocks(exchange, rank, part, blocks))
        return;
    from = store_received(exchange, source, from);
    const struct engine_part block = {from, exchange->block, NULL};
    if (!is_own)
        store_block(exchange, rank, &block);
    else if (exchange->call->sendbuf.addr != MPI_IN_PLACE)
        store_block(exchange, rank, &exchange->own);
}

static void run_gather(struct exchange *exchange)
{
    const struct nodes *nodes = exchange->nodes;
    const struct root_place root = find_root(exchange);
    const struct engine_part *own = &exchange->own;
    struct engine_offer offer = {.base = own->data, .bytes = own->bytes, .layout = own->layout};
    if (root.is_here) {
        place_messages(exchange);
        size_t received = received_bytes(exchange);
        if (!exchange->leads)
            pack_block(exchange, own, nodes->received + received);
        offer = (struct engine_offer){.base = nodes->received, .bytes = received + exchange->block};
        exchange_messages(exchange, exchange->message, exchange->messages);
    }
    read_within(exchange, ENGINE_GATHER, ENGINE_ALL_RANKS, root.leader,
                exchange->leads ? NULL : &offer, root.is_here ? store_gathered : pack_for_root);
    if (!root.is_here && exchange->leads)
        exchange_messages(exchange, &root.message, 1);
}

static int gather(struct coll_call *call)
{
    struct typed_buf sent;
    struct exchange exchange = {.call = call, .nodes = call->communicator->nodes};
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    int is_root = call->root == call->rank, in_place = sendbuf->addr == MPI_IN_PLACE;
    if (call->root < 0 || call->root >= call->size || (in_place && !is_root))
        return 0;
    int error = is_root ? buf_check_blocks(recvbuf, call->size, BUF_RECEIVED, &exchange.recvtype)
                        : MPI_SUCCESS;
    if (error == MPI_SUCCESS && is_root && !in_place &&
        buf_is_own_block(call, sendbuf, recvbuf, &exchange.recvtype))
        return 0;
    if (error == MPI_SUCCESS)
        error = in_place ? buf_block(recvbuf, &exchange.recvtype, call->rank, &sent)
                         : buf_check(sendbuf, BUF_SENT, &sent);
    if (error != MPI_SUCCESS)
        return decline(call, error);
    exchange.own = typed_buf_part(&sent);
    exchange.block = exchange.own.bytes;
    if (!is_short(&exchange, GATHER_MAX_BYTES))
        return 0;
    run_gather(&exchange);
    return 1;
}

static void receive_scattered(struct exchange *exchange, const struct engine_part *block)
{
    if (exchange->call->recvbuf.addr != MPI_IN_PLACE)
        coll_set_error(exchange->call, typed_buf_receive(&exchange->recvblock, block));
}

/* engine_receive; context: struct exchange. On the root's node: the data for all ranks. */
static void read_scattered(void *context, int source, const struct engine_part *part)
{
    struct exchange *exchange = context;
    const struct nodes *nodes = exchange->nodes;
    if (source == nodes->local && exchange->call->root != nodes->rank)
        return;
    if (source == nodes->local)
        part = &exchange->own;
    if (!expect_blocks(exchange, exchange->call->root, part, (size_t)nodes->ranks))
        return;
    const struct engine_part block = block_for(exchange, part, nodes->rank);
    receive_scattered(exchange, &block);
    for (int i = 0; i < exchange->messages; i++)
        pack_blocks_for(exchange, &exchange->message[i], part, exchange->message[i].sent);
}

/* engine_receive; context: struct exchange. On the other nodes: this rank's block. */
static void read_own_block(void *context, int source, const struct engine_part *part)
{
    struct exchange *exchange = context;
    if (source != exchange->nodes->local && expect_blocks(exchange, exchange->call->root, part, 1))
        receive_scattered(exchange, part);
}

static void run_scatter(struct exchange *exchange)
{
    const struct nodes *nodes = exchange->nodes;
    const struct root_place root = find_root(exchange);
    const struct engine_part *own = &exchange->own;
    size_t block = exchange->block;
    struct engine_offer offer = {.base = own->data, .bytes = own->bytes};
    if (root.is_here)
        place_messages(exchange);
    else
        offer = (struct engine_offer){.base = nodes->received, .bytes = block, .stride = block};
    if (!root.is_here && exchange->leads) {
        const struct engine_part own_block = {nodes->received + (size_t)nodes->local * block, block,
                                              NULL};
        exchange_messages(exchange, &root.message, 1);
        if (exchange->call->error == MPI_SUCCESS)
            receive_scattered(exchange, &own_block);
    }
    read_within(exchange, ENGINE_SCATTER, root.leader, ENGINE_ALL_RANKS,
                exchange->leads ? &offer : NULL, root.is_here ? read_scattered : read_own_block);
    if (root.is_here)
        exchange_messages(exchange, exchange->message, exchange->messages);
}

static int scatter(struct coll_call *call)
{
    struct item_layout sendtype;
    struct exchange exchange = {.call = call, .nodes = call->communicator->nodes};
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    int is_root = call->root == call->rank, in_place = recvbuf->addr == MPI_IN_PLACE;
    if (call->root < 0 || call->root >= call->size || (in_place && !is_root))
        return 0;
    int error = in_place ? MPI_SUCCESS : buf_check(recvbuf, BUF_RECEIVED, &exchange.recvblock);
    if (error == MPI_SUCCESS && is_root)
        error = buf_check_blocks(sendbuf, call->size, BUF_RECEIVED, &sendtype);
    if (error != MPI_SUCCESS)
        return decline(call, error);
    exchange.block = typed_buf_bytes(&exchange.recvblock);
    if (is_root) {
        if (buf_is_own_block(call, recvbuf, sendbuf, &sendtype))
            return 0;
        const struct typed_buf all = {sendbuf->addr, sendbuf->count * call->size, sendtype};
        exchange.own = typed_buf_part(&all);
        exchange.block = (size_t)sendbuf->count * sendtype.size;
    }
    if (!is_short(&exchange, SCATTER_MAX_BYTES))
        return 0;
    pack_own(&exchange);
    run_scatter(&exchange);
    return 1;
}

/* ---- MPI_Bcast ---- */

struct broadcast {
    struct coll_call *call;
    const struct typed_buf *buf; /* of this rank, contiguous */
};

/* engine_receive; context: struct broadcast */
static void receive_broadcast(void *context, int source, const struct engine_part *part)
{
    struct broadcast *broadcast = context;
    const struct nodes *nodes = broadcast->call->communicator->nodes;
    size_t expected = typed_buf_bytes(broadcast->buf);
    if (source == nodes->local)
        return;
    coll_set_error(broadcast->call, typed_buf_receive(broadcast->buf, part));
    if (part->bytes != expected) {
        coll_report_sizes(nodes->rank, rank_at(nodes, nodes->node, source), part->bytes, expected);
        coll_set_error(broadcast->call, MPI_ERR_TRUNCATE);
    }
}

/* The messages of this rank. Leaders of the root's node are numbered from the root on, so that the
 * root itself sends the first message, before the ranks of its node have its data. On another node
 * the first rank receives. */
static void place_broadcast(struct exchange *exchange, const struct typed_buf *buf)
{
    const struct nodes *nodes = exchange->nodes;
    size_t bytes = typed_buf_bytes(buf);
    int root = exchange->call->root;
    int root_node = nodes->places[root].node, root_local = nodes->places[root].local;
    int senders = ranks_on(nodes, root_node);
    int first = (nodes->local - root_local + senders) % senders + 1;
    exchange->messages = 0;
    if (nodes->node != root_node && nodes->local == 0) {
        int distance = (nodes->node - root_node + nodes->count) % nodes->count;
        int sender = (leader_for(nodes, root_node, distance) + root_local) % senders;
        exchange->message[exchange->messages++] =
            (struct message){.partner = rank_at(nodes, root_node, sender),
                             .received_bytes = bytes,
                             .received = buf->addr};
    }
    for (int distance = first; nodes->node == root_node && distance < nodes->count;
         distance += senders)
        exchange->message[exchange->messages++] =
            (struct message){.partner = rank_at(nodes, node_after(nodes, root_node, distance), 0),
                             .sent_bytes = bytes,
                             .sent = buf->addr};
}

static void run_broadcast(struct coll_call *call, const struct typed_buf *buf)
{
    struct exchange exchange = {.call = call, .nodes = call->communicator->nodes};
    const struct nodes *nodes = exchange.nodes;
    struct broadcast broadcast = {call, buf};
    const struct engine_part part = typed_buf_part(buf);
    const struct engine_offer offer = {.base = part.data, .bytes = part.bytes};
    int is_at_root = nodes->node == nodes->places[call->root].node;
    int has_data_first = call->root == nodes->rank || (!is_at_root && nodes->local == 0);
    place_broadcast(&exchange, buf);
    if (has_data_first)
        exchange_messages(&exchange, exchange.message, exchange.messages);
    if (nodes->engine && call->error != MPI_SUCCESS)
        engine_fail(nodes->engine);
    else if (nodes->engine)
        coll_set_error(call, engine_broadcast(nodes->engine,
                                              is_at_root ? nodes->places[call->root].local : 0,
                                              &offer, receive_broadcast, &broadcast));
    if (!has_data_first)
        exchange_messages(&exchange, exchange.message, exchange.messages);
}

static int bcast(struct coll_call *call)
{
    struct typed_buf buf;
    const struct nodes *nodes = call->communicator->nodes;
    if (call->root < 0 || call->root >= call->size || call->recvbuf.count <= 0)
        return 0;
    int error = buf_check(&call->recvbuf, BUF_SENT, &buf);
    if (error != MPI_SUCCESS)
        return decline(call, error);
    size_t bytes = typed_buf_bytes(&buf);
    if (bytes == 0 || bytes > BCAST_MAX_BYTES)
        return 0;
    if (!buf.type.layout) {
        run_broadcast(call, &buf);
        return 1;
    }
    const struct typed_buf packed = typed_buf_of_bytes(nodes->packed, bytes);
    const struct engine_part part = typed_buf_part(&packed);
    if (call->root == nodes->rank)
        coll_set_error(call, typed_buf_pack(&buf, nodes->packed));
    run_broadcast(call, &packed);
    if (call->root != nodes->rank && call->error == MPI_SUCCESS)
        coll_set_error(call, typed_buf_receive(&buf, &part));
    return 1;
}

/* ---- MPI_Barrier ---- */

static int barrier(struct coll_call *call)
{
    const struct nodes *nodes = call->communicator->nodes;
    /* A byte from each rank, whatever it is: an empty message says that a rank has failed. */
    struct exchange exchange = {.call = call, .nodes = nodes, .block = 1};
    place_messages(&exchange);
    if (nodes->engine)
        call->error = engine_barrier(nodes->engine);
    exchange_messages(&exchange, exchange.message, exchange.messages);
    if (nodes->engine)
        coll_set_error(call, engine_barrier(nodes->engine));
    return 1;
}

/* ---- The call ---- */

int nodes_exchange(struct coll_call *call)
{
    if (nodes_per_leader(call->communicator->nodes) > NODES_PER_LEADER_MAX)
        return 0;
    switch (call->operation) {
    case COLL_BARRIER:
        return barrier(call);
    case COLL_BCAST:
        return bcast(call);
    case COLL_GATHER:
        return gather(call);
    case COLL_SCATTER:
        return scatter(call);
    case COLL_ALLGATHER:
        return allgather(call);
    case COLL_ALLTOALL:
        return alltoall(call);
    default:
        return 0;
    }
}
