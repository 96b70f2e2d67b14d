/* mpi_collectives_random ROUNDS [SEED]: random barriers, broadcasts and reductions on several
 * communicators, every result checked against what each rank computes by itself. Exit status 1:
 * something was wrong. */
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

enum { COMMS = 4, LARGE = 20000 };

struct call {
    MPI_Comm comm;
    int rank, ranks, count, root, round;
};

static void expect(int is_right, const char *what, const struct call *call)
{
    if (!is_right && wrong++ < 5)
        printf("round %d: %s is wrong\n", call->round, what);
}

/* Small, so that products and sums of all ranks stay exact. */
static int value(const struct call *call, int from, int i)
{
    return 1 + (from * 7 + i * 3 + call->round) % 3;
}

static int combined(const struct call *call, MPI_Op op, int i)
{
    int result = value(call, 0, i);
    for (int from = 1; from < call->ranks; from++) {
        int other = value(call, from, i);
        result = op == MPI_SUM    ? result + other
                 : op == MPI_PROD ? result * other
                 : op == MPI_MAX  ? (other > result ? other : result)
                 : op == MPI_MIN  ? (other < result ? other : result)
                 : op == MPI_BXOR ? result ^ other
                                  : (result | other);
    }
    return result;
}

#define REDUCTION(name, type, mpi_type)                                                            \
    static void name(const struct call *call, MPI_Op op, int to_all, int in_place)                 \
    {                                                                                              \
        type *in = malloc(sizeof(type) * call->count), *out = calloc(call->count, sizeof(type));   \
        int gets = to_all || call->rank == call->root, is_right = 1;                               \
        for (int i = 0; i < call->count; i++)                                                      \
            in[i] = out[i] = (type)value(call, call->rank, i);                                     \
        const void *given = in_place && gets ? MPI_IN_PLACE : in;                                  \
        if (to_all)                                                                                \
            MPI_Allreduce(given, out, call->count, mpi_type, op, call->comm);                      \
        else                                                                                       \
            MPI_Reduce(given, out, call->count, mpi_type, op, call->root, call->comm);             \
        for (int i = 0; gets && i < call->count; i++)                                              \
            is_right &= out[i] == (type)combined(call, op, i);                                     \
        expect(is_right, #name, call);                                                             \
        free(in);                                                                                  \
        free(out);                                                                                 \
    }
REDUCTION(reduce_int, int, MPI_INT)
REDUCTION(reduce_double, double, MPI_DOUBLE)
REDUCTION(reduce_short, unsigned short, MPI_UNSIGNED_SHORT)

/* The same data as every second element of a vector on some ranks, and in one piece on others. */
static void broadcast(const struct call *call)
{
    int step = (call->rank + call->round) % 3 ? 1 : 2, is_right = 1;
    int *data = calloc(2 * (size_t)call->count, sizeof(int));
    MPI_Datatype vector;
    MPI_Type_vector(call->count, 1, step, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    for (int i = 0; call->rank == call->root && i < call->count; i++)
        data[i * step] = value(call, call->root, i);
    if (step == 1)
        MPI_Bcast(data, call->count, MPI_INT, call->root, call->comm);
    else
        MPI_Bcast(data, 1, vector, call->root, call->comm);
    for (int i = 0; i < call->count; i++)
        is_right &= data[i * step] == value(call, call->root, i);
    expect(is_right, "broadcast", call);
    MPI_Type_free(&vector);
    free(data);
}

/* No rank leaves a barrier before the last on its node has entered: with late ones, sometimes. */
static void barrier(const struct call *call, MPI_Win win, int *entered)
{
    MPI_Group local;
    int locals;
    MPI_Win_get_group(win, &local);
    MPI_Group_size(local, &locals);
    MPI_Group_free(&local);
    if (call->rank == call->root && call->round % 50 == 0)
        usleep(2000);
    *entered = call->round;
    MPI_Win_sync(win);
    MPI_Barrier(call->comm);
    MPI_Win_sync(win);
    for (int i = 0; i < locals; i++)
        expect(*(volatile int *)part_of(win, i) >= call->round, "barrier", call);
}

static void call_any(const struct call *call, MPI_Win win, int *entered)
{
    static void (*const reductions[])(const struct call *, MPI_Op, int,
                                      int) = {reduce_int, reduce_double, reduce_short};
    MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BXOR, MPI_BOR};
    int what = rand() % 8, type = rand() % 3, op = rand() % (type == 1 ? 4 : 6);
    if (what < 2)
        barrier(call, win, entered);
    else if (what < 4)
        broadcast(call);
    else
        reductions[type](call, ops[op], what % 2, rand() % 2);
}

int main(int argc, char **argv)
{
    MPI_Comm comms[COMMS];
    MPI_Win wins[COMMS];
    int *entered[COMMS];
    mpi_begin(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    comms[0] = world;
    MPI_Comm_dup(world, &comms[1]);
    MPI_Comm_split(world, rank % 2, -rank, &comms[2]);
    MPI_Comm_dup(MPI_COMM_SELF, &comms[3]);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm local;
        MPI_Comm_split_type(comms[i], MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
        MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, local, &entered[i],
                                &wins[i]);
        MPI_Win_lock_all(0, wins[i]);
        MPI_Comm_free(&local);
    }
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    for (int round = 0; round < rounds; round++) {
        int which = rand() % COMMS, size = rand() % 4, root = rand();
        struct call call = {.comm = comms[which], .round = round};
        MPI_Comm_rank(call.comm, &call.rank);
        MPI_Comm_size(call.comm, &call.ranks);
        call.count = size == 0 ? rand() % LARGE : size == 1 ? rand() % 300 : rand() % 16;
        call.count += !call.count; /* an empty broadcast by two types hangs in Open MPI 4.1 */
        call.root = root % call.ranks;
        /* The random numbers are equal on all ranks; a root among fewer ranks need not be. */
        call_any(&call, wins[which], entered[which]);
        if (round % 100 == 99) { /* communicators come and go */
            MPI_Comm_dup(comms[which], &call.comm);
            call.count++;
            reduce_int(&call, MPI_SUM, 1, 0);
            MPI_Comm_free(&call.comm);
        }
    }
    for (int i = 0; i < COMMS; i++) {
        MPI_Win_unlock_all(wins[i]);
        MPI_Win_free(&wins[i]);
        if (i)
            MPI_Comm_free(&comms[i]);
    }
    return mpi_end();
}
