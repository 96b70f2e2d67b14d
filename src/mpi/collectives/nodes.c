/* src/mpi/collectives/nodes.c: see nodes.h. Which rank is on which node, the agreement that begins
 * a call, and MPI_Barrier over several nodes. */
#include "mpi/collectives/nodes.h"

#include <stdlib.h>
#include <string.h>

/* ---- Set-up and teardown ---- */

/* Set by the thread in MPI_Finalize, before it deletes the attributes of other communicators. */
static _Atomic int is_finalizing;

static int set_finalizing(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    is_finalizing = 1;
    return MPI_SUCCESS;
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first, and those of other communicators when
 * some libraries cannot free communicators any more. */
static int watch_finalize(void)
{
    static _Atomic int keyval = MPI_KEYVAL_INVALID;
    if (keyval != MPI_KEYVAL_INVALID)
        return MPI_SUCCESS;
    int result = pmpi_create_keyval(&keyval, set_finalizing);
    return result == MPI_SUCCESS ? pmpi()->Comm_set_attr(MPI_COMM_SELF, keyval, NULL) : result;
}

/* Fills in the locations, from the first rank on each rank's node. */
static void locate_ranks(struct nodes *nodes, const int *first_ranks)
{
    int *sizes = nodes->node_starts + 1; /* until they are summed up */
    nodes->ranks_are_in_node_order = 1;
    for (int i = 0; i < nodes->ranks; i++) {
        int is_first = first_ranks[i] == i;
        nodes->location[i].node = is_first ? nodes->count++ : nodes->location[first_ranks[i]].node;
        nodes->location[i].local_rank = sizes[nodes->location[i].node]++;
        nodes->ranks_are_in_node_order &= nodes->location[i].node == nodes->count - 1;
    }
    for (int i = 0; i < nodes->count; i++) {
        nodes->largest = sizes[i] > nodes->largest ? sizes[i] : nodes->largest;
        sizes[i] += nodes->node_starts[i];
    }
    for (int i = 0; i < nodes->ranks; i++)
        nodes->node_order[nodes_position(nodes, i)] = i;
}

static int split_communicator(struct nodes *nodes, MPI_Comm comm, int first_rank)
{
    int result = pmpi()->Comm_split(comm, first_rank, nodes->rank, &nodes->node_comm);
    if (result == MPI_SUCCESS)
        result = pmpi()->Comm_split(comm, first_rank == nodes->rank ? 0 : MPI_UNDEFINED,
                                    nodes->rank, &nodes->leader_comm);
    if (result == MPI_SUCCESS)
        result = pmpi()->Comm_set_errhandler(nodes->node_comm, MPI_ERRORS_RETURN);
    if (result == MPI_SUCCESS && nodes->leader_comm != MPI_COMM_NULL)
        result = pmpi()->Comm_set_errhandler(nodes->leader_comm, MPI_ERRORS_RETURN);
    return result;
}

/* Whether all ranks have what the caller has. */
static int all_have(MPI_Comm comm, int have, int *error)
{
    int all = 0;
    if (*error == MPI_SUCCESS)
        *error = pmpi()->Allreduce(&have, &all, 1, MPI_INT, MPI_MIN, comm);
    return *error == MPI_SUCCESS && all;
}

enum { BUFFER_BYTES = NODES_HEAD_BYTES + NODES_GATHER_MAX_BYTES };

static struct nodes *allocate(const struct group *group, int is_leader)
{
    size_t ranks = (size_t)group->ranks;
    struct nodes *nodes = calloc(1, sizeof(*nodes) + ranks * sizeof(nodes->location[0]));
    if (!nodes)
        return NULL;
    nodes->rank = group->rank;
    nodes->ranks = group->ranks;
    nodes->node_comm = nodes->leader_comm = MPI_COMM_NULL;
    nodes->node_starts = calloc(5 * (ranks + 1), sizeof(int));
    char *buffers = is_leader ? malloc(2 * (size_t)BUFFER_BYTES) : NULL;
    for (int i = 0; buffers && i < 2; i++)
        nodes->buffers[i] = buffers + i * BUFFER_BYTES + NODES_HEAD_BYTES;
    if (!nodes->node_starts || (is_leader && !buffers)) {
        nodes_free(nodes);
        return NULL;
    }
    nodes->node_order = nodes->node_starts + ranks + 1;
    nodes->block_starts = nodes->node_order + ranks + 1;
    nodes->counts = nodes->block_starts + ranks + 1;
    nodes->displs = nodes->counts + ranks + 1;
    return nodes;
}

/* 1: there are several nodes, at least one with several ranks, and each of those has an engine. */
static int set_up(struct nodes *nodes, MPI_Comm comm, const int *first_ranks, int *error)
{
    locate_ranks(nodes, first_ranks);
    if (nodes->count == 1 || nodes->count == nodes->ranks)
        return 0;
    *error = watch_finalize();
    if (*error == MPI_SUCCESS)
        *error = split_communicator(nodes, comm, first_ranks[nodes->rank]);
    const struct communicator *within =
        *error == MPI_SUCCESS ? communicator_get(nodes->node_comm, 1, error) : NULL;
    nodes->engine = within ? within->engine : NULL;
    return all_have(comm, nodes_size(nodes, nodes_own(nodes)) == 1 || nodes->engine, error);
}

struct nodes *nodes_new(MPI_Comm comm, const struct group *group, int *error)
{
    int first = 0; /* rank in this one's space */
    while (first < group->rank && !group_in_space(group, first))
        first++;
    struct nodes *nodes = allocate(group, first == group->rank);
    int *first_ranks = calloc((size_t)group->ranks, sizeof(*first_ranks));
    *error = MPI_SUCCESS;
    int have_memory = all_have(comm, nodes && first_ranks, error);
    if (*error == MPI_SUCCESS && (!have_memory || !nodes || !first_ranks))
        *error = MPI_ERR_NO_MEM;
    if (*error == MPI_SUCCESS)
        *error = pmpi()->Allgather(&first, 1, MPI_INT, first_ranks, 1, MPI_INT, comm);
    if (*error != MPI_SUCCESS || !set_up(nodes, comm, first_ranks, error)) {
        nodes_free(nodes);
        nodes = NULL;
    }
    free(first_ranks);
    return nodes;
}

void nodes_free(struct nodes *nodes)
{
    if (!nodes)
        return;
    if (!is_finalizing && nodes->node_comm != MPI_COMM_NULL)
        pmpi()->Comm_free(&nodes->node_comm);
    if (!is_finalizing && nodes->leader_comm != MPI_COMM_NULL)
        pmpi()->Comm_free(&nodes->leader_comm);
    free(nodes->node_starts);
    if (nodes->buffers[0])
        free(nodes->buffers[0] - NODES_HEAD_BYTES);
    free(nodes);
}

/* ---- The agreement ----
 *
 * A rank whose arguments are wrong may know neither the size of the data nor the root, so it cannot
 * tell what the other ranks do. So nothing that all ranks do depends on arguments: the ranks of a
 * node reduce records of a fixed size to the leader, the leaders exchange messages whose receivers
 * take any size, and each leader broadcasts the result. Small data travels in the records. For
 * other data the leader first tells the ranks of its node to load it (NODES_LOAD); it then follows
 * the head of the record in the leaders' messages, so that leaders still meet only once. */

struct agreement_ctx {
    struct coll_call *call;
    const struct nodes_operation *operation;
    struct nodes_record *record;
    size_t record_bytes;
    int data_node; /* that gets the payload; or COLL_ALL_RANKS */
};

static void set_error_record(struct nodes_record *record, int rank)
{
    record->decision = NODES_ERROR;
    record->rank = rank;
}

static void merge_records(const struct agreement_ctx *ctx, const struct nodes_record *lower,
                          struct nodes_record *higher)
{
    if (ctx->call->error != MPI_SUCCESS) /* this rank cannot combine data; it is an error anyway */
        set_error_record(higher, ctx->call->rank);
    else if (lower->decision >= NODES_LAYER && higher->decision >= NODES_LAYER) {
        uint16_t least = lower->decision < higher->decision ? lower->decision : higher->decision;
        ctx->operation->merge(ctx->operation->context, lower, higher);
        if (higher->decision > least)
            higher->decision = least;
    } else if (lower->decision <= higher->decision)
        memcpy(higher, lower, NODES_HEAD_BYTES);
}

/* engine_operation.combine */
static void merge_within_node(void *context, void *into, const void *from, size_t bytes,
                              int from_is_first)
{
    struct nodes_record lower, higher;
    memcpy(&lower, from_is_first ? from : into, bytes);
    memcpy(&higher, from_is_first ? into : from, bytes);
    merge_records(context, &lower, &higher);
    memcpy(into, &higher, bytes);
}

/* ---- The leaders' messages ----
 *
 * Recursive doubling in node order: in each step a leader combines its own data with that of the
 * nodes just below or just above. If the number of nodes is no power of two, the first ones form
 * pairs whose odd member takes part for both, under the number of the pair. Data for one node goes
 * only to leaders from which that node gets it in a later step. */

struct leader_message {
    struct nodes_record *record; /* head, then data as in a record or the payload */
    size_t payload_bytes;        /* with NODES_LAYER */
};

struct leader_order {
    int pairs, participants; /* the latter a power of two */
};

static int participant_of(const struct leader_order *order, int node)
{
    return node < 2 * order->pairs ? node / 2 : node - order->pairs;
}

static int node_of_participant(const struct leader_order *order, int participant)
{
    return participant < order->pairs ? 2 * participant + 1 : participant + order->pairs;
}

static size_t message_bytes(const struct agreement_ctx *ctx, const struct leader_message *message,
                            int with_payload)
{
    int decision = message->record->decision;
    if (decision == NODES_INLINE)
        return ctx->record_bytes;
    return NODES_HEAD_BYTES +
           (decision == NODES_LAYER && with_payload ? message->payload_bytes : 0);
}

/* Sets the size of the payload of a message that has been received. */
static int accept_message(struct leader_message *message, MPI_Status *status)
{
    int bytes = 0, result = pmpi()->Get_count(status, MPI_BYTE, &bytes);
    if (result == MPI_SUCCESS && bytes < NODES_HEAD_BYTES)
        result = MPI_ERR_OTHER;
    message->payload_bytes = result == MPI_SUCCESS && message->record->decision == NODES_LAYER
                                 ? (size_t)bytes - NODES_HEAD_BYTES
                                 : 0;
    return result;
}

/* Leaves the combined message in `own`, and free memory in `other`. After an error in this rank the
 * message says so, and the leaders continue. */
static void combine_messages(const struct agreement_ctx *ctx, struct leader_message *own,
                             struct leader_message *other, int other_is_lower)
{
    const struct nodes_payload *payload = ctx->operation->payload;
    struct leader_message *lower = other_is_lower ? other : own,
                          *higher = other_is_lower ? own : other, last;
    struct engine_part low = {lower->record->data, lower->payload_bytes, NULL},
                       high = {higher->record->data, higher->payload_bytes, NULL};
    int result = MPI_SUCCESS;
    merge_records(ctx, lower->record, higher->record);
    if (higher->record->decision == NODES_LAYER && payload && payload->combine && low.bytes &&
        high.bytes)
        result = payload->combine(ctx->operation->context, &low, &high);
    if (result != MPI_SUCCESS) {
        coll_set_error(ctx->call, result);
        set_error_record(higher->record, ctx->call->rank);
    }
    lower->payload_bytes = low.bytes;
    higher->payload_bytes = high.bytes;
    if (low.bytes) {
        memcpy(lower->record, higher->record, NODES_HEAD_BYTES);
        higher = lower;
    }
    if (higher != own) {
        last = *own;
        *own = *other;
        *other = last;
    }
}

static int gets_data(const struct agreement_ctx *ctx, int node)
{
    return ctx->data_node == COLL_ALL_RANKS || ctx->data_node == node;
}

/* Whether the participant gets the payload in the step of this bit, to have it or to pass it on. */
static int passes_data(const struct agreement_ctx *ctx, const struct leader_order *order,
                       int participant, int bit)
{
    return ctx->data_node == COLL_ALL_RANKS ||
           ((participant ^ participant_of(order, ctx->data_node)) & (2 * bit - 1)) == 0;
}

static int exchange_with(const struct agreement_ctx *ctx, const struct leader_order *order, int bit,
                         struct leader_message *own, struct leader_message *other)
{
    const struct nodes *nodes = ctx->call->communicator->nodes;
    int participant = participant_of(order, nodes_own(nodes)) ^ bit;
    int partner = node_of_participant(order, participant);
    size_t bytes = message_bytes(ctx, own, passes_data(ctx, order, participant, bit));
    MPI_Status status;
    int result = pmpi()->Sendrecv(own->record, (int)bytes, MPI_BYTE, partner, 0, other->record,
                                  BUFFER_BYTES, MPI_BYTE, partner, 0, nodes->leader_comm, &status);
    if (result == MPI_SUCCESS)
        result = accept_message(other, &status);
    if (result == MPI_SUCCESS)
        combine_messages(ctx, own, other, partner < nodes_own(nodes));
    return result;
}

static int exchange_among_leaders(const struct agreement_ctx *ctx, struct leader_message *own,
                                  struct leader_message *other)
{
    const struct nodes *nodes = ctx->call->communicator->nodes;
    MPI_Comm comm = nodes->leader_comm;
    int node = nodes_own(nodes), result = MPI_SUCCESS;
    struct leader_order order = {.participants = 1};
    MPI_Status status;
    while (2 * order.participants <= nodes->count)
        order.participants *= 2;
    order.pairs = nodes->count - order.participants;
    int is_paired = node < 2 * order.pairs;
    if (is_paired && node % 2 == 0) {
        result =
            pmpi()->Send(own->record, (int)message_bytes(ctx, own, 1), MPI_BYTE, node + 1, 0, comm);
        if (result == MPI_SUCCESS)
            result = pmpi()->Recv(own->record, BUFFER_BYTES, MPI_BYTE, node + 1, 0, comm, &status);
        return result == MPI_SUCCESS ? accept_message(own, &status) : result;
    }
    if (is_paired) {
        result = pmpi()->Recv(other->record, BUFFER_BYTES, MPI_BYTE, node - 1, 0, comm, &status);
        if (result == MPI_SUCCESS)
            result = accept_message(other, &status);
        if (result == MPI_SUCCESS)
            combine_messages(ctx, own, other, 1);
    }
    for (int bit = 1; bit < order.participants && result == MPI_SUCCESS; bit *= 2)
        result = exchange_with(ctx, &order, bit, own, other);
    if (is_paired && result == MPI_SUCCESS)
        result = pmpi()->Send(own->record, (int)message_bytes(ctx, own, gets_data(ctx, node - 1)),
                              MPI_BYTE, node - 1, 0, comm);
    return result;
}

/* ---- Within a node ---- */

/* engine_receive; context: struct agreement_ctx. A rank's own part is empty. */
static void receive_record(void *context, int source, const struct engine_part *part)
{
    const struct agreement_ctx *ctx = context;
    (void)source;
    if (part->bytes == ctx->record_bytes)
        memcpy(ctx->record, part->data, part->bytes);
}

static int broadcast_record(struct agreement_ctx *ctx)
{
    const struct nodes *nodes = ctx->call->communicator->nodes;
    const struct engine_offer offer = {.base = ctx->record, .bytes = ctx->record_bytes};
    return nodes->engine ? engine_broadcast(nodes->engine, 0, &offer, receive_record, ctx)
                         : MPI_SUCCESS;
}

/* engine_receive; context: struct agreement_ctx */
static void receive_payload(void *context, int source, const struct engine_part *part)
{
    const struct agreement_ctx *ctx = context;
    (void)source;
    if (part->bytes && ctx->call->error == MPI_SUCCESS)
        ctx->operation->payload->store(ctx->operation->context, part);
}

/* Has the ranks of the node read the payload in the leader's message. data: NULL on other ranks. */
static int deliver_payload(struct agreement_ctx *ctx, const struct engine_part *data)
{
    const struct nodes *nodes = ctx->call->communicator->nodes;
    int root = ctx->operation->payload->root, result = MPI_SUCCESS;
    int to = root == COLL_ALL_RANKS ? ENGINE_ALL_RANKS : nodes->location[root].local_rank;
    struct engine_offer offer = {0};
    if (data)
        offer = (struct engine_offer){.base = data->data, .bytes = data->bytes};
    if (nodes->engine)
        result = engine_exchange(nodes->engine, ENGINE_SCATTER, 0, to, data ? &offer : NULL,
                                 receive_payload, ctx);
    if (data && to <= 0)
        receive_payload(ctx, 0, data);
    return result;
}

static int load_payload(const struct agreement_ctx *ctx, size_t *bytes)
{
    *bytes = 0;
    return ctx->operation->payload->load(ctx->operation->context, bytes);
}

static int has_payload(const struct agreement_ctx *ctx)
{
    return ctx->operation->payload && ctx->record->decision == NODES_LAYER;
}

/* The part of a rank that is no leader. Returns its first error. */
static int follow_leader(struct agreement_ctx *ctx)
{
    size_t bytes;
    int loaded = MPI_SUCCESS, result = broadcast_record(ctx);
    if (result == MPI_SUCCESS && ctx->record->decision == NODES_LOAD) {
        loaded = load_payload(ctx, &bytes);
        result = broadcast_record(ctx);
    }
    if (result == MPI_SUCCESS && has_payload(ctx) &&
        gets_data(ctx, nodes_own(ctx->call->communicator->nodes)))
        result = deliver_payload(ctx, NULL);
    return loaded != MPI_SUCCESS ? loaded : result;
}

static int lead(struct agreement_ctx *ctx)
{
    const struct nodes *nodes = ctx->call->communicator->nodes;
    struct nodes_record *record = ctx->record;
    struct leader_message messages[2];
    int result = MPI_SUCCESS;
    for (int i = 0; i < 2; i++)
        messages[i] = (struct leader_message){
            (struct nodes_record *)(nodes->buffers[i] - NODES_HEAD_BYTES), 0};
    size_t own_bytes = record->decision == NODES_INLINE ? ctx->record_bytes : NODES_HEAD_BYTES;
    if (has_payload(ctx)) {
        record->decision = NODES_LOAD;
        result = broadcast_record(ctx);
        record->decision = NODES_LAYER;
        if (result == MPI_SUCCESS)
            result = load_payload(ctx, &messages[0].payload_bytes);
        if (result != MPI_SUCCESS)
            set_error_record(record, ctx->call->rank);
    }
    memcpy(messages[0].record, record, own_bytes);
    int exchanged = exchange_among_leaders(ctx, &messages[0], &messages[1]);
    memcpy(record, messages[0].record,
           messages[0].record->decision == NODES_INLINE ? ctx->record_bytes : NODES_HEAD_BYTES);
    if (exchanged != MPI_SUCCESS) /* the other ranks of the node must not wait */
        set_error_record(record, ctx->call->rank);
    int sent = broadcast_record(ctx);
    const struct engine_part data = {messages[0].record->data, messages[0].payload_bytes, NULL};
    if (sent == MPI_SUCCESS && has_payload(ctx) && gets_data(ctx, nodes_own(nodes)))
        sent = deliver_payload(ctx, &data);
    return result != MPI_SUCCESS ? result : exchanged != MPI_SUCCESS ? exchanged : sent;
}

enum nodes_decision nodes_agree(struct coll_call *call, const struct nodes_operation *operation,
                                int error, struct nodes_record *record)
{
    const struct nodes *nodes = call->communicator->nodes;
    const struct nodes_payload *payload = operation->payload;
    int is_leader = nodes_is_leader(nodes), result = MPI_SUCCESS;
    struct agreement_ctx ctx = {call, operation, record,
                                operation->is_long ? NODES_LONG_BYTES : NODES_SHORT_BYTES,
                                COLL_ALL_RANKS};
    const struct engine_operation merge = {
        .combine = merge_within_node, .context = &ctx, .element = ctx.record_bytes};
    call->error = error;
    if (error != MPI_SUCCESS)
        record->decision = NODES_ERROR;
    else if (payload && payload->root != COLL_ALL_RANKS)
        ctx.data_node = nodes->location[payload->root].node;
    record->rank = record->peer = call->rank;
    if (nodes->engine)
        result = engine_reduce(nodes->engine, record, is_leader ? record : NULL, ctx.record_bytes,
                               &merge, 0);
    if (result == MPI_SUCCESS)
        result = is_leader ? lead(&ctx) : follow_leader(&ctx);
    coll_set_error(call, result);
    if (call->error != MPI_SUCCESS)
        return NODES_ERROR;
    if (record->decision == NODES_ERROR)
        call->error = report_failed_peer(call->rank, record->rank);
    if (record->decision == NODES_MISMATCH)
        call->error = report_mismatch(record->rank, record->peer);
    return call->error == MPI_SUCCESS ? record->decision : NODES_ERROR;
}

int nodes_sizes_differ(const struct nodes_record *lower, struct nodes_record *higher)
{
    if (lower->bytes == higher->bytes)
        return 0;
    higher->decision = NODES_MISMATCH;
    higher->peer = lower->rank;
    return 1;
}

void nodes_merge_disjoint(void *context, const struct nodes_record *lower,
                          struct nodes_record *higher)
{
    (void)context;
    if (nodes_sizes_differ(lower, higher) || lower->decision != NODES_INLINE ||
        higher->decision != NODES_INLINE)
        return;
    for (size_t i = 0; i < sizeof(lower->data); i++)
        higher->data[i] |= lower->data[i];
}

/* ---- MPI_Barrier ---- */

static int barrier_within(const struct nodes *nodes)
{
    int result;
    struct coll_call call = {
        .operation = COLL_BARRIER, .comm = nodes->node_comm, .root = COLL_ALL_RANKS};
    return coll_barrier(&call, &result) ? result : pmpi()->Barrier(nodes->node_comm);
}

void nodes_barrier(struct coll_call *call)
{
    const struct nodes *nodes = call->communicator->nodes;
    call->error = barrier_within(nodes);
    if (call->error == MPI_SUCCESS && nodes_is_leader(nodes))
        call->error = pmpi()->Barrier(nodes->leader_comm);
    if (call->error == MPI_SUCCESS)
        call->error = barrier_within(nodes);
}
