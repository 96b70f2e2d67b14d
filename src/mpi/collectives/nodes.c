/* src/mpi/collectives/nodes.c: see nodes.h. Which rank is on which node, the agreement that begins
 * a call, and MPI_Barrier and MPI_Bcast over several nodes. */
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

static struct nodes *allocate(const struct group *group, int is_leader)
{
    size_t ranks = (size_t)group->ranks;
    struct nodes *nodes = calloc(1, sizeof(*nodes) + ranks * sizeof(nodes->location[0]));
    if (!nodes)
        return NULL;
    nodes->rank = group->rank;
    nodes->ranks = group->ranks;
    nodes->node_comm = nodes->leader_comm = MPI_COMM_NULL;
    nodes->merge_op = MPI_OP_NULL;
    nodes->record_types[0] = nodes->record_types[1] = MPI_DATATYPE_NULL;
    nodes->node_starts = calloc(5 * (ranks + 1), sizeof(int));
    nodes->buffers[0] = is_leader ? malloc(2 * (size_t)NODES_GATHER_MAX_BYTES) : NULL;
    if (!nodes->node_starts || (is_leader && !nodes->buffers[0])) {
        nodes_free(nodes);
        return NULL;
    }
    nodes->node_order = nodes->node_starts + ranks + 1;
    nodes->block_starts = nodes->node_order + ranks + 1;
    nodes->counts = nodes->block_starts + ranks + 1;
    nodes->displs = nodes->counts + ranks + 1;
    nodes->buffers[1] = is_leader ? nodes->buffers[0] + NODES_GATHER_MAX_BYTES : NULL;
    return nodes;
}

static void merge_of_leaders(void *in, void *inout, int *count, MPI_Datatype *datatype);

/* The operation and the types of an agreement. */
static int create_merge_op(struct nodes *nodes)
{
    static const int sizes[] = {NODES_SHORT_BYTES, NODES_LONG_BYTES};
    int result = MPI_SUCCESS;
    if (!nodes_is_leader(nodes))
        return result;
    result = pmpi()->Op_create(merge_of_leaders, 0, &nodes->merge_op);
    for (int i = 0; result == MPI_SUCCESS && i < 2; i++) {
        result = pmpi()->Type_contiguous(sizes[i], MPI_BYTE, &nodes->record_types[i]);
        if (result == MPI_SUCCESS)
            result = pmpi()->Type_commit(&nodes->record_types[i]);
    }
    return result;
}

static void free_merge_op(struct nodes *nodes)
{
    if (nodes->merge_op != MPI_OP_NULL)
        pmpi()->Op_free(&nodes->merge_op);
    for (int i = 0; i < 2; i++)
        if (nodes->record_types[i] != MPI_DATATYPE_NULL)
            pmpi()->Type_free(&nodes->record_types[i]);
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
    if (*error == MPI_SUCCESS)
        *error = create_merge_op(nodes);
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
    if (!is_finalizing || !pmpi_is_open_mpi()) /* MPICH complains about types that are left */
        free_merge_op(nodes);
    if (!is_finalizing && nodes->node_comm != MPI_COMM_NULL)
        pmpi()->Comm_free(&nodes->node_comm);
    if (!is_finalizing && nodes->leader_comm != MPI_COMM_NULL)
        pmpi()->Comm_free(&nodes->leader_comm);
    free(nodes->node_starts);
    free(nodes->buffers[0]);
    free(nodes);
}

/* ---- The agreement ----
 *
 * A rank whose arguments are wrong may know neither the size of the data nor the root, so it cannot
 * tell what the other ranks do. The records' size depends on no argument. The ranks of a node
 * reduce theirs to the leader, the leaders reduce those of the nodes, and each leader broadcasts
 * the result. Small data travels in the records, so that such a call takes no further step. */

struct agreement_ctx {
    const struct nodes_merge *merge;
    int rank, has_error;
    size_t size; /* of the records */
};

static void set_error_record(struct nodes_record *record, int rank)
{
    record->decision = NODES_ERROR;
    record->rank = rank;
}

static void merge_records(const struct agreement_ctx *ctx, const struct nodes_record *lower,
                          struct nodes_record *higher)
{
    if (ctx->has_error) /* this rank cannot combine data, and the result is an error anyway */
        set_error_record(higher, ctx->rank);
    else if (lower->decision >= NODES_LAYER && higher->decision >= NODES_LAYER) {
        uint16_t least = lower->decision < higher->decision ? lower->decision : higher->decision;
        ctx->merge->combine(ctx->merge->context, lower, higher);
        if (higher->decision > least)
            higher->decision = least;
    } else if (lower->decision <= higher->decision)
        memcpy(higher, lower, ctx->size);
}

/* An MPI_User_function has no context parameter. A blocking call of the library runs it on the
 * calling thread only. */
static _Thread_local const struct agreement_ctx *current_agreement;

