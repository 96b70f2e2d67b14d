/* mpi_collectives_random ROUNDS [SEED]: random collective operations on several communicators,
 * every result checked against what each rank computes by itself. Exit status 1: something was
 * wrong.
 *
 * mpi_collectives_random die: rank 1 exits while the others wait for it.
 * mpi_collectives_random disagree [world|copy [BARRIERS [SUMS]]]: rank 1 gives another count than
 * the others, on MPI_COMM_WORLD or a copy of it, after so many barriers and sums. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMS = 4, LARGE = 20000 };

static int wrong;

static void expect(int is_right, const char *what, int round)
{
    if (!is_right && wrong++ < 5)
        printf("round %d: %s is wrong\n", round, what);
}

/* Small, so that products and sums of all ranks stay exact. */
static int value(int rank, int i, int round)
{
    return 1 + (rank * 7 + i * 3 + round) % 3;
}

static int combined(MPI_Op op, int ranks, int i, int round)
{
    int result = value(0, i, round);
    for (int rank = 1; rank < ranks; rank++) {
        int other = value(rank, i, round);
        result = op == MPI_SUM    ? result + other
                 : op == MPI_PROD ? result * other
                 : op == MPI_MAX  ? (other > result ? other : result)
                 : op == MPI_MIN  ? (other < result ? other : result)
                 : op == MPI_BXOR ? result ^ other
                                  : (result | other);
    }
    return result;
}

struct call {
    MPI_Comm comm;
    int rank, ranks, count, root, round;
};

