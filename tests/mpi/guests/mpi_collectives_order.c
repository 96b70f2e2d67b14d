/* mpi_collectives_order: reductions whose result depends on the order of the operands: NaNs of
 * different bits, zeros of both signs, equal values with different indices. Each rank's result of
 * MPI_Allreduce must have the same bits, whichever algorithm combines them. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 6, KINDS = 5, ROUNDS = 40 };

static int rank, ranks, wrong;

static double nan_of(int from)
{
    uint64_t bits =
        UINT64_C(0x7ff8000000000000) | (uint64_t)(from + 1) | (uint64_t)(from % 2) << 63;
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Of the item i in a round. Ranks differ in what they give. */
static double value_of(int kind, int i, int round)
{
    int which = (rank + i + round) % (ranks + 1);
    switch (kind) {
    case 0:
        return which ? 1.0 : nan_of(rank);
    case 1:
        return nan_of(rank);
    case 2:
        return which % 2 ? 0.0 : -0.0;
    case 3:
        return which ? nan_of(rank) : 1.0;
    default:
        return (double)(which % 2);
    }
}

static void expect_same(const void *mine, size_t bytes, const char *what, int kind)
{
    char *all = malloc(bytes * (size_t)ranks);
    MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        if (memcmp(all + (size_t)i * bytes, mine, bytes) != 0 && wrong++ < 5)
            printf("rank %d: %s of kind %d differs from rank %d's\n", rank, what, kind, i);
    free(all);
}

static void try_doubles(MPI_Op op, const char *name, int kind, int round)
{
    double give[ITEMS], get[ITEMS];
    float give_short[ITEMS], get_short[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        give_short[i] = (float)(give[i] = value_of(kind, i, round));
    MPI_Allreduce(give, get, ITEMS, MPI_DOUBLE, op, MPI_COMM_WORLD);
    expect_same(get, sizeof(get), name, kind);
    MPI_Allreduce(give_short, get_short, ITEMS, MPI_FLOAT, op, MPI_COMM_WORLD);
    expect_same(get_short, sizeof(get_short), name, kind);
}

static void try_pairs(MPI_Op op, const char *name, int kind, int round)
{
    struct {
        float value;
        int index;
    } give[ITEMS], get[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        give[i].value = (float)value_of(kind, i, round);
        give[i].index = rank;
    }
    MPI_Allreduce(give, get, ITEMS, MPI_FLOAT_INT, op, MPI_COMM_WORLD);
    expect_same(get, sizeof(get), name, kind);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++) {
            try_doubles(MPI_MAX, "MPI_MAX", kind, round);
            try_doubles(MPI_MIN, "MPI_MIN", kind, round);
            try_doubles(MPI_SUM, "MPI_SUM", kind, round);
            try_doubles(MPI_PROD, "MPI_PROD", kind, round);
            try_pairs(MPI_MAXLOC, "MPI_MAXLOC", kind, round);
            try_pairs(MPI_MINLOC, "MPI_MINLOC", kind, round);
        }
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
