/* mpi_collectives_pairs ROUNDS [SEED]: random reductions of pairs, most of which have gaps, by
 * MPI_MINLOC and MPI_MAXLOC, each checked against what a rank computes by itself. Nothing is
 * written into gaps. Exit status 1: something was wrong. */
#include <stddef.h>

#include "mpi/collectives/guests/collective.h"

enum { GAP = 0x5a };

struct call {
    struct collective arguments;
    struct share share;
    int round, in_place;
};

static int value_of(const struct call *call, int of, int i)
{
    return (of * 3 + i * 5 + call->round) % 7;
}

/* The rank whose value is the result; the lowest of equals, which has the lowest index. */
static int best_of(const struct call *call, int i)
{
    int best = 0;
    for (int other = 1; other < call->share.operands; other++) {
        int value = value_of(call, best, i), other_value = value_of(call, other, i);
        int is_better =
            call->arguments.op == MPI_MAXLOC ? other_value > value : other_value < value;
        best = is_better ? other : best;
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
               operation_names[call->arguments.operation], call->arguments.recvcount, what);
}

#define PAIR(name, value_type, mpi_type)                                                           \
    static void name(struct call *call)                                                            \
    {                                                                                              \
        struct pair {                                                                              \
            value_type value;                                                                      \
            int index;                                                                             \
        };                                                                                         \
        const struct share *share = &call->share;                                                  \
        int is_right = 1, all = share->all, i;                                                     \
        size_t size = sizeof(struct pair), behind = offsetof(struct pair, index) + sizeof(int);    \
        struct pair *in = malloc(size * (size_t)(all + 1)),                                        \
                    *out = malloc(size * (size_t)(all + 1));                                       \
        memset(in, GAP, size *(size_t)(all + 1));                                                  \
        memset(out, GAP, size *(size_t)(all + 1));                                                 \
        for (i = 0; i < all; i++) {                                                                \
            struct pair *to = call->in_place ? &out[i] : &in[i];                                   \
            to->value = (value_type)value_of(call, rank, i);                                       \
            to->index = rank * 1000 + i % 1000;                                                    \
        }                                                                                          \
        call->arguments.recvtype = mpi_type;                                                       \
        call->arguments.sendbuf = call->in_place ? MPI_IN_PLACE : in;                              \
        call->arguments.recvbuf = out;                                                             \
        reduction_call(call->arguments, share);                                                    \
        for (i = 0; share->operands && i < share->own; i++) {                                      \
            int at = share->first + i, best = best_of(call, at);                                   \
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
    static void (*const pairs[])(struct call *) = {pairs_of_float, pairs_of_double,
                                                   pairs_of_long,  pairs_of_int,
                                                   pairs_of_short, pairs_of_long_double};
    mpi_begin(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    for (int round = 0; round < rounds; round++) {
        int size = rand() % 4, n = rand(), type = rand() % 6;
        struct call call = {.round = round};
        call.arguments = collective_of(ALLREDUCE + rand() % 6,
                                       1 + n % (size < 2   ? 10
                                                : size < 3 ? 400
                                                           : 9000),
                                       MPI_DATATYPE_NULL, NULL, NULL);
        call.arguments.root = rand() % ranks;
        call.arguments.op = rand() % 2 ? MPI_MINLOC : MPI_MAXLOC;
        call.share = share_of(&call.arguments, rank, ranks, round);
        /* MPICH 4.0.2 crashes where another root than rank 0 reduces in place. */
        call.in_place =
            rand() % 2 && (call.arguments.operation != REDUCE || (call.arguments.root | rank) == 0);
        pairs[type](&call);
    }
    return mpi_end();
}
