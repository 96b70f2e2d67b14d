/* src/mpi/collectives/coll_call.c: see coll_call.h. */
#include "mpi/collectives/coll_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "mpi/group/group.h"
#include "mpi/pmpi/message.h"
#include "mpi/types/types.h"

/* ---- ONESPACE_LOG=check: whether all ranks make the same call ---- */

static const char *const names[] = {
    [COLL_BARRIER] = "Barrier",
    [COLL_BCAST] = "Bcast",
    [COLL_GATHER] = "Gather",
    [COLL_GATHERV] = "Gatherv",
    [COLL_SCATTER] = "Scatter",
    [COLL_SCATTERV] = "Scatterv",
    [COLL_ALLGATHER] = "Allgather",
    [COLL_ALLGATHERV] = "Allgatherv",
    [COLL_ALLTOALL] = "Alltoall",
    [COLL_ALLTOALLV] = "Alltoallv",
    [COLL_ALLTOALLW] = "Alltoallw",
    [COLL_REDUCE] = "Reduce",
    [COLL_ALLREDUCE] = "Allreduce",
    [COLL_REDUCE_SCATTER] = "Reduce_scatter",
    [COLL_REDUCE_SCATTER_BLOCK] = "Reduce_scatter_block",
    [COLL_SCAN] = "Scan",
    [COLL_EXSCAN] = "Exscan",
};

struct call_record {
    char name[24], op[16];
    int64_t bytes;       /* -1: unknown, or ranks may pass different counts */
    uint64_t block_hash; /* of the bytes of each rank's block; 0: unknown */
    int32_t root;
};
_Static_assert(sizeof(struct call_record) <= AGREEMENT_RECORD_MAX, "");

static int check_is_on(void)
{
    static _Atomic int is_on = -1; /* all threads find the same */
    const char *log = is_on < 0 ? getenv("ONESPACE_LOG") : NULL;
    if (is_on < 0)
        is_on = log && strcmp(log, "check") == 0;
    return is_on;
}

/* The buffer whose count and type must match on all ranks. */
static const struct coll_buf *compared_buf(const struct coll_call *call)
{
    switch (call->operation) {
    case COLL_GATHER:
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        return call->sendbuf.addr == MPI_IN_PLACE ? &call->recvbuf : &call->sendbuf;
    case COLL_SCATTER:
        return call->recvbuf.addr == MPI_IN_PLACE ? &call->sendbuf : &call->recvbuf;
    default:
        return &call->recvbuf;
    }
}

static void record_blocks(struct call_record *record, const struct coll_buf *recvbuf, int ranks,
                          MPI_Count size)
{
    if (!recvbuf->counts || !buf_counts_are_valid(recvbuf, ranks))
        return;
    record->bytes = 0;
    record->block_hash = HASH_SEED;
    for (int i = 0; i < ranks; i++) {
        int64_t bytes = buf_count(recvbuf, i) * size;
        record->bytes += bytes;
        record->block_hash = hash_bytes(record->block_hash, &bytes, sizeof(bytes));
    }
}

static struct call_record record_of(const struct coll_call *call, int ranks)
{
    MPI_Count size = 0;
    const struct coll_buf *buf = compared_buf(call);
    struct call_record record = {.bytes = -1, .root = call->root};
    snprintf(record.name, sizeof(record.name), "%s", names[call->operation]);
    if (coll_is_reduction(call->operation) && call->op != MPI_OP_NULL)
        snprintf(record.op, sizeof(record.op), "%s", reduce_op_name(call->op));
    int all_know_counts =
        call->operation == COLL_ALLGATHERV || call->operation == COLL_REDUCE_SCATTER;
    if (call->operation == COLL_BARRIER || (coll_has_counts(call->operation) && !all_know_counts) ||
        buf->datatype == MPI_DATATYPE_NULL ||
        pmpi()->Type_size_x(buf->datatype, &size) != MPI_SUCCESS)
        return record;
    if (all_know_counts)
        record_blocks(&record, buf, ranks, size);
    else if (buf->count >= 0)
        record.bytes = buf->count * size;
    return record;
}

static int records_match(const struct call_record *a, const struct call_record *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->op, b->op) == 0 && a->bytes == b->bytes &&
           a->block_hash == b->block_hash && a->root == b->root;
}

