/* src/mpi/collectives/nonblocking.c: short nonblocking collective operations, for communicators
 * whose ranks are all in one space: MPI_Ibarrier, MPI_Ibcast, MPI_Igather, MPI_Iscatter,
 * MPI_Iallgather, MPI_Ialltoall, MPI_Ireduce, MPI_Iallreduce.
 *
 * Each rank publishes a copy of its operand when it starts an operation, and reads the operands of
 * the others when it tests or waits. So an operation can complete on a rank as soon as the others
 * have started it, whatever they do afterwards: none must make progress for another, and the order
 * of calls that MPI allows is never restricted. That costs a second copy, so long operands are left
 * to the MPI library.
 *
 * Requests are the library's own generalised requests, so every MPI_Wait and MPI_Test of the
 * library takes them. MPICH's extension has functions that the library calls when it tests or waits
 * for such a request; Open MPI calls a function at each step of its progress. */
#include <stdlib.h>

#include "mpi/collectives/coll_call.h"
#include "onespace/sync/copy.h"

/* ---- Operands ---- */

enum { LINE = SHARED_BLOCK_ALIGN, INLINE_BYTES = LINE - 32, FIRST_SLOTS = 4 };

/* One rank's operand of one operation, as the others read it. */
struct operand {
    /* The operation's number, from 1 on. The owner sets it last (release); the others read it first
     * (acquire). */
    _Alignas(LINE) _Atomic uint64_t number;
    int16_t operation, is_failed; /* is_failed: the owner's arguments were wrong */
    int32_t root;
    uint64_t bytes; /* of each block */
    const char *data;
    char inline_data[INLINE_BYTES];
};
_Static_assert(sizeof(struct operand) == LINE, "");

/* The operand of operation n lies in slot n % slots, which is used again when all ranks have
 * finished the operation before. If one has not, the owner goes on in a larger ring.
 * tests/models/ring.pml checks it. */
struct ring {
    /* The owner sets it (release) when it has filled this one; the others read it (acquire). */
    _Alignas(LINE) struct ring *_Atomic next;
    uint64_t first; /* operation; written before the ring is published */
    uint64_t slots; /* a power of two */
    struct operand operands[];
};

/* One for each rank, in the memory that all share. */
struct shared_rank {
    /* The last operation up to which this rank has read all that it needs. It writes (release); the
     * others read (acquire) before they reuse a slot. */
    _Alignas(LINE) _Atomic uint64_t finished;
    /* The first ring and its slots follow. */
};
enum { SHARED_BYTES = sizeof(struct shared_rank) + sizeof(struct ring) + FIRST_SLOTS * LINE };

/* The owner's: memory for operands that are too long for their slots. */
struct long_operand {
    char *data;
    size_t bytes;
};
struct own_ring {
    struct ring *ring;
    struct own_ring *older; /* others may still look into it */
    struct long_operand long_operands[];
};

struct operation {
    struct nonblocking *of;
    struct operation *next; /* that was started after it */
    uint64_t number;
    enum coll_operation operation;
    int root, is_complete, is_queued, is_freed, error;
    int next_rank, end_rank; /* whose operands are still to be read; end_rank 0: it reads none */
    size_t bytes;            /* of each block */
    struct coll_buf recvbuf; /* where blocks go */
    struct item_layout type; /* of recvbuf */
    MPI_Datatype held_type;  /* has the layout, because the program may free its type; or NULL */
    reduce_function *loop;   /* of a reduction */
    MPI_Request request;
};

struct nonblocking {
    const struct group *group;
    char *memory;            /* of all ranks */
    uint64_t started;        /* operations */
    uint64_t started_by_all; /* at least */
    uint64_t free_until;     /* operations up to this one have a free slot */
    struct own_ring *own;
    struct operation *first, **last; /* in the order of their starts: not yet read */
    struct operation *unused;
    struct nonblocking *next_active; /* valid if is_active: in the list of those with operations */
    int is_active;
    int requests;        /* that the program has not freed */
    int error;           /* of a wait that failed: all later operations fail */
    struct ring *read[]; /* by rank: the ring that has the next operand */
};

