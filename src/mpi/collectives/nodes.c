/* src/mpi/collectives/nodes.c: communicators over several nodes, and MPI_Allreduce,
 * MPI_Reduce_scatter and MPI_Reduce_scatter_block on them: the ranks of a node combine their data,
 * its first rank, the leader, combines the result with those of other nodes' leaders, and the ranks
 * read the final result, or their part of it, in the leader's memory. Leaders send messages by the
 * MPI library.
 *
 * Short data only: for long data the library is faster, because all ranks send at once. Other
 * operations are in node_exchange.c.
 *
 * A rank whose arguments are wrong does not know what the other ranks do. So nothing that all ranks
 * do depends on arguments: the ranks of a node reduce records of a fixed size to the leader, the
 * leaders receive messages into buffers of the largest size, and each leader broadcasts the result.
 * Small data travels in the records. For other data the leader first tells the ranks of its node to
 * reduce it (NODES_REDUCE); the result then follows the record's head in the leaders' messages, so
 * leaders meet only once. */
#include "mpi/collectives/nodes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_MAX_BYTES = 32 << 10, RECORD_DATA_MAX_BYTES = 48 };

/* How a call is done. If ranks decide differently, the smallest value counts. */
enum nodes_decision {
    NODES_ERROR,    /* not at all: the arguments of `rank` are wrong */
    NODES_MISMATCH, /* not at all: `rank` and `peer` pass different sizes */
    NODES_LIBRARY,  /* by the MPI library */
    NODES_LAYER,    /* by the layer, with the data after the head in the leaders' messages */
    NODES_INLINE,   /* by the layer, with the data in the records */
    NODES_REDUCE,   /* a leader's to its node: reduce the data now */
};

/* A record fits a slot of the engine. */
struct nodes_record {
    uint32_t decision, bytes;
    int32_t rank, peer;
    char data[RECORD_DATA_MAX_BYTES];
};
_Static_assert(sizeof(struct nodes_record) == 64, "");
enum {
    RECORD_BYTES = sizeof(struct nodes_record),
    HEAD_BYTES = offsetof(struct nodes_record, data),
    BUFFER_BYTES = HEAD_BYTES + DATA_MAX_BYTES,
};

struct nodes_call {
    struct coll_call *call;
    struct nodes *nodes;
    struct reduce_operation operation;
    struct operand_bufs operands;
    MPI_Count count;                /* items of an operand */
    MPI_Count own_first, own_count; /* the items of the result that this rank receives */
    size_t bytes;                   /* of this rank's operand; 0: the MPI library runs the call */
    struct nodes_record record;     /* this rank's, then the combined one */
    int error;                      /* the first error while data in records was combined */
};