/* "MPI_Reduce of 8 bytes with MPI_SUM, root 0" */
static void describe_record(const struct call_record *record, char *text, size_t size)
{
    char bytes[40] = "", op[24] = "", root[24] = "";
    if (record->bytes >= 0)
        snprintf(bytes, sizeof(bytes), " of %lld bytes", (long long)record->bytes);
    if (record->op[0])
        snprintf(op, sizeof(op), " with %s", record->op);
    if (record->root >= 0)
        snprintf(root, sizeof(root), ", root %d", record->root);
    snprintf(text, size, "MPI_%s%s%s%s", record->name, bytes, op, root);
}

static void report_difference(const struct call_record *first, const struct call_record *other,
                              int rank)
{
    char first_text[128], other_text[128];
    int only_counts = first->bytes == other->bytes && first->block_hash && other->block_hash;
    describe_record(first, first_text, sizeof(first_text));
    describe_record(other, other_text, sizeof(other_text));
    layer_message(0,
                  "collective calls differ: rank 0 has called %s, and rank %d %s%s: all ranks must "
                  "make the same calls in the same order",
                  first_text, rank, other_text,
                  only_counts ? ", with other counts for the ranks" : "");
}

/* Collective if the check is on, over one space or several. MPI_SUCCESS; or MPI_ERR_OTHER on all
 * ranks, after a message that names the calls of two ranks; or the error of the exchange. */
static int check_calls_match(const struct coll_call *call)
{
    int result = MPI_SUCCESS;
    struct agreement *agreement = check_is_on() ? agreement_get(call->comm, &result) : NULL;
    if (!agreement)
        return result;
    const struct group *group = agreement->group;
    struct call_record own = record_of(call, group->ranks);
    const void *gathered;
    result = agreement_allgather(agreement, &own, sizeof(own), &gathered);
    const struct call_record *records = gathered;
    for (int i = 1; result == MPI_SUCCESS && i < group->ranks; i++)
        if (!records_match(&records[i], &records[0])) {
            if (group->rank == 0)
                report_difference(&records[0], &records[i], i);
            result = MPI_ERR_OTHER;
        }
    return result;
}

/* ---- Beginning and end ---- */

enum coll_path coll_begin(struct coll_call *call)
{
    int is_reduction = coll_is_reduction(call->operation);
    call->error = MPI_SUCCESS;
    call->own_part = NULL;
    call->communicator = communicator_get(call->comm, is_reduction, &call->error);
    if (!call->communicator)
        return call->error == MPI_SUCCESS ? COLL_LIBRARY : COLL_FINISHED;
    call->error = check_calls_match(call);
    if (call->error != MPI_SUCCESS)
        return COLL_FINISHED;
    if (!call->communicator->engine)
        return COLL_NODES;
    call->rank = call->communicator->group->rank;
    call->size = call->communicator->group->ranks;
    if (call->root == COLL_ALL_RANKS || (call->root >= 0 && call->root < call->size))
        return COLL_SPACE;
    coll_fail(call, MPI_ERR_ROOT);
    return COLL_FINISHED;
}

void coll_fail(struct coll_call *call, int error)
{
    call->error = error;
    engine_fail(call->communicator->engine); /* this error matters more than that of a lost peer */
}

/* After a call in which this rank has heard from another one, it must find the messages that the
 * other sent before. A rank that only sends, such as a leaf of MPI_Reduce, has heard nothing; the
 * MPI libraries make no progress there either. */
static int make_progress(const struct communicator *communicator)
{
    if (!communicator || (communicator->engine && !engine_take_has_read(communicator->engine)))
        return MPI_SUCCESS;
    return progress_after_operation();
}

int coll_end(struct coll_call *call, int *result)
{
    int progress = make_progress(call->communicator);
    *result = call->error != MPI_SUCCESS ? call->error : progress;
    if (*result != MPI_SUCCESS)
        pmpi()->Comm_call_errhandler(call->comm, *result);
    else if (call->communicator && !call->is_within_node)
        communicator_count(call->communicator);
    return 1;
}

/* ---- Arguments ---- */

static int find_type(MPI_Datatype datatype, enum buf_use use, struct item_layout *type)
{
    int result = item_layout_find(datatype, type);
    int is_checked = pmpi_is_open_mpi() ? use != BUF_RECEIVED : use != BUF_EMPTY_BCAST;
    return result == MPI_SUCCESS && is_checked ? type_check_committed(datatype) : result;
}

int buf_check(const struct coll_buf *desc, enum buf_use use, struct typed_buf *buf)
{
    *buf = (struct typed_buf){.addr = desc->addr, .count = desc->count};
    if (desc->count < 0)
        return MPI_ERR_COUNT;
    int result = find_type(desc->datatype, use, &buf->type);
    if (result != MPI_SUCCESS)
        return result;
    if (desc->addr == MPI_IN_PLACE)
        return coll_in_place_error();
    return desc->addr || !desc->count || buf->type.layout ? MPI_SUCCESS : MPI_ERR_BUFFER;
}