static struct shared_rank *shared_of(const struct nonblocking *nonblocking, int rank)
{
    return (struct shared_rank *)(nonblocking->memory + (size_t)rank * SHARED_BYTES);
}

static struct ring *first_ring(const struct nonblocking *nonblocking, int rank)
{
    return (struct ring *)(shared_of(nonblocking, rank) + 1);
}

static void progress(struct nonblocking *nonblocking);

/* ---- Publishing ---- */

static uint64_t finished_by_all(const struct nonblocking *nonblocking)
{
    uint64_t least = nonblocking->started;
    for (int i = 0; i < nonblocking->group->ranks; i++) {
        uint64_t by_this =
            atomic_load_explicit(&shared_of(nonblocking, i)->finished, memory_order_acquire);
        least = by_this < least ? by_this : least;
    }
    return least;
}

static struct own_ring *new_own_ring(struct ring *ring, struct own_ring *older)
{
    struct own_ring *own =
        calloc(1, sizeof(*own) + (size_t)ring->slots * sizeof(own->long_operands[0]));
    if (own)
        *own = (struct own_ring){ring, older};
    return own;
}

/* Some rank has not finished the operations before. 0, or -1: out of memory. */
static int extend(struct nonblocking *nonblocking, uint64_t number)
{
    struct ring *full = nonblocking->own->ring;
    uint64_t slots = 2 * full->slots;
    struct ring *ring =
        shared_block_alloc(sizeof(*ring) + (size_t)slots * sizeof(struct operand), 0);
    struct own_ring *own;
    if (!ring)
        return -1;
    ring->first = number;
    ring->slots = slots;
    own = new_own_ring(ring, nonblocking->own);
    if (!own) {
        shared_block_free(ring);
        return -1;
    }
    nonblocking->own = own;
    nonblocking->free_until = number + slots - 1;
    atomic_store_explicit(&full->next, ring, memory_order_release);
    return 0;
}

/* Out of memory: waits until all ranks have finished the operation that had the slot. */
static void await_free_slot(struct nonblocking *nonblocking, uint64_t number)
{
    struct wait wait = WAIT_INIT(nonblocking->group);
    uint64_t slots = nonblocking->own->ring->slots;
    do
        progress(nonblocking);
    while (finished_by_all(nonblocking) + slots < number && wait_round(&wait) == MPI_SUCCESS);
}

/* The slot of operation `number`. */
static struct operand *slot_for(struct nonblocking *nonblocking, uint64_t number,
                                struct long_operand **longer)
{
    if (number > nonblocking->free_until) {
        uint64_t finished = finished_by_all(nonblocking), slots = nonblocking->own->ring->slots;
        if (finished + slots >= number)
            nonblocking->free_until = finished + slots;
        else if (extend(nonblocking, number) < 0)
            await_free_slot(nonblocking, number);
    }
    uint64_t slot = number & (nonblocking->own->ring->slots - 1);
    *longer = &nonblocking->own->long_operands[slot];
    return &nonblocking->own->ring->operands[slot];
}

static char *memory_for(struct operand *operand, struct long_operand *longer, size_t bytes)
{
    if (bytes <= INLINE_BYTES)
        return operand->inline_data;
    if (bytes <= longer->bytes)
        return longer->data;
    free(longer->data);
    longer->data = malloc(bytes);
    longer->bytes = longer->data ? bytes : 0;
    return longer->data;
}

/* Copies `contribution`, NULL if the others need nothing, into this rank's operand. An error class:
 * the others learn of it. */
static int publish(struct nonblocking *nonblocking, const struct operation *operation,
                   const struct typed_buf *contribution, int error)
{
    struct long_operand *longer;
    struct operand *operand = slot_for(nonblocking, operation->number, &longer);
    if (error == MPI_SUCCESS && contribution) {
        char *to = memory_for(operand, longer, typed_buf_bytes(contribution));
        error = to ? typed_buf_pack(contribution, to) : MPI_ERR_NO_MEM;
        operand->data = to;
    }
    operand->operation = (int16_t)operation->operation;
    operand->is_failed = error != MPI_SUCCESS;
    operand->root = operation->root;
    operand->bytes = operation->bytes;
    atomic_store_explicit(&operand->number, operation->number, memory_order_release);
    return error;
}

