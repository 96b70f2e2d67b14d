/* mpi_collectives_moves ROUNDS [SEED]: random collective operations that move data between ranks,
 * and sums of some ranks, on several communicators; each rank describes its side by a type of its
 * own, and checks what it gets. Exit status 1: something was wrong. */
#include <unistd.h>

#include "mpi/collectives/guests/collective.h"

enum { COMMS = 4, GAP = -77 };

static MPI_Datatype spaced; /* an int and a gap as large */

struct call {
    struct collective arguments;
    int rank, ranks, round, in_place, scale; /* rank and ranks: of the communicator */
};

static void expect(int is_right, const struct call *call)
{
    if (!is_right && wrong++ < 5)
        printf("round %d, rank %d of %d: %s is wrong\n", call->round, call->rank, call->ranks,
               operation_names[call->arguments.operation]);
}

static int value(const struct call *call, int from, int to, int i)
{
    return from * 1000003 + to * 7919 + i * 13 + call->round;
}

/* ---- Blocks: the data from one rank to another, or from one rank to all ---- */

static int is_one_of(enum operation operation, enum operation first, enum operation last)
{
    return operation >= first && operation <= last;
}

static int is_gather(enum operation operation)
{
    return is_one_of(operation, GATHER, GATHERV) || is_one_of(operation, ALLGATHER, ALLGATHERV);
}

/* Each pair of ranks has a count of its own. */
static int is_vector(enum operation operation)
{
    return operation == GATHERV || operation == SCATTERV || operation == ALLGATHERV ||
           is_one_of(operation, ALLTOALLV, ALLTOALLW);
}

/* The ranks of block `i` in what the caller sends or receives. All ranks get the same of a gather:
 * such a block goes to rank 0. */
static int sender_of(const struct call *call, int is_received, int i)
{
    int is_scatter = is_one_of(call->arguments.operation, SCATTER, SCATTERV);
    return !is_received ? call->rank : is_scatter ? call->arguments.root : i;
}

static int receiver_of(const struct call *call, int is_received, int i)
{
    return is_gather(call->arguments.operation) ? 0 : is_received ? call->rank : i;
}

static int blocks_of(const struct call *call, int is_received)
{
    enum operation operation = call->arguments.operation;
    int is_root = call->rank == call->arguments.root;
    if (is_one_of(operation, SCATTER, SCATTERV))
        return is_received ? 1 : is_root ? call->ranks : 0;
    if (is_gather(operation) && !is_received)
        return 1;
    return is_one_of(operation, GATHER, GATHERV) && !is_root ? 0 : call->ranks;
}

/* In place a rank sends to another what it receives from it. */
static int count_of(const struct call *call, int from, int to)
{
    enum operation operation = call->arguments.operation;
    int is_symmetric = call->in_place && operation >= ALLTOALLV;
    return !is_vector(operation) ? call->scale
           : is_symmetric        ? (from + to + call->round) % 4 * call->scale
                                 : (from * 5 + to * 3 + call->round) % 4 * call->scale;
}

/* ---- Sides: what a rank sends or receives, ints `step` apart ---- */

struct side {
    int *data, size, step, blocks, is_received;
    int counts[RANKS_MAX], displs[RANKS_MAX], bytes[RANKS_MAX];
    MPI_Datatype type, types[RANKS_MAX];
};

static void clear(struct side *side)
{
    side->data = malloc(sizeof(int) * (size_t)side->size);
    for (int i = 0; i < side->size; i++)
        side->data[i] = GAP;
}

/* Where counts differ, the blocks are in reverse order with gaps between them. */
static struct side side_of(const struct call *call, int is_received)
{
    struct side side = {.is_received = is_received, .blocks = blocks_of(call, is_received)};
    int at = 0, is_reversed = is_vector(call->arguments.operation);
    side.step = 1 + (call->rank * 3 + call->round + is_received) % 2;
    side.type = side.step == 1 ? MPI_INT : spaced;
    for (int k = 0; k < side.blocks; k++) {
        int i = is_reversed ? side.blocks - 1 - k : k;
        side.counts[i] =
            count_of(call, sender_of(call, is_received, i), receiver_of(call, is_received, i));
        side.displs[i] = at;
        side.bytes[i] = at * side.step * (int)sizeof(int);
        side.types[i] = side.type;
        at += side.counts[i] + (is_reversed && i % 2);
    }
    side.size = 2 * at + 2;
    clear(&side);
    return side;
}