static int has_items(const struct coll_buf *desc, int ranks)
{
    for (int i = 0; i < ranks; i++)
        if (buf_count(desc, i))
            return 1;
    return 0;
}

int buf_check_blocks(const struct coll_buf *desc, int ranks, enum buf_use use,
                     struct item_layout *type)
{
    int result = MPI_SUCCESS, has_layout = 0;
    *type = (struct item_layout){0};
    if (desc->addr == MPI_IN_PLACE)
        return coll_in_place_error();
    if (!buf_counts_are_valid(desc, ranks))
        return MPI_ERR_COUNT;
    for (int i = 0; result == MPI_SUCCESS && i < (desc->datatypes ? ranks : 1); i++) {
        MPI_Datatype datatype = desc->datatypes ? desc->datatypes[i] : desc->datatype;
        /* MPICH does not look at the types of empty blocks, which may be MPI_DATATYPE_NULL. */
        if (desc->datatypes && !buf_count(desc, i) && !pmpi_is_open_mpi())
            continue;
        result = find_type(datatype, use, type);
        has_layout |= type->layout != NULL;
    }
    /* Types may have absolute addresses, with MPI_BOTTOM as the buffer: NULL in some libraries. */
    if (result == MPI_SUCCESS && !desc->addr && !has_layout && has_items(desc, ranks))
        result = MPI_ERR_BUFFER;
    return result;
}

int buf_block(const struct coll_buf *desc, const struct item_layout *type, int rank,
              struct typed_buf *block)
{
    ptrdiff_t step = desc->datatypes ? 1 : type->extent;
    *block = (struct typed_buf){.addr = desc->addr, .type = *type};
    if (desc->datatypes) {
        if (!buf_count(desc, rank)) {
            block->type = (struct item_layout){0};
            return MPI_SUCCESS;
        }
        int result = item_layout_find(desc->datatypes[rank], &block->type);
        if (result != MPI_SUCCESS)
            return result;
    }
    block->count = buf_count(desc, rank);
    block->addr = (char *)desc->addr + buf_displ(desc, rank) * step;
    return MPI_SUCCESS;
}

int buf_is_own_block(const struct coll_call *call, const struct coll_buf *one,
                     const struct coll_buf *blocks, const struct item_layout *type)
{
    MPI_Count count = buf_count(blocks, call->rank);
    if (one->datatype != blocks->datatype || !one->count || !count)
        return 0;
    if (!coll_has_counts(call->operation) && one->count != count)
        return 0;
    return one->addr ==
               (char *)blocks->addr + buf_displ(blocks, call->rank) * (ptrdiff_t)type->size &&
           !coll_may_alias();
}

struct reduce_rules reduce_rules_of(const struct coll_call *call)
{
    int receives = 1;
    switch (call->operation) {
    case COLL_REDUCE:
        receives = call->root == call->rank;
        return (struct reduce_rules){receives, receives, coll_in_place_error()};
    case COLL_ALLREDUCE:
        return (struct reduce_rules){1, 1, MPI_ERR_BUFFER};
    case COLL_EXSCAN: /* rank 0 receives nothing, and need not have a buffer */
        receives = call->rank > 0;
        break;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        receives = buf_count(&call->recvbuf, call->rank) != 0;
        break;
    default:
        break;
    }
    /* The library checks ranks that receive nothing by the same rules. */
    return (struct reduce_rules){receives || call->sendbuf.addr == MPI_IN_PLACE,
                                 !pmpi_is_open_mpi(), coll_in_place_error()};
}

int reduce_check_bufs(const struct coll_call *call, const struct reduce_rules *rules,
                      int has_layout)
{
    const void *sendbuf = call->sendbuf.addr, *recvbuf = call->recvbuf.addr;
    if ((rules->receives ? recvbuf : sendbuf) == MPI_IN_PLACE)
        return rules->error;
    if (!has_layout && (!sendbuf || (rules->receives && !recvbuf)))
        return MPI_ERR_BUFFER;
    if (sendbuf != recvbuf || !rules->must_differ)
        return MPI_SUCCESS;
    return pmpi_is_open_mpi() || pmpi_refuses_aliases() ? rules->error : MPI_SUCCESS;
}

/* ---- Receiving ---- */