/* ---- Reading ---- */

/* The rank's operand of operation `number`; NULL: it has not started it. */
static const struct operand *find_operand(struct nonblocking *nonblocking, int rank,
                                          uint64_t number)
{
    for (;;) {
        struct ring *ring = nonblocking->read[rank];
        const struct operand *operand = &ring->operands[number & (ring->slots - 1)];
        if (atomic_load_explicit(&operand->number, memory_order_acquire) == number)
            return operand;
        struct ring *next = atomic_load_explicit(&ring->next, memory_order_acquire);
        if (!next || next->first > number)
            return NULL;
        nonblocking->read[rank] = next;
    }
}

static int check_operand(const struct operation *operation, const struct operand *operand,
                         int source)
{
    int rank = operation->of->group->rank;
    if (operand->is_failed) /* perhaps for its root */
        return report_failed_peer(rank, source);
    if (operand->operation != (int16_t)operation->operation || operand->root != operation->root)
        return report_mismatch(rank, source);
    if (operand->bytes == operation->bytes)
        return MPI_SUCCESS;
    coll_report_sizes(rank, source, operand->bytes, operation->bytes);
    return operand->bytes > operation->bytes ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
}

static int receive_block(const struct operation *operation, int block, const char *data,
                         size_t bytes)
{
    struct typed_buf to = {0};
    const struct engine_part part = {data, bytes, NULL};
    int result = buf_block(&operation->recvbuf, &operation->type, block, &to);
    return result == MPI_SUCCESS ? typed_buf_receive(&to, &part) : result;
}

static int receive_operand(const struct operation *operation, const struct operand *operand,
                           int source)
{
    int error = check_operand(operation, operand, source);
    if (error != MPI_SUCCESS)
        return error;
    size_t bytes = operand->bytes;
    switch (operation->operation) {
    case COLL_BCAST:
        return receive_block(operation, 0, operand->data, bytes);
    case COLL_SCATTER:
        return receive_block(operation, 0,
                             operand->data + (size_t)operation->of->group->rank * bytes, bytes);
    case COLL_ALLTOALL:
        return receive_block(operation, source,
                             operand->data + (size_t)operation->of->group->rank * bytes, bytes);
    case COLL_GATHER:
    case COLL_ALLGATHER:
        return receive_block(operation, source, operand->data, bytes);
    case COLL_REDUCE:
    case COLL_ALLREDUCE: /* in rank order, so that all ranks get the same bits */
        if (source == 0)
            onespace_copy(operation->recvbuf.addr, operand->data, bytes);
        else
            operation->loop(operation->recvbuf.addr, operand->data,
                            (size_t)operation->recvbuf.count);
        return MPI_SUCCESS;
    default:
        return MPI_SUCCESS;
    }
}

/* Does not change nonblocking->read: older operations may still need that ring. */
static int has_started(const struct nonblocking *nonblocking, int rank, uint64_t number)
{
    for (const struct ring *ring = nonblocking->read[rank]; ring;) {
        const struct operand *operand = &ring->operands[number & (ring->slots - 1)];
        if (ring->first > number ||
            atomic_load_explicit(&operand->number, memory_order_acquire) >= number)
            return 1;
        ring = atomic_load_explicit(&ring->next, memory_order_acquire);
    }
    return 0;
}

static int all_have_started(const struct nonblocking *nonblocking, uint64_t number)
{
    for (int i = 0; i < nonblocking->group->ranks; i++)
        if (!has_started(nonblocking, i, number))
            return 0;
    return 1;
}

/* A rank that reads nothing, such as the root of a broadcast, waits only for ranks that are far
 * behind: so the number of operands in its memory has a bound, beside what the program starts
 * without waiting. */
static int no_rank_is_far_behind(struct nonblocking *nonblocking, uint64_t number)
{
    enum { AHEAD_MAX = 64 };
    uint64_t least = number > AHEAD_MAX ? number - AHEAD_MAX : 0;
    if (least <= nonblocking->started_by_all)
        return 1;
    /* A larger number saves looking at all ranks in each operation. */
    uint64_t more = least + AHEAD_MAX / 2;
    uint64_t found = all_have_started(nonblocking, more) ? more : least;
    if (found == least && !all_have_started(nonblocking, least))
        return 0;
    nonblocking->started_by_all = found;
    return 1;
}