static void fill(const struct call *call, struct side *side, int is_received, int first, int last)
{
    for (int block = first; block <= last; block++)
        for (int i = 0; i < side->counts[block]; i++)
            side->data[(side->displs[block] + i) * side->step] =
                value(call, sender_of(call, is_received, block),
                      receiver_of(call, is_received, block), i);
}

static void move(struct call *call)
{
    struct collective c = call->arguments;
    int is_scatter = is_one_of(c.operation, SCATTER, SCATTERV);
    struct side from = side_of(call, 0), to = side_of(call, 1), expected = to;
    /* With a root, only the root may be in place. */
    int in_place = call->in_place && (is_scatter ? from.blocks : to.blocks) > 0;
    clear(&expected);
    if (!in_place || is_scatter)
        fill(call, &from, 0, 0, from.blocks - 1);
    else if (is_gather(c.operation))
        fill(call, &to, 1, call->rank, call->rank);
    else
        fill(call, &to, 0, 0, to.blocks - 1);
    if (!in_place || !is_scatter)
        fill(call, &expected, 1, 0, to.blocks - 1);
    c.sendbuf = in_place && !is_scatter ? MPI_IN_PLACE : from.data;
    c.recvbuf = in_place && is_scatter ? MPI_IN_PLACE : to.data;
    c.sendcount = is_vector(c.operation) ? from.counts[0] : call->scale;
    c.recvcount = is_vector(c.operation) ? to.counts[0] : call->scale;
    c.sendtype = from.type;
    c.recvtype = to.type;
    c.sendcounts = from.counts;
    c.recvcounts = to.counts;
    c.sdispls = c.operation == ALLTOALLW ? from.bytes : from.displs;
    c.rdispls = c.operation == ALLTOALLW ? to.bytes : to.displs;
    c.sendtypes = from.types;
    c.recvtypes = to.types;
    collective_call(&c);
    expect(memcmp(to.data, expected.data, sizeof(int) * (size_t)to.size) == 0, call);
    free(from.data);
    free(to.data);
    free(expected.data);
}

static void sum(struct call *call)
{
    struct collective *c = &call->arguments;
    c->recvcount = call->scale;
    const struct share share = share_of(c, call->rank, call->ranks, call->round);
    int64_t *in = malloc(8 * (size_t)share.all + 8), *out = malloc(8 * (size_t)share.all + 8);
    for (int i = 0; i < share.all; i++)
        in[i] = out[i] = value(call, call->rank, 0, i);
    c->sendbuf = call->in_place ? MPI_IN_PLACE : in;
    c->recvbuf = out;
    c->recvtype = MPI_INT64_T;
    reduction_call(*c, &share);
    for (int i = 0; share.operands && i < share.own; i++) {
        int64_t all = 0;
        for (int from = 0; from < share.operands; from++)
            all += value(call, from, 0, share.first + i);
        expect(all == out[i], call);
    }
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    static const enum operation operations[] = {
        GATHER,    GATHERV,   SCATTER, SCATTERV, ALLGATHER,      ALLGATHERV,          ALLTOALL,
        ALLTOALLV, ALLTOALLW, SCAN,    EXSCAN,   REDUCE_SCATTER, REDUCE_SCATTER_BLOCK};
    MPI_Comm comms[COMMS];
    mpi_begin(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    comms[0] = world;
    MPI_Comm_split(world, rank % 2, -rank, &comms[1]);
    MPI_Comm_dup(MPI_COMM_SELF, &comms[2]);
    MPI_Comm_split(world, 0, rank % 2 * 64 + rank, &comms[3]); /* not node by node */
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    for (int round = 0; round < rounds; round++) {
        int which = rand() % (COMMS + 2) % COMMS, size = rand() % 8, n = rand(), root = rand();
        struct call call = {.round = round, .in_place = rand() % 2};
        call.arguments.operation = operations[rand() % COUNT_OF(operations)];
        call.arguments.comm = comms[which];
        call.arguments.op = MPI_SUM;
        MPI_Comm_rank(comms[which], &call.rank);
        MPI_Comm_size(comms[which], &call.ranks);
        call.arguments.root = root % call.ranks;
        call.scale = 1 + n % (size < 4 ? 12 : size < 7 ? 400 : 9000);
        if (size == 0 && call.rank == round % 5) /* some are late, sometimes */
            usleep(200);
        (call.arguments.operation >= ALLREDUCE ? sum : move)(&call);
    }
    for (int i = 1; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Type_free(&spaced);
    return mpi_end();
}