#define REDUCTION(name, type, mpi_type)                                                            \
    static void name(const struct call *call, MPI_Op op, int to_all, int in_place)                 \
    {                                                                                              \
        type *in = malloc(sizeof(type) * call->count), *out = calloc(call->count, sizeof(type));   \
        int gets = to_all || call->rank == call->root;                                             \
        for (int i = 0; i < call->count; i++)                                                      \
            in[i] = out[i] = (type)value(call->rank, i, call->round);                              \
        const void *given = in_place && gets ? MPI_IN_PLACE : in;                                  \
        if (to_all)                                                                                \
            MPI_Allreduce(given, out, call->count, mpi_type, op, call->comm);                      \
        else                                                                                       \
            MPI_Reduce(given, out, call->count, mpi_type, op, call->root, call->comm);             \
        for (int i = 0; gets && i < call->count; i++)                                              \
            if (out[i] != (type)combined(op, call->ranks, i, call->round)) {                       \
                expect(0, #name, call->round);                                                     \
                break;                                                                             \
            }                                                                                      \
        free(in);                                                                                  \
        free(out);                                                                                 \
    }
REDUCTION(reduce_int, int, MPI_INT)
REDUCTION(reduce_double, double, MPI_DOUBLE)
REDUCTION(reduce_short, unsigned short, MPI_UNSIGNED_SHORT)

/* The same data as every second element of a vector on some ranks, and in one piece on the others.
 */
static void broadcast(const struct call *call)
{
    int step = (call->rank + call->round) % 3 ? 1 : 2;
    int *data = calloc(2 * (size_t)call->count, sizeof(int));
    MPI_Datatype vector;
    MPI_Type_vector(call->count, 1, step, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    for (int i = 0; call->rank == call->root && i < call->count; i++)
        data[i * step] = value(call->root, i, call->round);
    if (step == 1)
        MPI_Bcast(data, call->count, MPI_INT, call->root, call->comm);
    else
        MPI_Bcast(data, 1, vector, call->root, call->comm);
    for (int i = 0; i < call->count; i++)
        if (data[i * step] != value(call->root, i, call->round)) {
            expect(0, "broadcast", call->round);
            break;
        }
    MPI_Type_free(&vector);
    free(data);
}

/* Nobody leaves a barrier before the last on its node has come: with late ones, sometimes. */
static void barrier(const struct call *call, MPI_Win win, int *rounds)
{
    MPI_Group local;
    int locals;
    MPI_Win_get_group(win, &local);
    MPI_Group_size(local, &locals);
    MPI_Group_free(&local);
    if (call->rank == call->root && call->round % 50 == 0)
        usleep(2000);
    rounds[0] = call->round;
    MPI_Win_sync(win);
    MPI_Barrier(call->comm);
    MPI_Win_sync(win);
    for (int i = 0; i < locals; i++) {
        MPI_Aint size;
        int unit, *theirs;
        MPI_Win_shared_query(win, i, &size, &unit, &theirs);
        expect(*(volatile int *)theirs >= call->round, "barrier", call->round);
    }
}

static void one(const struct call *call, MPI_Win win, int *rounds)
{
    static void (*const reductions[])(const struct call *, MPI_Op, int,
                                      int) = {reduce_int, reduce_double, reduce_short};
    MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BXOR, MPI_BOR};
    int what = rand() % 8, type = rand() % 3, op = rand() % (type == 1 ? 4 : 6);
    if (what < 2)
        barrier(call, win, rounds);
    else if (what < 4)
        broadcast(call);
    else
        reductions[type](call, ops[op], what % 2, rand() % 2);
}

static int play(int rounds, unsigned seed)
{
    MPI_Comm comms[COMMS];
    MPI_Win wins[COMMS];
    int *shown[COMMS], rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[2]);
    MPI_Comm_dup(MPI_COMM_SELF, &comms[3]);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm local;
        MPI_Comm_split_type(comms[i], MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
        MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, local, &shown[i],
                                &wins[i]);
        MPI_Win_lock_all(0, wins[i]);
        MPI_Comm_free(&local);
    }
    srand(seed);
    for (int round = 0; round < rounds; round++) {
        struct call call = {.round = round};
        int which = rand() % COMMS, size = rand() % 4, root = rand();
        call.comm = comms[which];
        MPI_Comm_rank(call.comm, &call.rank);
        MPI_Comm_size(call.comm, &call.ranks);
        call.count = size == 0 ? rand() % LARGE : size == 1 ? rand() % 300 : rand() % 16;
        call.count += !call.count; /* an empty broadcast by two types hangs in Open MPI 4.1 */
        call.root = root % call.ranks;
        /* The random numbers are equal on all ranks; a root among fewer ranks need not be. */
        one(&call, wins[which], shown[which]);
        if (round % 100 == 99) { /* communicators come and go */
            MPI_Comm made;
            MPI_Comm_dup(comms[which], &made);
            call.comm = made;
            call.count++;
            reduce_int(&call, MPI_SUM, 1, 0);
            MPI_Comm_free(&made);
        }
    }
    for (int i = 0; i < COMMS; i++) {
        MPI_Win_unlock_all(wins[i]);
        MPI_Win_free(&wins[i]);
        if (i)
            MPI_Comm_free(&comms[i]);
    }
    printf("rank %d: %d wrong\n", rank, wrong);
    return wrong != 0;
}

static int die(int rank)
{
    int one = 1, sum = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 1)
        _exit(0); /* Hydra ends all ranks where one ends by a signal */
    int result = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: %s\n", rank, result == MPI_SUCCESS ? "no error" : "an error");
    fflush(stdout);
    _exit(result == MPI_SUCCESS);
}

static int disagree(int rank, const char *of, int barriers, int sums)
{
    static char data[8192];
    int one = 1, sum;
    MPI_Comm comm = MPI_COMM_WORLD;
    if (strcmp(of, "copy") == 0)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    while (barriers--)
        MPI_Barrier(comm);
    while (sums--)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int class = MPI_SUCCESS, result = MPI_Bcast(data, rank == 1 ? 4096 : 8192, MPI_BYTE, 0, comm);
    MPI_Error_class(result, &class);
    fprintf(stderr, "rank %d: %s\n", rank, class == MPI_ERR_TRUNCATE ? "truncated" : "no error");
    MPI_Finalize(); /* a launcher kills the others when a rank ends without it */
    return 0;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *what = argc > 1 ? argv[1] : "100";
    int result = strcmp(what, "die") == 0 ? die(rank)
                 : strcmp(what, "disagree") == 0
                     ? disagree(rank, argc > 2 ? argv[2] : "world", argc > 3 ? atoi(argv[3]) : 0,
                                argc > 4 ? atoi(argv[4]) : 0)
                     : play(atoi(what), argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    MPI_Finalize();
    return result;
}