/* Whether all that the operation needs has been read. */
static int read_operands(struct operation *operation)
{
    struct nonblocking *nonblocking = operation->of;
    int rank = nonblocking->group->rank, skips_own = !coll_is_reduction(operation->operation);
    if (!operation->end_rank)
        return operation->is_complete || no_rank_is_far_behind(nonblocking, operation->number);
    for (; operation->next_rank < operation->end_rank; operation->next_rank++) {
        int source = operation->next_rank;
        if (source == rank && skips_own)
            continue;
        const struct operand *operand = find_operand(nonblocking, source, operation->number);
        if (!operand)
            return 0;
        if (operation->error == MPI_SUCCESS)
            operation->error = receive_operand(operation, operand, source);
    }
    return 1;
}

/* ---- Completion ---- */

static void release(struct operation *operation)
{
    if (operation->is_queued || !operation->is_freed)
        return;
    operation->next = operation->of->unused;
    operation->of->unused = operation;
}

static void complete(struct operation *operation)
{
    if (operation->is_complete)
        return;
    operation->is_complete = 1;
    if (operation->held_type != MPI_DATATYPE_NULL) {
        type_layout_forget(operation->held_type);
        pmpi()->Type_free(&operation->held_type);
    }
    pmpi()->Grequest_complete(operation->request);
}

/* MPI calls of one process do not overlap (nonblocking_is_possible), but those made in `progress`
 * may lead to it again. */
static int is_inside;

/* Reads what has arrived. When a request is complete, the program must find what other ranks sent
 * before they started the operation, as after the library's own (progress_after_operation). */
static void progress(struct nonblocking *nonblocking)
{
    struct operation *operation;
    if (is_inside)
        return;
    is_inside = 1;
    while ((operation = nonblocking->first) && read_operands(operation)) {
        int result = operation->is_complete ? MPI_SUCCESS : progress_after_operation();
        if (operation->error == MPI_SUCCESS)
            operation->error = result;
        nonblocking->first = operation->next;
        if (!nonblocking->first)
            nonblocking->last = &nonblocking->first;
        atomic_store_explicit(&shared_of(nonblocking, nonblocking->group->rank)->finished,
                              operation->number, memory_order_release);
        complete(operation);
        operation->is_queued = 0; /* after it: the program may have freed the request */
        release(operation);
    }
    is_inside = 0;
}

/* ---- Requests ---- */

static int set_status(void *extra, MPI_Status *status)
{
    const struct operation *operation = extra;
    pmpi()->Status_set_cancelled(status, 0);
    int result = pmpi()->Status_set_elements(status, MPI_BYTE, 0);
    return operation->error != MPI_SUCCESS ? operation->error : result;
}

static int free_request(void *extra)
{
    struct operation *operation = extra;
    operation->is_freed = 1;
    operation->of->requests--;
    release(operation);
    return MPI_SUCCESS;
}

static int cancel_nothing(void *extra, int is_complete)
{
    (void)extra, (void)is_complete;
    return MPI_SUCCESS; /* MPI does not allow it, and the operation goes on */
}

/* MPICH's extension: the library calls these for requests that a program tests or waits for. In
 * MPI_Wait it does nothing else: other operations are the library's, and need progress, too. */
static int poll_request(void *extra, MPI_Status *status)
{
    struct operation *operation = extra;
    (void)status;
    progress(operation->of);
    return operation->is_complete ? MPI_SUCCESS : progress_step();
}

/* Whether the operation needs a rank that has ended. */
static int is_missing(const void *context, int rank)
{
    const struct operation *operation = context;
    return !has_started(operation->of, rank, operation->number);
}

