/* src/mpi/collectives/node_exchange.c: short MPI_Barrier, MPI_Bcast, MPI_Allgather and MPI_Alltoall
 * over several nodes, with several leaders on each (PiP-MColl, arXiv 2305.10612).
 *
 * Each pair of nodes exchanges one message in each direction, however many ranks they have. The
 * leaders of a node share the other nodes: its rank with the local number l leads for the nodes
 * that are l + 1, l + 1 + P, ... places behind it, where P is the number of its ranks. So with as
 * many ranks as other nodes, all messages of an operation travel at the same time.
 *
 *   1. The ranks of a node read one another's data in place, each takes what is for itself, and a
 *      leader packs what is for its nodes.
 *   2. The leaders exchange their messages by the MPI library.
 *   3. The ranks read what is for them in the buffers of their leaders.
 *
 * Only what is equal on all ranks decides whether this is done. A rank whose arguments are wrong
 * calls the MPI library, which reports the error; the others wait for it, as they do without the
 * layer. */
#include <string.h>

#include "mpi/collectives/nodes.h"

/* The most that one rank sends. Beyond that the MPI library is faster: its ranks copy nothing, and
 * all of them send at once. */
enum {
    BCAST_MAX_BYTES = 32 << 10,
    ALLGATHER_MAX_BYTES = 16 << 10,
    ALLTOALL_MAX_BYTES = 4 << 10, /* to each rank */
};
_Static_assert((int)BCAST_MAX_BYTES <= (int)NODES_BUFFER_BYTES, "");

/* Two messages: to the leader of another node, and from it. */
struct message {
    int node, partner; /* its rank in nodes->messages_comm */
    size_t sent_bytes, received_bytes;
    char *sent, *received;
};

struct exchange {
    struct coll_call *call;
    const struct nodes *nodes;
    size_t block; /* bytes from one rank to another */
    int is_alltoall;
    struct item_layout recvtype;
    struct engine_part own; /* the data of this rank */
    int messages;
    struct message message[NODES_PER_LEADER_MAX];
};

/* ---- Leaders ---- */

static int ranks_on(const struct nodes *nodes, int node)
{
    return nodes->starts[node + 1] - nodes->starts[node];
}

static int rank_at(const struct nodes *nodes, int node, int local)
{
    return nodes->members[nodes->starts[node] + local];
}

/* The local number of the rank of `node` that leads for the node `distance` places behind it. */
static int leader_for(const struct nodes *nodes, int node, int distance)
{
    return (distance - 1) % ranks_on(nodes, node);
}

static int node_behind(const struct nodes *nodes, int node, int distance)
{
    return (node + distance) % nodes->count;
}

/* The leader of the node `distance` places behind this one that leads for this one. */
static int partner_at(const struct nodes *nodes, int distance)
{
    int node = node_behind(nodes, nodes->node, distance);
    return rank_at(nodes, node, leader_for(nodes, node, nodes->count - distance));
}

/* For each distance at which the rank of this node with this local number leads. */
#define EACH_DISTANCE(nodes, distance, local)                                                      \
    for (int distance = (local) + 1; distance < (nodes)->count;                                    \
         distance += ranks_on(nodes, (nodes)->node))

/* The most nodes for which one rank leads. */
static int nodes_per_leader(const struct nodes *nodes)
{
    return (nodes->count - 2) / nodes->fewest + 1;
}

/* ---- Messages ---- */

/* has_data: what this rank sends is right; else it sends nothing in its place, which the partners
 * take for an error. */
static int exchange_messages(const struct nodes *nodes, const struct message *messages, int count,
                             int has_data)
{
    MPI_Request requests[2 * NODES_PER_LEADER_MAX];
    MPI_Status statuses[2 * NODES_PER_LEADER_MAX];
    int used = 0, received = 0, bytes, result = MPI_SUCCESS;
    for (int i = 0; i < count && result == MPI_SUCCESS; i++) {
        const struct message *message = &messages[i];
        result = pmpi()->Irecv(message->received, (int)message->received_bytes, MPI_BYTE,
                               message->partner, 0, nodes->messages_comm, &requests[used]);
        used += result == MPI_SUCCESS;
    }
    received = used;
    for (int i = 0; i < count && result == MPI_SUCCESS; i++) {
        const struct message *message = &messages[i];
        result = pmpi()->Isend(message->sent, has_data ? (int)message->sent_bytes : 0, MPI_BYTE,
                               message->partner, 0, nodes->messages_comm, &requests[used]);
        used += result == MPI_SUCCESS;
    }
    int completed = pmpi()->Waitall(used, requests, statuses);
    result = result == MPI_SUCCESS ? completed : result;
    for (int i = 0; i < received && result == MPI_SUCCESS; i++) {
        result = pmpi()->Get_count(&statuses[i], MPI_BYTE, &bytes);
        if (result == MPI_SUCCESS && (size_t)bytes != messages[i].received_bytes)
            result = report_failed_peer(nodes->rank, messages[i].partner);
    }
    return result;
}