static void merge_of_leaders(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    (void)datatype;
    for (int i = 0; i < *count; i++) {
        size_t at = (size_t)i * current_agreement->size;
        merge_records(current_agreement, (const void *)((char *)in + at),
                      (void *)((char *)inout + at));
    }
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

static void receive_record(void *context, int source, const struct engine_part *part)
{
    (void)source;
    if (part->bytes <= sizeof(struct nodes_record))
        memcpy(context, part->data, part->bytes);
}

static int exchange_records(const struct nodes *nodes, struct agreement_ctx *ctx,
                            struct nodes_record *record)
{
    struct engine *engine = nodes->engine;
    int is_leader = nodes_is_leader(nodes), result = MPI_SUCCESS;
    const struct engine_operation operation = {
        .combine = merge_within_node, .context = ctx, .element = ctx->size};
    if (engine)
        result = engine_reduce(engine, record, is_leader ? record : NULL, ctx->size, &operation, 0);
    if (result == MPI_SUCCESS && is_leader) {
        const struct agreement_ctx *outer = current_agreement;
        current_agreement = ctx;
        result = pmpi()->Allreduce(MPI_IN_PLACE, record, 1,
                                   nodes->record_types[ctx->size == NODES_LONG_BYTES],
                                   nodes->merge_op, nodes->leader_comm);
        current_agreement = outer;
    }
    if (!engine)
        return result;
    if (result != MPI_SUCCESS) /* the other ranks of the node must not wait */
        set_error_record(record, nodes->rank);
    const struct engine_offer offer = {.base = record, .bytes = ctx->size};
    int received = engine_broadcast(engine, 0, &offer, receive_record, record);
    return result == MPI_SUCCESS ? received : result;
}

enum nodes_decision nodes_agree(struct coll_call *call, const struct nodes_merge *merge, int error,
                                struct nodes_record *record)
{
    struct agreement_ctx ctx = {merge, call->rank, error != MPI_SUCCESS,
                                merge->is_long ? NODES_LONG_BYTES : NODES_SHORT_BYTES};
    if (error != MPI_SUCCESS)
        record->decision = NODES_ERROR;
    record->rank = record->peer = call->rank;
    int result = exchange_records(call->communicator->nodes, &ctx, record);
    call->error = error != MPI_SUCCESS ? error : result;
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

/* ---- MPI_Bcast ---- */

int nodes_bcast_within(const struct nodes *nodes, void *buf, MPI_Count count, MPI_Datatype datatype,
                       int local_root)
{
    int result;
    struct coll_call call = {.operation = COLL_BCAST,
                             .comm = nodes->node_comm,
                             .recvbuf = {.addr = buf, .count = count, .datatype = datatype},
                             .root = local_root};
    return coll_bcast(&call, &result)
               ? result
               : pmpi()->Bcast(buf, (int)count, datatype, local_root, nodes->node_comm);
}

/* Keeps the root's record. */
static void merge_root_record(void *context, const struct nodes_record *lower,
                              struct nodes_record *higher)
{
    (void)context;
    if (lower->is_root)
        memcpy(higher, lower, NODES_SHORT_BYTES);
}

static int broadcast(const struct nodes *nodes, void *buf, MPI_Count count, MPI_Datatype datatype,
                     int root)
{
    int root_node = nodes->location[root].node, is_root_node = nodes_own(nodes) == root_node;
    int result = MPI_SUCCESS;
    if (is_root_node)
        result = nodes_bcast_within(nodes, buf, count, datatype, nodes->location[root].local_rank);
    if (result == MPI_SUCCESS && nodes_is_leader(nodes))
        result = pmpi()->Bcast(buf, (int)count, datatype, root_node, nodes->leader_comm);
    if (!is_root_node && result == MPI_SUCCESS)
        result = nodes_bcast_within(nodes, buf, count, datatype, 0);
    return result;
}

/* Broadcasts through memory of the root's size, because this rank expects another size: the other
 * ranks still get their data. */
static void broadcast_other_size(struct coll_call *call, const struct typed_buf *buf, size_t bytes)
{
    struct engine_part part = {malloc(bytes), bytes, NULL};
    if (!part.data) {
        call->error = MPI_ERR_NO_MEM;
        return;
    }
    call->error = broadcast(call->communicator->nodes, (void *)part.data, (MPI_Count)bytes,
                            MPI_BYTE, call->root);
    if (call->error == MPI_SUCCESS)
        coll_receive_bcast(call, buf, call->root, &part);
    free((void *)part.data);
}

int nodes_bcast(struct coll_call *call)
{
    const struct nodes *nodes = call->communicator->nodes;
    const struct coll_buf *desc = &call->recvbuf;
    struct typed_buf buf = {0};
    const struct nodes_merge merge = {merge_root_record, NULL, 0};
    struct nodes_record record = {.decision = NODES_LIBRARY, .is_root = call->rank == call->root};
    int error = call->root >= call->size
                    ? MPI_ERR_ROOT
                    : buf_check(desc, desc->count ? BUF_SENT : BUF_EMPTY_BCAST, &buf);
    if (error == MPI_SUCCESS && desc->count && buf.type.size &&
        (size_t)desc->count <= NODES_BCAST_MAX_BYTES / buf.type.size) {
        record.bytes = (uint32_t)typed_buf_bytes(&buf);
        record.decision = nodes_decide(record.bytes, SHORT_DATA_MAX_BYTES);
    }
    if (record.decision == NODES_INLINE && record.is_root)
        error = typed_buf_pack(&buf, record.data);
    enum nodes_decision decision = nodes_agree(call, &merge, error, &record);
    if (decision == NODES_INLINE) {
        const struct engine_part part = {record.data, record.bytes, NULL};
        coll_receive_bcast(call, &buf, call->root, &part);
    } else if (decision == NODES_LAYER) {
        if (record.bytes == typed_buf_bytes(&buf))
            call->error = broadcast(nodes, desc->addr, desc->count, desc->datatype, call->root);
        else
            broadcast_other_size(call, &buf, record.bytes);
    }
    return decision != NODES_LIBRARY;
}