static int wait_for_requests(int count, void **extras, double timeout, MPI_Status *status)
{
    (void)timeout, (void)status;
    for (int i = 0; i < count; i++) {
        struct operation *operation = extras[i];
        struct wait wait = WAIT_INIT(operation->of->group);
        wait.needs = is_missing;
        wait.context = operation;
        int result = MPI_SUCCESS;
        for (progress(operation->of); !operation->is_complete; progress(operation->of)) {
            result = wait_round(&wait);
            if (result == MPI_SUCCESS)
                continue;
            operation->of->error = operation->error = result;
            operation->end_rank = 0; /* its buffer is the program's again */
            complete(operation);
        }
    }
    return MPI_SUCCESS;
}

typedef int mpich_poll(void *extra, MPI_Status *status);
typedef int mpich_wait(int count, void **extras, double timeout, MPI_Status *status);
typedef int mpich_class_create(MPI_Grequest_query_function *, MPI_Grequest_free_function *,
                               MPI_Grequest_cancel_function *, mpich_poll *, mpich_wait *,
                               int *class);
typedef int mpich_class_allocate(int class, void *extra, MPI_Request *request);
typedef int openmpi_register(int (*function)(void));

static mpich_class_allocate *class_allocate;
static openmpi_register *progress_register;
static int request_class;

static struct nonblocking *active; /* have operations that are not complete */

/* Open MPI's progress calls this, and counts the events that it returns. Not within a step of the
 * layer's, which may measure how long steps take, and holds their lock. */
int nonblocking_progress(void)
{
    if (!active || is_inside || progress_is_stepping())
        return 0;
    for (struct nonblocking **at = &active, *nonblocking; (nonblocking = *at);) {
        progress(nonblocking);
        nonblocking->is_active = nonblocking->first != NULL;
        if (nonblocking->is_active)
            at = &nonblocking->next_active;
        else
            *at = nonblocking->next_active;
    }
    return 0;
}

/* MPICH's library for the standard interface has the names without P only. */
static void *mpich_symbol(const char *name)
{
    void *found = pmpi_symbol(name);
    return found ? found : pmpi_symbol(name + 1);
}

static int find_requests(void)
{
    if (pmpi_is_open_mpi()) {
        progress_register = (openmpi_register *)pmpi_symbol("opal_progress_register");
        return progress_register != NULL;
    }
    mpich_class_create *create = (mpich_class_create *)mpich_symbol("PMPIX_Grequest_class_create");
    class_allocate = (mpich_class_allocate *)mpich_symbol("PMPIX_Grequest_class_allocate");
    return create && class_allocate &&
           create(set_status, free_request, cancel_nothing, poll_request, wait_for_requests,
                  &request_class) == MPI_SUCCESS;
}

/* Not with MPI_THREAD_MULTIPLE: there is no lock. */
int nonblocking_is_possible(void)
{
    static int found = -1; /* by the thread that calls MPI */
    int level = MPI_THREAD_MULTIPLE;
    if (pmpi()->Query_thread(&level) != MPI_SUCCESS || level == MPI_THREAD_MULTIPLE)
        return 0;
    if (found < 0)
        found = find_requests();
    return found;
}

/* Open MPI's progress calls the layer from the first operation on: programs that start none do not
 * pay for it. */
static int start_request(struct operation *operation)
{
    static int is_registered;
    if (class_allocate)
        return class_allocate(request_class, operation, &operation->request);
    if (!is_registered && progress_register(nonblocking_progress) != 0)
        return MPI_ERR_NO_MEM;
    is_registered = 1;
    return pmpi()->Grequest_start(set_status, free_request, cancel_nothing, operation,
                                  &operation->request);
}

/* ---- Starting ---- */

/* Longer operands are the library's, because the second copy takes longer than it saves: those that
 * a rank sends to one other are exchanged in one copy there. */
enum { BLOCK_MAX_BYTES = 1024, SHARED_MAX_BYTES = 4096, REDUCTION_MAX_BYTES = 65536 };

/* MPI_SUCCESS, or the class of this rank's error. */
static int find_bytes(const struct coll_buf *buf, MPI_Count *bytes)
{
    MPI_Count size;
    if (buf->count < 0)
        return MPI_ERR_COUNT;
    if (buf->datatype == MPI_DATATYPE_NULL ||
        pmpi()->Type_size_x(buf->datatype, &size) != MPI_SUCCESS)
        return MPI_ERR_TYPE;
    *bytes = buf->count * size;
    return MPI_SUCCESS;
}