/* ---- MPI_Allgather and MPI_Alltoall ---- */

/* Bytes that this node receives from another. */
static size_t bytes_from(const struct exchange *exchange, int node)
{
    const struct nodes *nodes = exchange->nodes;
    size_t blocks = (size_t)ranks_on(nodes, node);
    if (exchange->is_alltoall)
        blocks *= (size_t)ranks_on(nodes, nodes->node);
    return blocks * exchange->block;
}

/* Places the messages of this rank in its buffers. All nodes get the same data of MPI_Allgather. */
static void place_messages(struct exchange *exchange)
{
    const struct nodes *nodes = exchange->nodes;
    size_t own_ranks = (size_t)ranks_on(nodes, nodes->node);
    char *sent = nodes->sent, *received = nodes->received;
    exchange->messages = 0;
    EACH_DISTANCE(nodes, distance, nodes->local)
    {
        struct message *message = &exchange->message[exchange->messages++];
        int node = node_behind(nodes, nodes->node, distance);
        size_t blocks = own_ranks * (exchange->is_alltoall ? (size_t)ranks_on(nodes, node) : 1);
        *message = (struct message){.node = node,
                                    .partner = partner_at(nodes, distance),
                                    .sent_bytes = blocks * exchange->block,
                                    .received_bytes = bytes_from(exchange, node),
                                    .sent = sent,
                                    .received = received};
        received += message->received_bytes;
        sent += exchange->is_alltoall ? message->sent_bytes : 0;
    }
}