char *coll_pack_buf(const struct coll_call *call, int has_layout, size_t bytes)
{
    struct pack_bufs *bufs =
        has_layout && bytes <= PACKED_MAX_BYTES ? communicator_pack_bufs(call->communicator) : NULL;
    return bufs ? bufs->send : NULL;
}

void coll_report_sizes(int rank, int source, size_t sent, size_t expected)
{
    layer_message(rank,
                  "rank %d sends %zu bytes in a collective operation in which this rank expects "
                  "%zu: counts and types must match",
                  source, sent, expected);
}

void coll_receive(struct coll_call *call, const struct typed_buf *buf, int source,
                  const struct engine_part *part)
{
    if (source == call->rank && !(part = call->own_part))
        return;
    int result = typed_buf_receive(buf, part);
    if (result == MPI_ERR_TRUNCATE)
        coll_report_sizes(call->rank, source, part->bytes, typed_buf_bytes(buf));
    coll_set_error(call, result);
}

void recv_into(void *context, int source, const struct engine_part *part)
{
    const struct recv_ctx *recv = context;
    coll_receive(recv->call, recv->buf, source, part);
}

void recv_each(void *context, int source, const struct engine_part *part)
{
    const struct recv_each_ctx *recv = context;
    struct typed_buf block;
    if (source == recv->call->rank && !recv->call->own_part)
        return;
    buf_block(recv->recvbuf, &recv->type, source, &block);
    coll_receive(recv->call, &block, source, part);
}

/* ---- Sending ---- */

/* Offers equal blocks in rank order where they are, or all of them packed. */
static void offer_equal_blocks(const struct coll_call *call, const struct coll_buf *sendbuf,
                               const struct item_layout *type, struct send_ctx *send)
{
    MPI_Count count = sendbuf->count;
    const struct typed_buf all = {sendbuf->addr, count * call->size, *type};
    size_t bytes = (size_t)count * type->size;
    char *packed = coll_pack_buf(call, type->layout != NULL, typed_buf_bytes(&all));
    if (packed && typed_buf_pack(&all, packed) == MPI_SUCCESS)
        send->offer = (struct engine_offer){.base = packed, .bytes = bytes, .stride = bytes};
    else
        send->offer = (struct engine_offer){.base = sendbuf->addr,
                                            .bytes = bytes,
                                            .stride = (size_t)(count * type->extent),
                                            .layout = type->layout};
}

/* Packs all parts into one allocation, and offers these copies. */
static int copy_parts(const struct coll_call *call, struct send_ctx *send)
{
    size_t bytes = 0;
    for (int i = 0; i < call->size; i++)
        bytes += send->parts[i].bytes;
    char *to = send->copy = malloc(bytes + 1);
    if (!to)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < call->size; i++) {
        struct engine_part *part = &send->parts[i];
        struct typed_buf packed = typed_buf_of_bytes(to, part->bytes);
        int result = typed_buf_receive(&packed, part);
        if (result != MPI_SUCCESS)
            return result;
        *part = typed_buf_part(&packed);
        to += part->bytes;
    }
    return MPI_SUCCESS;
}

int send_begin(const struct coll_call *call, const struct coll_buf *sendbuf,
               const struct item_layout *type, int is_copied, struct send_ctx *send)
{
    int result = MPI_SUCCESS;
    send->copy = NULL;
    send->parts = send->inline_parts;
    send->offer = (struct engine_offer){0};
    if (!is_copied && !sendbuf->counts && !sendbuf->datatypes) {
        offer_equal_blocks(call, sendbuf, type, send);
        return MPI_SUCCESS;
    }
    if (call->size > SEND_PARTS_INLINE &&
        !(send->parts = malloc((size_t)call->size * sizeof(*send->parts))))
        return MPI_ERR_NO_MEM;
    for (int i = 0; result == MPI_SUCCESS && i < call->size; i++) {
        struct typed_buf block = {0};
        result = buf_block(sendbuf, type, i, &block);
        send->parts[i] = typed_buf_part(&block);
    }
    if (result == MPI_SUCCESS && is_copied)
        result = copy_parts(call, send);
    send->offer.parts = send->parts;
    if (result != MPI_SUCCESS)
        send_end(send);
    return result;
}

void send_end(struct send_ctx *send)
{
    if (send->parts != send->inline_parts)
        free(send->parts);
    free(send->copy);
}

void coll_exchange(struct coll_call *call, enum engine_kind kind, int from, int to,
                   const struct engine_offer *offer, engine_receive *receive, void *context)
{
    coll_set_error(
        call, engine_exchange(call->communicator->engine, kind, from, to, offer, receive, context));
}