/* The buffer whose size all ranks know; NULL: none. Longer ones than *max are the library's. */
static const struct coll_buf *buf_of_agreed_size(const struct coll_call *call, MPI_Count *max)
{
    const struct coll_buf *sendbuf = &call->sendbuf, *recvbuf = &call->recvbuf;
    *max = BLOCK_MAX_BYTES;
    switch (call->operation) {
    case COLL_BARRIER:
        return NULL;
    case COLL_GATHER:
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        return sendbuf->addr == MPI_IN_PLACE ? recvbuf : sendbuf;
    case COLL_SCATTER:
        return recvbuf->addr == MPI_IN_PLACE ? sendbuf : recvbuf;
    default:
        *max = SHARED_MAX_BYTES;
        return recvbuf;
    }
}

/* Whether the layer has a loop for the reduction, of items without gaps. *error: the operation is
 * wrong. */
static int find_reduction(const struct coll_call *call, struct reduce_operation *reduction,
                          int *error)
{
    if (call->op != MPI_OP_NULL && !reduce_op_is_predefined(call->op))
        return 0;
    *error = reduce_operation_find(call, reduction);
    return *error != MPI_SUCCESS || (!reduction->type.layout && reduction->loop);
}

/* The data of a call on this rank. */
struct arguments {
    struct typed_buf contribution;
    int contributes;
    struct typed_buf own; /* this rank's own block, to be copied to its place; count 0: none */
};

/* Check this rank's arguments, as the blocking operations do; MPI_SUCCESS or the class of its
 * error. They set what the operation receives. */

static int prepare_gather(const struct coll_call *call, struct operation *operation,
                          struct arguments *arguments)
{
    int receives = coll_receives(call);
    int error = gather_check(call, &arguments->contribution, &operation->type);
    arguments->contributes = call->root != call->rank;
    if (receives && call->sendbuf.addr != MPI_IN_PLACE)
        arguments->own = arguments->contribution;
    operation->end_rank = receives ? call->size : 0;
    return error;
}

static int prepare_alltoall(const struct coll_call *call, struct operation *operation,
                            struct arguments *arguments)
{
    int in_place = call->sendbuf.addr == MPI_IN_PLACE;
    const struct coll_buf *from = in_place ? &call->recvbuf : &call->sendbuf;
    struct item_layout sendtype;
    int error = alltoall_check(call, &sendtype, &operation->type);
    if (error != MPI_SUCCESS)
        return error;
    arguments->contribution = (struct typed_buf){from->addr, from->count * call->size, sendtype};
    arguments->contributes = 1;
    operation->end_rank = call->size;
    return in_place ? MPI_SUCCESS : buf_block(from, &sendtype, call->rank, &arguments->own);
}

static int prepare_scatter(const struct coll_call *call, struct operation *operation,
                           struct arguments *arguments)
{
    const struct coll_buf *sendbuf = &call->sendbuf;
    struct item_layout sendtype;
    struct typed_buf recvblock = {0};
    int error = scatter_check(call, &sendtype, &arguments->own, &recvblock);
    if (error != MPI_SUCCESS)
        return error;
    operation->type = recvblock.type;
    if (call->root != call->rank) {
        operation->next_rank = call->root;
        operation->end_rank = call->root + 1;
        return MPI_SUCCESS;
    }
    arguments->contribution =
        (struct typed_buf){sendbuf->addr, sendbuf->count * call->size, sendtype};
    arguments->contributes = 1;
    operation->bytes = (size_t)sendbuf->count * sendtype.size; /* which recvbuf's may not be */
    return MPI_SUCCESS;
}

static int prepare_bcast(const struct coll_call *call, struct operation *operation,
                         struct arguments *arguments)
{
    int is_root = call->root == call->rank;
    int error = buf_check(&call->recvbuf, BUF_SENT, &arguments->contribution);
    operation->type = arguments->contribution.type;
    arguments->contributes = is_root;
    operation->next_rank = call->root;
    operation->end_rank = is_root ? 0 : call->root + 1;
    return error;
}