static int is_leader(const struct nodes *nodes)
{
    return nodes->leader_comm != MPI_COMM_NULL;
}

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
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int result = MPI_SUCCESS;
    pthread_mutex_lock(
        &mutex); /* a second value would replace the first, which calls the function */
    if (keyval == MPI_KEYVAL_INVALID) {
        result = pmpi_create_keyval(&keyval, set_finalizing);
        if (result == MPI_SUCCESS)
            result = pmpi()->Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

/* Lists the ranks of each node, which are numbered by their first ranks. first_ranks: of each
 * rank's node. */
static void locate_ranks(struct nodes *nodes, const int *first_ranks)
{
    int at = 0;
    nodes->ranks_are_in_node_order = 1;
    nodes->ranks_min = nodes->ranks;
    for (int first = 0; first < nodes->ranks; first++) {
        if (first_ranks[first] != first)
            continue;
        nodes->starts[nodes->count] = at;
        for (int i = first; i < nodes->ranks; i++) {
            if (first_ranks[i] != first)
                continue;
            nodes->places[i].node = nodes->count;
            nodes->places[i].local = at - nodes->starts[nodes->count];
            nodes->ranks_are_in_node_order &= i == at;
            nodes->members[at++] = i;
        }
        int ranks = at - nodes->starts[nodes->count++];
        nodes->ranks_min = ranks < nodes->ranks_min ? ranks : nodes->ranks_min;
        nodes->ranks_max = ranks > nodes->ranks_max ? ranks : nodes->ranks_max;
    }
    nodes->starts[nodes->count] = at;
    nodes->node = nodes->places[nodes->rank].node;
    nodes->local = nodes->places[nodes->rank].local;
}

static int split_communicator(struct nodes *nodes, MPI_Comm comm, int first_rank)
{
    int result = pmpi()->Comm_split(comm, first_rank, nodes->rank, &nodes->node_comm);
    if (result == MPI_SUCCESS)
        result = pmpi()->Comm_split(comm, first_rank == nodes->rank ? 0 : MPI_UNDEFINED,
                                    nodes->rank, &nodes->leader_comm);
    if (result == MPI_SUCCESS) /* not a duplicate, which would call the program's callbacks */
        result = pmpi()->Comm_split(comm, 0, nodes->rank, &nodes->messages_comm);
    if (result == MPI_SUCCESS)
        result = pmpi()->Comm_set_errhandler(nodes->node_comm, MPI_ERRORS_RETURN);
    if (result == MPI_SUCCESS)
        result = pmpi()->Comm_set_errhandler(nodes->messages_comm, MPI_ERRORS_RETURN);
    if (result == MPI_SUCCESS && is_leader(nodes))
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

static struct nodes *allocate(const struct group *group, int leads)
{
    struct nodes *nodes = calloc(1, sizeof(*nodes));
    if (!nodes)
        return NULL;
    nodes->rank = group->rank;
    nodes->ranks = group->ranks;
    nodes->node_comm = nodes->leader_comm = nodes->messages_comm = MPI_COMM_NULL;
    nodes->members = calloc((size_t)group->ranks, sizeof(*nodes->members));
    nodes->starts = calloc((size_t)group->ranks + 1, sizeof(*nodes->starts));
    nodes->places = calloc((size_t)group->ranks, sizeof(*nodes->places));
    nodes->sent = calloc(3, NODES_BUFFER_BYTES);
    nodes->buffers[0] = leads ? malloc(2 * (size_t)BUFFER_BYTES) : NULL;
    if (!nodes->members || !nodes->starts || !nodes->places || !nodes->sent ||
        (leads && !nodes->buffers[0])) {
        nodes_free(nodes);
        return NULL;
    }
    nodes->received = nodes->sent + NODES_BUFFER_BYTES;
    nodes->packed = nodes->received + NODES_BUFFER_BYTES;
    if (leads)
        nodes->buffers[1] = nodes->buffers[0] + BUFFER_BYTES;
    return nodes;
}

/* 1: there are several nodes, at least one with several ranks, and each of those has an engine. */
static int set_up(struct nodes *nodes, MPI_Comm comm, const int *first_ranks, int *error)
{
    locate_ranks(nodes, first_ranks);
    int is_alone = nodes->starts[nodes->node + 1] - nodes->starts[nodes->node] == 1;
    if (nodes->count == 1 || nodes->count == nodes->ranks)
        return 0;
    *error = watch_finalize();
    if (*error == MPI_SUCCESS)
        *error = split_communicator(nodes, comm, first_ranks[nodes->rank]);
    const struct communicator *within =
        *error == MPI_SUCCESS ? communicator_get(nodes->node_comm, 1, error) : NULL;
    nodes->engine = within ? within->engine : NULL;
    return all_have(comm, is_alone || nodes->engine, error);
}

struct nodes *nodes_new(MPI_Comm comm, const struct group *group, int *error)
{
    int node_first_rank = 0; /* the lowest rank in this rank's space */
    while (node_first_rank < group->rank && !group_in_space(group, node_first_rank))
        node_first_rank++;
    struct nodes *nodes = allocate(group, node_first_rank == group->rank);
    int *first_ranks = calloc((size_t)group->ranks, sizeof(*first_ranks));
    *error = MPI_SUCCESS;
    int have_memory = all_have(comm, nodes && first_ranks, error);
    if (have_memory)
        *error = pmpi()->Allgather(&node_first_rank, 1, MPI_INT, first_ranks, 1, MPI_INT, comm);
    if (!have_memory || *error != MPI_SUCCESS || !set_up(nodes, comm, first_ranks, error)) {
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
    if (!is_finalizing && nodes->messages_comm != MPI_COMM_NULL)
        pmpi()->Comm_free(&nodes->messages_comm);
    free(nodes->members);
    free(nodes->starts);
    free(nodes->places);
    free(nodes->sent);
    free(nodes->buffers[0]);
    free(nodes);
}

/* ---- Combining data ---- */

static struct typed_buf buf_at(const struct nodes_call *state, void *addr)
{
    return (struct typed_buf){addr, state->count, state->operation.type};
}

/* The buffer with this rank's operand. */
static struct typed_buf own_operand(const struct nodes_call *state)
{
    const struct coll_call *call = state->call;
    return buf_at(state,
                  call->sendbuf.addr == MPI_IN_PLACE ? call->recvbuf.addr : call->sendbuf.addr);
}

/* Leaves the result in `reduced`; swaps the addresses of the two if necessary. */
static int combine_two(const struct nodes_call *state, struct typed_buf *reduced,
                       struct typed_buf *next)
{
    if (state->operation.loop) {
        state->operation.loop(reduced->addr, next->addr, (size_t)state->count);
        return MPI_SUCCESS;
    }
    int result = pmpi()->Reduce_local(reduced->addr, next->addr, (int)state->count,
                                      state->call->recvbuf.datatype, state->call->op);
    char *addr = reduced->addr;
    reduced->addr = next->addr;
    next->addr = addr;
    return result;
}

/* The same for contiguous data, which is combined in memory with the gaps of the type. */
static int combine_packed(const struct nodes_call *state, const void *lower, const void *higher,
                          void *to)
{
    struct typed_buf reduced = buf_at(state, state->operands.sum),
                     next = buf_at(state, state->operands.next);
    const struct engine_part low = {lower, state->bytes, NULL}, high = {higher, state->bytes, NULL};
    int result = typed_buf_receive(&reduced, &low);
    if (result == MPI_SUCCESS)
        result = typed_buf_receive(&next, &high);
    if (result == MPI_SUCCESS)
        result = combine_two(state, &reduced, &next);
    return result == MPI_SUCCESS ? typed_buf_pack(&reduced, to) : result;
}

static void set_error_record(struct nodes_record *record, int rank)
{
    record->decision = NODES_ERROR;
    record->rank = rank;
}

/* `lower` is that of lower ranks, `higher` becomes the result. */
static void combine_records(struct nodes_call *state, const struct nodes_record *lower,
                            struct nodes_record *higher)
{
    /* A rank with an error cannot combine data, and the result is an error anyway. */
    if (state->call->error != MPI_SUCCESS) {
        set_error_record(higher, state->call->rank);
    } else if (lower->decision < NODES_LAYER || higher->decision < NODES_LAYER) {
        if (lower->decision <= higher->decision)
            memcpy(higher, lower, HEAD_BYTES);
    } else if (lower->bytes != higher->bytes || higher->bytes != state->bytes) {
        higher->decision = NODES_MISMATCH;
        higher->peer = lower->bytes == higher->bytes ? state->call->rank : lower->rank;
    } else if (higher->decision == NODES_INLINE) {
        int result = combine_packed(state, lower->data, higher->data, higher->data);
        state->error = state->error == MPI_SUCCESS ? result : state->error;
    }
}

/* engine_operation.combine */
static void combine_within_node(void *context, void *into, const void *from, size_t bytes,
                                int from_is_first)
{
    struct nodes_record lower, higher;
    memcpy(&lower, from_is_first ? from : into, bytes);
    memcpy(&higher, from_is_first ? into : from, bytes);
    combine_records(context, &lower, &higher);
    memcpy(into, &higher, bytes);
}

/* ---- The leaders' messages ----
 *
 * Recursive doubling in node order: in each step a leader combines its own data with that of the
 * nodes just below or just above. With n nodes and P, the largest power of two up to n, the first
 * 2 (n - P) leaders form pairs: the odd leader takes part for both, with the pair's number. */

struct leader_message {
    struct nodes_record *record; /* the head, then the data */
    size_t data_bytes;           /* with NODES_LAYER */
};

static int message_bytes(const struct leader_message *message)
{
    int decision = (int)message->record->decision;
    return decision == NODES_INLINE  ? RECORD_BYTES
           : decision == NODES_LAYER ? HEAD_BYTES + (int)message->data_bytes
                                     : HEAD_BYTES;
}

static int accept_message(struct leader_message *message, MPI_Status *status)
{
    int bytes = 0, result = pmpi()->Get_count(status, MPI_BYTE, &bytes);
    if (result == MPI_SUCCESS && bytes < HEAD_BYTES)
        result = MPI_ERR_OTHER;
    message->data_bytes = result == MPI_SUCCESS && message->record->decision == NODES_LAYER
                              ? (size_t)(bytes - HEAD_BYTES)
                              : 0;
    return result;
}

/* Leaves the combined data in one of the two, and returns that; NULL with *error set. */
static struct leader_message *combine_data(const struct nodes_call *state,
                                           struct leader_message *lower,
                                           struct leader_message *higher, int *error)
{
    struct typed_buf reduced = buf_at(state, lower->record->data),
                     next = buf_at(state, higher->record->data);
    if (lower->data_bytes != state->bytes || higher->data_bytes != state->bytes)
        *error = MPI_ERR_OTHER;
    else if (state->operation.type.layout)
        *error = combine_packed(state, reduced.addr, next.addr, reduced.addr);
    else
        *error = combine_two(state, &reduced, &next);
    return *error != MPI_SUCCESS ? NULL : reduced.addr == lower->record->data ? lower : higher;
}

/* Leaves the combined message in `own`, and free memory in `other`. After an error in this rank the
 * message says so, and the leaders continue. */
static void combine_messages(struct nodes_call *state, struct leader_message *own,
                             struct leader_message *other, int other_is_lower)
{
    struct leader_message *lower = other_is_lower ? other : own,
                          *higher = other_is_lower ? own : other, *combined = higher;
    combine_records(state, lower->record, higher->record);
    if (higher->record->decision == NODES_LAYER) {
        int error;
        combined = combine_data(state, lower, higher, &error);
        if (!combined) {
            coll_set_error(state->call, error);
            set_error_record(higher->record, state->call->rank);
            combined = higher;
        }
        if (combined == lower)
            memcpy(lower->record, higher->record, HEAD_BYTES);
    }
    if (combined == other) {
        struct leader_message last = *own;
        *own = *other;
        *other = last;
    }
}

static int exchange_with(struct nodes_call *state, int partner, struct leader_message *own,
                         struct leader_message *other)
{
    const struct nodes *nodes = state->nodes;
    MPI_Status status;
    int result =
        pmpi()->Sendrecv(own->record, message_bytes(own), MPI_BYTE, partner, 0, other->record,
                         BUFFER_BYTES, MPI_BYTE, partner, 0, nodes->leader_comm, &status);
    if (result == MPI_SUCCESS)
        result = accept_message(other, &status);
    if (result == MPI_SUCCESS)
        combine_messages(state, own, other, partner < nodes->node);
    return result;
}

static int send_to(const struct nodes *nodes, int node, const struct leader_message *message)
{
    return pmpi()->Send(message->record, message_bytes(message), MPI_BYTE, node, 0,
                        nodes->leader_comm);
}

static int receive_from(const struct nodes *nodes, int node, struct leader_message *message)
{
    MPI_Status status;
    int result =
        pmpi()->Recv(message->record, BUFFER_BYTES, MPI_BYTE, node, 0, nodes->leader_comm, &status);
    return result == MPI_SUCCESS ? accept_message(message, &status) : result;
}

static int exchange_among_leaders(struct nodes_call *state, struct leader_message *own,
                                  struct leader_message *other)
{
    const struct nodes *nodes = state->nodes;
    int node = nodes->node, participants = 1, result = MPI_SUCCESS;
    while (2 * participants <= nodes->count)
        participants *= 2;
    int pairs = nodes->count - participants, is_paired = node < 2 * pairs;
    if (is_paired && node % 2 == 0) {
        result = send_to(nodes, node + 1, own);
        return result == MPI_SUCCESS ? receive_from(nodes, node + 1, own) : result;
    }
    if (is_paired) {
        result = receive_from(nodes, node - 1, other);
        if (result == MPI_SUCCESS)
            combine_messages(state, own, other, 1);
    }
    int participant = is_paired ? node / 2 : node - pairs;
    for (int bit = 1; bit < participants && result == MPI_SUCCESS; bit *= 2) {
        int partner = participant ^ bit;
        result =
            exchange_with(state, partner < pairs ? 2 * partner + 1 : partner + pairs, own, other);
    }
    if (is_paired && result == MPI_SUCCESS)
        result = send_to(nodes, node - 1, own);
    return result;
}

/* ---- Within a node ---- */

/* engine_receive; context: struct nodes_call. A rank's own part is empty. */
static void receive_record(void *context, int source, const struct engine_part *part)
{
    struct nodes_call *state = context;
    (void)source;
    if (part->bytes == RECORD_BYTES)
        memcpy(&state->record, part->data, RECORD_BYTES);
}

static int broadcast_record(struct nodes_call *state)
{
    const struct engine_offer offer = {.base = &state->record, .bytes = RECORD_BYTES};
    return state->nodes->engine
               ? engine_broadcast(state->nodes->engine, 0, &offer, receive_record, state)
               : MPI_SUCCESS;
}

/* Reduces the data of the node. `to`: of the leader. */
static int reduce_within(const struct nodes_call *state, void *to)
{
    int result;
    struct coll_call within = *state->call;
    within.operation = COLL_REDUCE;
    within.comm = state->nodes->node_comm;
    within.root = 0;
    within.is_within_node = 1;
    within.sendbuf.addr = own_operand(state).addr;
    within.recvbuf = (struct coll_buf){
        .addr = to, .count = state->count, .datatype = state->call->recvbuf.datatype};
    return coll_reduce(&within, &result)
               ? result
               : pmpi()->Reduce(within.sendbuf.addr, to, (int)within.recvbuf.count,
                                within.recvbuf.datatype, within.op, 0, within.comm);
}

/* Puts the reduced data of the node into the leader's message. */
static int load_reduced(const struct nodes_call *state, struct leader_message *message)
{
    int is_dense = !state->operation.type.layout;
    const struct typed_buf reduced =
        buf_at(state, is_dense ? message->record->data : state->operands.sum);
    int result = reduce_within(state, reduced.addr);
    message->data_bytes = state->bytes;
    return is_dense || result != MPI_SUCCESS ? result
                                             : typed_buf_pack(&reduced, message->record->data);
}

/* engine_receive; context: struct nodes_call */
static void store_reduced(void *context, int source, const struct engine_part *reduced)
{
    const struct nodes_call *state = context;
    size_t size = state->operation.type.size;
    const struct typed_buf to = {state->call->recvbuf.addr, state->own_count,
                                 state->operation.type};
    (void)source;
    if (reduced->bytes == 0 || state->own_count == 0 || state->call->error != MPI_SUCCESS)
        return;
    const struct engine_part own = {(const char *)reduced->data + (size_t)state->own_first * size,
                                    (size_t)state->own_count * size, NULL};
    coll_set_error(state->call, typed_buf_receive(&to, &own));
}

/* Has the ranks of the node read the reduced data in the leader's message. Other ranks pass NULL.
 */
static int deliver_reduced(struct nodes_call *state, const struct leader_message *message)
{
    int result = MPI_SUCCESS;
    struct engine_part reduced = {0};
    if (message)
        reduced = (struct engine_part){message->record->data, message->data_bytes, NULL};
    const struct engine_offer offer = {.base = reduced.data, .bytes = reduced.bytes};
    if (state->nodes->engine)
        result = engine_exchange(state->nodes->engine, ENGINE_SCATTER, 0, ENGINE_ALL_RANKS,
                                 message ? &offer : NULL, store_reduced, state);
    store_reduced(state, 0, &reduced);
    return result;
}

/* The part of a rank that is not a leader. Returns its first error. */
static int follow_leader(struct nodes_call *state)
{
    int reduced = MPI_SUCCESS, result = broadcast_record(state);
    if (result == MPI_SUCCESS && state->record.decision == NODES_REDUCE) {
        reduced = reduce_within(state, NULL);
        result = broadcast_record(state);
    }
    if (result == MPI_SUCCESS && state->record.decision == NODES_LAYER)
        result = deliver_reduced(state, NULL);
    return reduced != MPI_SUCCESS ? reduced : result;
}

static int lead(struct nodes_call *state)
{
    struct nodes_record *record = &state->record;
    struct leader_message own = {(struct nodes_record *)state->nodes->buffers[0], 0},
                          other = {(struct nodes_record *)state->nodes->buffers[1], 0};
    int result = MPI_SUCCESS;
    if (record->decision == NODES_LAYER) {
        record->decision = NODES_REDUCE;
        result = broadcast_record(state);
        record->decision = NODES_LAYER;
        if (result == MPI_SUCCESS)
            result = load_reduced(state, &own);
        if (result != MPI_SUCCESS)
            set_error_record(record, state->call->rank);
    }
    memcpy(own.record, record, record->decision == NODES_INLINE ? RECORD_BYTES : HEAD_BYTES);
    int exchanged = exchange_among_leaders(state, &own, &other);
    memcpy(record, own.record, own.record->decision == NODES_INLINE ? RECORD_BYTES : HEAD_BYTES);
    if (exchanged != MPI_SUCCESS) /* the other ranks of the node must not wait */
        set_error_record(record, state->call->rank);
    int sent = broadcast_record(state);
    if (sent == MPI_SUCCESS && record->decision == NODES_LAYER)
        sent = deliver_reduced(state, &own);
    return result != MPI_SUCCESS ? result : exchanged != MPI_SUCCESS ? exchanged : sent;
}

/* ---- The call ---- */

/* Sets how many items are combined, and which of them this rank receives. */
static int count_items(struct nodes_call *state)
{
    const struct coll_call *call = state->call;
    const struct coll_buf *recvbuf = &call->recvbuf;
    if (!buf_counts_are_valid(recvbuf, call->size))
        return MPI_ERR_COUNT;
    state->count = state->own_count = buf_count(recvbuf, call->rank);
    for (int i = 0; call->operation != COLL_ALLREDUCE && i < call->size; i++) {
        state->own_first += i < call->rank ? buf_count(recvbuf, i) : 0;
        state->count += i != call->rank ? buf_count(recvbuf, i) : 0;
    }
    return MPI_SUCCESS;
}

/* Checks this rank's arguments. Sets the decision, and state->bytes and the operands if that is not
 * NODES_LIBRARY. */
static int prepare(struct nodes_call *state, struct coll_call *call)
{
    const struct reduce_rules rules = reduce_rules_of(call);
    struct nodes_record *record = &state->record;
    *state = (struct nodes_call){.call = call, .nodes = call->communicator->nodes};
    state->error = MPI_SUCCESS;
    record->decision = NODES_LIBRARY;
    record->rank = record->peer = call->rank;
    int result = count_items(state);
    size_t count = (size_t)state->count;
    if (result != MPI_SUCCESS || count == 0)
        return result;
    result = reduce_operation_find(call, &state->operation);
    const struct item_layout *type = &state->operation.type;
    if (result == MPI_SUCCESS)
        result = reduce_check_bufs(call, &rules, type->layout != NULL);
    if (result != MPI_SUCCESS || !type->size || count > DATA_MAX_BYTES / type->size ||
        !(state->operation.commutes || state->nodes->ranks_are_in_node_order))
        return result;
    state->bytes = count * type->size;
    record->bytes = (uint32_t)state->bytes;
    record->decision = state->bytes <= RECORD_DATA_MAX_BYTES ? NODES_INLINE : NODES_LAYER;
    result = operand_bufs_init(&state->operands, NULL, call->recvbuf.datatype, type, count, count);
    if (result != MPI_SUCCESS || record->decision != NODES_INLINE)
        return result;
    const struct typed_buf operand = own_operand(state);
    return typed_buf_pack(&operand, record->data);
}

int nodes_run(struct coll_call *call)
{
    struct nodes_call state;
    struct nodes *nodes = call->communicator->nodes;
    struct nodes_record *record = &state.record;
    int result = MPI_SUCCESS;
    call->rank = nodes->rank;
    call->size = nodes->ranks;
    if (call->operation != COLL_ALLREDUCE && call->operation != COLL_REDUCE_SCATTER &&
        call->operation != COLL_REDUCE_SCATTER_BLOCK)
        return nodes_exchange(call);
    call->error = prepare(&state, call);
    if (call->error != MPI_SUCCESS)
        record->decision = NODES_ERROR;
    const struct engine_operation combine = {
        .combine = combine_within_node, .context = &state, .element = RECORD_BYTES};
    if (nodes->engine)
        result = engine_reduce(nodes->engine, record, is_leader(nodes) ? record : NULL,
                               RECORD_BYTES, &combine, 0);
    if (is_leader(nodes)) { /* other leaders wait for it even if a rank of its node has ended */
        if (result != MPI_SUCCESS)
            set_error_record(record, call->rank);
        int led = lead(&state);
        result = result == MPI_SUCCESS ? led : result;
    } else if (result == MPI_SUCCESS) {
        result = follow_leader(&state);
    }
    coll_set_error(call, result);
    if (call->error == MPI_SUCCESS && record->decision == NODES_ERROR)
        call->error = report_failed_peer(call->rank, record->rank);
    if (call->error == MPI_SUCCESS && record->decision == NODES_MISMATCH)
        call->error = report_mismatch(record->rank, record->peer);
    if (record->decision == NODES_INLINE) {
        const struct engine_part reduced = {record->data, record->bytes, NULL};
        coll_set_error(call, state.error);
        store_reduced(&state, 0, &reduced);
    }
    operand_bufs_free(&state.operands);
    return call->error != MPI_SUCCESS || record->decision != NODES_LIBRARY;
}
