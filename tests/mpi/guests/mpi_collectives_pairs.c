/* mpi_collectives_pairs ROUNDS [SEED]: random reductions of pairs, most of which have gaps, by
 * MPI_MINLOC and MPI_MAXLOC, each checked against what a rank computes by itself. Nothing is
 * written into gaps. Exit status 1: something was wrong. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64, GAP = 0x5a };
enum { ALLREDUCE, REDUCE, SCAN, EXSCAN, SCATTER, SCATTER_BLOCK, CALLS };
static const char *const names[] = {"Allreduce", "Reduce",         "Scan",
                                    "Exscan",    "Reduce_scatter", "Reduce_scatter_block"};

static int wrong, rank, ranks;

struct call {
    int round, what, root, in_place, count;
    MPI_Op op;
    int counts[MOST_RANKS];         /* of the calls that scatter */
    int all, first, mine, operands; /* items given; got, of the first so many ranks */
};

static void set_parts(struct call *call)
{
    call->all = call->mine = call->count;
    call->first = 0;
    call->operands = call->what == SCAN                           ? rank + 1
                     : call->what == EXSCAN                       ? rank
                     : call->what == REDUCE && rank != call->root ? 0
                                                                  : ranks;
    if (call->what < SCATTER)
        return;
    call->all = 0;
    for (int i = 0; i < ranks; i++) {
        call->counts[i] =
            call->what == SCATTER ? (i + call->round) % 3 * (call->count / 2 + 1) : call->count;
        call->all += call->counts[i];
        call->first += i < rank ? call->counts[i] : 0;
    }
    call->mine = call->counts[rank];
}

static void run(const struct call *call, const void *in, void *out, MPI_Datatype type)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    int count = call->count;
    switch (call->what) {
    case ALLREDUCE:
        MPI_Allreduce(in, out, count, type, call->op, comm);
        return;
    case REDUCE:
        MPI_Reduce(in, out, count, type, call->op, call->root, comm);
        return;
    case SCAN:
        MPI_Scan(in, out, count, type, call->op, comm);
        return;
    case EXSCAN:
        MPI_Exscan(in, out, count, type, call->op, comm);
        return;
    case SCATTER:
        MPI_Reduce_scatter(in, out, call->counts, type, call->op, comm);
        return;
    default:
        MPI_Reduce_scatter_block(in, out, count, type, call->op, comm);
    }
}

static int value_of(const struct call *call, int of, int i)
{
    return (of * 3 + i * 5 + call->round) % 7;
}

/* The rank whose value is the result; the lowest of equals, which has the lowest index. */
static int best_of(const struct call *call, int i)
{
    int best = 0;
    for (int other = 1; other < call->operands; other++) {
        int one = value_of(call, best, i), two = value_of(call, other, i);
        best = (call->op == MPI_MAXLOC ? two > one : two < one) ? other : best;
    }
    return best;
}

/* The bytes from `begin` to `end` of each of `count` items. */
static int are_gaps(const void *items, int count, size_t size, size_t begin, size_t end)
{
    const unsigned char *bytes = items;
    for (int i = 0; i < count; i++)
        for (size_t at = begin; at < end; at++)
            if (bytes[(size_t)i * size + at] != GAP)
                return 0;
    return 1;
}

static void expect(const struct call *call, int is_right, const char *what)
{
    if (!is_right && wrong++ < 5)
        printf("round %d, rank %d of %d: %s of %d %s is wrong\n", call->round, rank, ranks,
               names[call->what], call->count, what);
}

/* MPICH 4.0.2 crashes where another root than rank 0 reduces in place. */
#define PAIR(name, value_type, mpi_type)                                                           \
    static void name(const struct call *call)                                                      \
    {                                                                                              \
        struct pair {                                                                              \
            value_type value;                                                                      \
            int index;                                                                             \
        };                                                                                         \
        int in_place = call->in_place && (call->what != REDUCE || (call->root | rank) == 0);       \
        int is_right = 1, all = call->all, i;                                                      \
        size_t size = sizeof(struct pair), behind = offsetof(struct pair, index) + sizeof(int);    \
        struct pair *in = malloc(size * (size_t)(all + 1)),                                        \
                    *out = malloc(size * (size_t)(all + 1));                                       \
        memset(in, GAP, size *(size_t)(all + 1));                                                  \
        memset(out, GAP, size *(size_t)(all + 1));                                                 \
        for (i = 0; i < all; i++) {                                                                \
            struct pair *to = in_place ? &out[i] : &in[i];                                         \
            to->value = (value_type)value_of(call, rank, i);                                       \
            to->index = rank * 1000 + i % 1000;                                                    \
        }                                                                                          \
        run(call, in_place ? MPI_IN_PLACE : in, out, mpi_type);                                    \
        for (i = 0; call->operands && i < call->mine; i++) {                                       \
            int at = call->first + i, best = best_of(call, at);                                    \
            is_right &= out[i].value == (value_type)value_of(call, best, at) &&                    \
                        out[i].index == best * 1000 + at % 1000;                                   \
        }                                                                                          \
        expect(call, is_right, #name);                                                             \
        is_right = are_gaps(out, all, size, sizeof(value_type), offsetof(struct pair, index)) &&   \
                   are_gaps(out, all, size, behind, size) &&                                       \
                   are_gaps(in, all, size, behind, size) && are_gaps(&out[all], 1, size, 0, size); \
        expect(call, is_right, "gaps of " #name);                                                  \
        free(in);                                                                                  \
        free(out);                                                                                 \
    }
PAIR(pairs_of_float, float, MPI_FLOAT_INT)
PAIR(pairs_of_double, double, MPI_DOUBLE_INT)
PAIR(pairs_of_long, long, MPI_LONG_INT)
PAIR(pairs_of_int, int, MPI_2INT)
PAIR(pairs_of_short, short, MPI_SHORT_INT)
PAIR(pairs_of_long_double, long double, MPI_LONG_DOUBLE_INT)

int main(int argc, char **argv)
{
    static void (*const pairs[])(const struct call *) = {pairs_of_float, pairs_of_double,
                                                         pairs_of_long,  pairs_of_int,
                                                         pairs_of_short, pairs_of_long_double};
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    for (int round = 0; round < rounds; round++) {
        int size = rand() % 4, n = rand(), root = rand(), type = rand() % 6;
        struct call call = {.round = round,
                            .what = rand() % CALLS,
                            .in_place = rand() % 2,
                            .root = root % ranks,
                            .op = rand() % 2 ? MPI_MINLOC : MPI_MAXLOC};
        call.count = 1 + n % (size < 2 ? 10 : size < 3 ? 400 : 9000);
        set_parts(&call);
        pairs[type](&call);
    }
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