/* The block of a rank's data for another. Data for several ranks is contiguous. */
static struct engine_part block_for(const struct exchange *exchange, const struct engine_part *part,
                                    int rank)
{
    if (!exchange->is_alltoall)
        return *part;
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

/* engine_receive; context: struct exchange. Step 1, for each rank of this node. */
static void read_neighbour(void *context, int source, const struct engine_part *part)
{
    struct exchange *exchange = context;
    const struct nodes *nodes = exchange->nodes;
    int is_own = source == nodes->local, rank = rank_at(nodes, nodes->node, source);
    if (is_own)
        part = &exchange->own;
    size_t blocks = exchange->is_alltoall ? (size_t)nodes->ranks : 1;
    if (part->bytes != blocks * exchange->block) {
        coll_report_sizes(nodes->rank, rank, part->bytes, blocks * exchange->block);
        coll_set_error(exchange->call, MPI_ERR_TRUNCATE);
        return;
    }
    if (!is_own || exchange->call->sendbuf.addr != MPI_IN_PLACE) {
        const struct engine_part block = block_for(exchange, part, nodes->rank);
        store_block(exchange, rank, &block);
    }
    if (!exchange->is_alltoall && exchange->messages)
        pack_block(exchange, part, nodes->sent + (size_t)source * exchange->block);
    for (int i = 0; exchange->is_alltoall && i < exchange->messages; i++) {
        const struct message *message = &exchange->message[i];
        int count = ranks_on(nodes, message->node);
        char *to = message->sent + (size_t)source * (size_t)count * exchange->block;
        for (int local = 0; local < count; local++, to += exchange->block) {
            const struct engine_part block =
                block_for(exchange, part, rank_at(nodes, message->node, local));
            memcpy(to, block.data, block.bytes);
        }
    }
}

/* engine_receive; context: struct exchange. Step 3, for each leader of this node. */
static void read_leader(void *context, int source, const struct engine_part *part)
{
    struct exchange *exchange = context;
    const struct nodes *nodes = exchange->nodes;
    const char *from = source == nodes->local ? nodes->received : part->data;
    int own_ranks = ranks_on(nodes, nodes->node);
    EACH_DISTANCE(nodes, distance, source)
    {
        int node = node_behind(nodes, nodes->node, distance), count = ranks_on(nodes, node);
        for (int local = 0; local < count; local++) {
            size_t at = (size_t)local;
            if (exchange->is_alltoall)
                at = at * (size_t)own_ranks + (size_t)nodes->local;
            const struct engine_part block = {from + at * exchange->block, exchange->block, NULL};
            store_block(exchange, rank_at(nodes, node, local), &block);
        }
        from += bytes_from(exchange, node);
    }
}

/* Has every rank of the node read what each offers. */
static void read_all(struct exchange *exchange, const struct engine_part *part,
                     engine_receive *receive)
{
    const struct engine_offer offer = {
        .base = part->data, .bytes = part->bytes, .layout = part->layout};
    struct engine *engine = exchange->nodes->engine;
    if (engine)
        coll_set_error(exchange->call,
                       engine_exchange(engine, ENGINE_GATHER, ENGINE_ALL_RANKS, ENGINE_ALL_RANKS,
                                       &offer, receive, exchange));
    else
        receive(exchange, 0, part);
}

static void run_exchange(struct exchange *exchange)
{
    struct coll_call *call = exchange->call;
    const struct nodes *nodes = exchange->nodes;
    struct engine_part received = {nodes->received, 0, NULL};
    place_messages(exchange);
    read_all(exchange, &exchange->own, read_neighbour);
    int result =
        exchange_messages(nodes, exchange->message, exchange->messages, call->error == MPI_SUCCESS);
    coll_set_error(call, result);
    for (int i = 0; i < exchange->messages; i++)
        received.bytes += exchange->message[i].received_bytes;
    if (result == MPI_SUCCESS)
        read_all(exchange, &received, read_leader);
    else if (nodes->engine)
        engine_fail(nodes->engine); /* the ranks of this node have no data */
}

/* Sets what this rank sends. Only the sums of bytes are equal on all ranks, not counts and types.
 * 1; or 0: the MPI library runs the call, or reports what is wrong with it. */
static int prepare_exchange(struct exchange *exchange, struct coll_call *call, size_t max_bytes)
{
    struct typed_buf sent = {0};
    const struct nodes *nodes = call->communicator->nodes;
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    int in_place = sendbuf->addr == MPI_IN_PLACE, is_alltoall = call->operation == COLL_ALLTOALL;
    exchange->call = call;
    exchange->nodes = nodes;
    exchange->is_alltoall = is_alltoall;
    if ((in_place && is_alltoall) || recvbuf->count <= 0 ||
        buf_check_blocks(recvbuf, call->size, BUF_RECEIVED, &exchange->recvtype) != MPI_SUCCESS)
        return 0;
    /* Aliases that MPICH rejects. */
    if (is_alltoall ? !coll_may_alias() && sendbuf->addr == recvbuf->addr &&
                          sendbuf->datatype == recvbuf->datatype
                    : !in_place && buf_is_own_block(call, sendbuf, recvbuf, &exchange->recvtype))
        return 0;
    exchange->block = (size_t)recvbuf->count * exchange->recvtype.size;
    if (exchange->block == 0 || exchange->block > max_bytes ||
        exchange->block * (size_t)nodes->ranks > NODES_BUFFER_BYTES)
        return 0;
    if (is_alltoall &&
        exchange->block * (size_t)(nodes->most * nodes->most) * (size_t)nodes_per_leader(nodes) >
            NODES_BUFFER_BYTES)
        return 0;
    if (in_place)
        buf_block(recvbuf, &exchange->recvtype, call->rank, &sent);
    else if (buf_check(sendbuf, BUF_SENT, &sent) != MPI_SUCCESS)
        return 0;
    if (is_alltoall)
        sent.count *= call->size;
    exchange->own = typed_buf_part(&sent);
    return exchange->own.bytes == exchange->block * (size_t)(is_alltoall ? call->size : 1);
}

static int allgather(struct coll_call *call)
{
    struct exchange exchange;
    if (!prepare_exchange(&exchange, call, ALLGATHER_MAX_BYTES))
        return 0;
    run_exchange(&exchange);
    return 1;
}

/* The data for all ranks is packed first if its type has gaps. */
static int alltoall(struct coll_call *call)
{
    struct exchange exchange;
    if (!prepare_exchange(&exchange, call, ALLTOALL_MAX_BYTES))
        return 0;
    if (exchange.own.layout) {
        const struct typed_buf packed =
            typed_buf_of_bytes(exchange.nodes->packed, exchange.own.bytes);
        coll_set_error(call, typed_buf_receive(&packed, &exchange.own));
        exchange.own = typed_buf_part(&packed);
    }
    run_exchange(&exchange);
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

/* Sends from the root's node: the leaders are numbered from the root on, so that the root itself
 * sends the first message, before the ranks of its node have its data. */
static int send_broadcast(struct coll_call *call, const struct typed_buf *buf, int root_node,
                          int root_local)
{
    const struct nodes *nodes = call->communicator->nodes;
    MPI_Request requests[NODES_PER_LEADER_MAX];
    MPI_Status statuses[NODES_PER_LEADER_MAX];
    int bytes = call->error == MPI_SUCCESS ? (int)typed_buf_bytes(buf) : 0;
    int ranks = ranks_on(nodes, root_node), used = 0, result = MPI_SUCCESS;
    for (int distance = (nodes->local - root_local + ranks) % ranks + 1;
         distance < nodes->count && result == MPI_SUCCESS; distance += ranks) {
        int to = rank_at(nodes, node_behind(nodes, root_node, distance), 0);
        result =
            pmpi()->Isend(buf->addr, bytes, MPI_BYTE, to, 1, nodes->messages_comm, &requests[used]);
        used += result == MPI_SUCCESS;
    }
    int completed = pmpi()->Waitall(used, requests, statuses);
    return result == MPI_SUCCESS ? completed : result;
}

static int receive_message(struct coll_call *call, const struct typed_buf *buf, int root_node,
                           int root_local)
{
    const struct nodes *nodes = call->communicator->nodes;
    int distance = (nodes->node - root_node + nodes->count) % nodes->count;
    int sender = (leader_for(nodes, root_node, distance) + root_local) % ranks_on(nodes, root_node);
    int from = rank_at(nodes, root_node, sender), bytes = 0;
    MPI_Status status;
    int result = pmpi()->Recv(buf->addr, (int)typed_buf_bytes(buf), MPI_BYTE, from, 1,
                              nodes->messages_comm, &status);
    if (result == MPI_SUCCESS)
        result = pmpi()->Get_count(&status, MPI_BYTE, &bytes);
    if (result == MPI_SUCCESS && (size_t)bytes != typed_buf_bytes(buf))
        result = report_failed_peer(nodes->rank, from);
    return result;
}

static void run_broadcast(struct coll_call *call, const struct typed_buf *buf)
{
    const struct nodes *nodes = call->communicator->nodes;
    struct broadcast broadcast = {call, buf};
    const struct engine_part part = typed_buf_part(buf);
    const struct engine_offer offer = {.base = part.data, .bytes = part.bytes};
    int root_node = nodes->places[call->root].node, root_local = nodes->places[call->root].local;
    int result = MPI_SUCCESS;
    int is_at_root = nodes->node == root_node;
    if (call->root == nodes->rank)
        coll_set_error(call, send_broadcast(call, buf, root_node, root_local));
    else if (!is_at_root && nodes->local == 0)
        result = receive_message(call, buf, root_node, root_local);
    coll_set_error(call, result);
    if (nodes->engine && result != MPI_SUCCESS)
        engine_fail(nodes->engine); /* the ranks of this node have no data */
    else if (nodes->engine)
        coll_set_error(call, engine_broadcast(nodes->engine, is_at_root ? root_local : 0, &offer,
                                              receive_broadcast, &broadcast));
    if (is_at_root && call->root != nodes->rank)
        coll_set_error(call, send_broadcast(call, buf, root_node, root_local));
}

static int bcast(struct coll_call *call)
{
    struct typed_buf buf;
    const struct nodes *nodes = call->communicator->nodes;
    if (call->root < 0 || call->root >= call->size || call->recvbuf.count <= 0 ||
        buf_check(&call->recvbuf, BUF_SENT, &buf) != MPI_SUCCESS)
        return 0;
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
    struct exchange exchange = {.call = call, .nodes = nodes};
    place_messages(&exchange);
    if (nodes->engine)
        call->error = engine_barrier(nodes->engine);
    coll_set_error(call, exchange_messages(nodes, exchange.message, exchange.messages, 1));
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
    case COLL_ALLGATHER:
        return allgather(call);
    case COLL_ALLTOALL:
        return alltoall(call);
    default:
        return 0;
    }
}