static int prepare_reduce(const struct coll_call *call, struct operation *operation,
                          struct arguments *arguments)
{
    const struct reduce_rules rules = reduce_rules_of(call);
    void *from = call->sendbuf.addr == MPI_IN_PLACE ? call->recvbuf.addr : call->sendbuf.addr;
    arguments->contribution = (struct typed_buf){from, call->recvbuf.count, operation->type};
    arguments->contributes = 1;
    operation->end_rank = coll_receives(call) ? call->size : 0;
    return reduce_check_bufs(call, &rules, 0);
}

static int prepare(const struct coll_call *call, struct operation *operation,
                   struct arguments *arguments)
{
    switch (call->operation) {
    case COLL_BARRIER:
        arguments->contributes = 0;
        operation->end_rank = call->size;
        return MPI_SUCCESS;
    case COLL_BCAST:
        return prepare_bcast(call, operation, arguments);
    case COLL_SCATTER:
        return prepare_scatter(call, operation, arguments);
    case COLL_ALLTOALL:
        return prepare_alltoall(call, operation, arguments);
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
        return prepare_reduce(call, operation, arguments);
    default:
        return prepare_gather(call, operation, arguments);
    }
}

/* The program may free its type before the operation completes, and with it the layout. Not
 * MPI_Type_dup, which would call the program's functions for attributes. */
static int hold_type(const struct coll_call *call, struct operation *operation)
{
    if (!operation->type.layout || !operation->end_rank)
        return MPI_SUCCESS;
    int error = pmpi()->Type_contiguous(1, call->recvbuf.datatype, &operation->held_type);
    return error == MPI_SUCCESS ? item_layout_find(operation->held_type, &operation->type) : error;
}

static int copy_own_block(const struct coll_call *call, const struct operation *operation,
                          const struct typed_buf *own)
{
    struct typed_buf to = {0};
    if (!own->count)
        return MPI_SUCCESS;
    int block = call->operation == COLL_SCATTER ? 0 : call->rank;
    int error = buf_block(&call->recvbuf, &operation->type, block, &to);
    return error == MPI_SUCCESS ? typed_buf_copy(&to, own) : error;
}

static struct operation *new_operation(struct nonblocking *nonblocking)
{
    struct operation *operation = nonblocking->unused;
    if (operation)
        nonblocking->unused = operation->next;
    else if (!(operation = malloc(sizeof(*operation))))
        return NULL;
    *operation = (struct operation){.of = nonblocking, .held_type = MPI_DATATYPE_NULL};
    return operation;
}

static void enqueue(struct nonblocking *nonblocking, struct operation *operation)
{
    operation->is_queued = 1;
    *nonblocking->last = operation;
    nonblocking->last = &operation->next;
    if (nonblocking->is_active)
        return;
    nonblocking->is_active = 1;
    nonblocking->next_active = active;
    active = nonblocking;
}

/* The operation fails on this rank, before or while it starts. */
static int fail_start(struct operation *operation, const struct coll_call *call, int error,
                      MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    if (operation) {
        operation->error = error;
        operation->end_rank = 0; /* it reads nothing */
        enqueue(operation->of, operation);
        complete(operation);
        pmpi()->Request_free(&operation->request);
        progress(operation->of);
    }
    pmpi()->Comm_call_errhandler(call->comm, error);
    return error;
}

/* Every rank takes part from here on, with a failure if its arguments are wrong: `error`, or what
 * is found here. */
static int start(struct nonblocking *nonblocking, const struct coll_call *call, size_t bytes,
                 const struct reduce_operation *reduction, int error, MPI_Request *request)
{
    struct arguments arguments = {0};
    struct operation none = {.of = nonblocking}, *operation = new_operation(nonblocking);
    if (!operation || start_request(operation) != MPI_SUCCESS) {
        free(operation);
        operation = NULL;
        error = MPI_ERR_NO_MEM;
    }
    struct operation *started = operation ? operation : &none;
    nonblocking->requests += operation != NULL;
    started->number = ++nonblocking->started;
    started->operation = call->operation;
    started->root = call->root;
    started->bytes = bytes;
    started->recvbuf = call->recvbuf;
    started->loop = reduction->loop;
    started->type = reduction->type;
    if (error == MPI_SUCCESS)
        error = nonblocking->error;
    if (error == MPI_SUCCESS)
        error = prepare(call, started, &arguments);
    if (error == MPI_SUCCESS)
        error = hold_type(call, started);
    error = publish(nonblocking, started, arguments.contributes ? &arguments.contribution : NULL,
                    error);
    if (error == MPI_SUCCESS)
        error = copy_own_block(call, started, &arguments.own);
    if (error != MPI_SUCCESS)
        return fail_start(operation, call, error, request);
    enqueue(nonblocking, operation);
    *request = operation->request;
    if (!operation->end_rank && no_rank_is_far_behind(nonblocking, operation->number))
        complete(operation);
    if (nonblocking->first->is_complete)
        progress(nonblocking);
    return MPI_SUCCESS;
}

int nonblocking_start(struct coll_call *call, MPI_Request *request, int *result)
{
    struct handle_entry *entry = communicator_entry(call->comm);
    struct communicator *communicator =
        entry ? atomic_load_explicit(&entry->value, memory_order_relaxed) : NULL;
    struct nonblocking *nonblocking = communicator ? communicator->nonblocking : NULL;
    if (!nonblocking)
        return 0;
    const struct group *group = nonblocking->group;
    call->rank = group->rank;
    call->size = group->ranks;
    MPI_Count bytes = 0, max;
    struct reduce_operation reduction = {0};
    const struct coll_buf *known = buf_of_agreed_size(call, &max);
    int error = known ? find_bytes(known, &bytes) : MPI_SUCCESS;
    if (error == MPI_SUCCESS && known && (!bytes || bytes > max))
        return 0;
    if (error == MPI_SUCCESS && coll_is_reduction(call->operation) &&
        (bytes * call->size > REDUCTION_MAX_BYTES || !find_reduction(call, &reduction, &error)))
        return 0;
    if (call->root != COLL_ALL_RANKS && (call->root < 0 || call->root >= call->size))
        error = MPI_ERR_ROOT;
    *result = start(nonblocking, call, (size_t)bytes, &reduction, error, request);
    if (*result == MPI_SUCCESS)
        communicator_count(communicator);
    return 1;
}

/* ---- Set-up and teardown ---- */

size_t nonblocking_memory(void)
{
    return SHARED_BYTES;
}

struct nonblocking *nonblocking_new(const struct group *group, void *memory)
{
    struct nonblocking *made =
        calloc(1, sizeof(*made) + (size_t)group->ranks * sizeof(made->read[0]));
    if (!made)
        return NULL;
    made->group = group;
    made->memory = memory;
    made->last = &made->first;
    made->free_until = FIRST_SLOTS;
    struct ring *own = first_ring(made, group->rank);
    own->first = 1;
    own->slots = FIRST_SLOTS;
    for (int i = 0; i < group->ranks; i++)
        made->read[i] = first_ring(made, i);
    made->own = new_own_ring(own, NULL);
    /* Operations may outlive the communicator, and with it the agreement that enables progress. */
    if (made->own && progress_enable() == MPI_SUCCESS)
        return made;
    free(made->own);
    free(made);
    return NULL;
}

int nonblocking_is_unused(const struct nonblocking *nonblocking)
{
    return !nonblocking->started || (!nonblocking->first && !nonblocking->requests &&
                                     finished_by_all(nonblocking) == nonblocking->started);
}

static void deactivate(struct nonblocking *nonblocking)
{
    struct nonblocking **at = &active;
    while (nonblocking->is_active && *at != nonblocking)
        at = &(*at)->next_active;
    if (nonblocking->is_active)
        *at = nonblocking->next_active;
}

void nonblocking_free(struct nonblocking *nonblocking)
{
    deactivate(nonblocking);
    progress_disable();
    for (struct own_ring *own = nonblocking->own, *older; own; own = older) {
        older = own->older;
        for (uint64_t i = 0; i < own->ring->slots; i++)
            free(own->long_operands[i].data);
        if (own->ring != first_ring(nonblocking, nonblocking->group->rank))
            shared_block_free(own->ring);
        free(own);
    }
    for (struct operation *operation = nonblocking->unused, *next; operation; operation = next) {
        next = operation->next;
        free(operation);
    }
    free(nonblocking);
}
