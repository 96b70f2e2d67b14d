/* mpi_collectives_order: reductions whose result depends on the order of the operands: NaNs of
 * different bits, zeros of both signs, equal values with different indices. Each rank's result of
 * MPI_Allreduce must have the same bits, whichever algorithm combines them. */
#include "mpi/guests/mpi_check.h"

enum { ITEMS = 6, KINDS = 5, ROUNDS = 40 };

static double nan_of(int from)
{
    uint64_t bits =
        UINT64_C(0x7ff8000000000000) | (uint64_t)(from + 1) | (uint64_t)(from % 2) << 63;
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The item i in a round. Ranks differ in what they pass. */
static double value_of(int kind, int i, int round)
{
    int which = (rank + i + round) % (ranks + 1);
    const double values[KINDS] = {which ? 1.0 : nan_of(rank), nan_of(rank), which % 2 ? 0.0 : -0.0,
                                  which ? nan_of(rank) : 1.0, which % 2};
    return values[kind];
}

static void expect_same(const void *result, size_t bytes, int kind)
{
    char all[64 * ITEMS * sizeof(double)];
    MPI_Allgather(result, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, world);
    for (int i = 0; i < ranks; i++)
        if (memcmp(all + (size_t)i * bytes, result, bytes) != 0 && wrong++ < 5)
            printf("rank %d: a result of kind %d differs from rank %d's\n", rank, kind, i);
}

static void reduce(MPI_Datatype type, MPI_Op op, int kind, int round)
{
    struct {
        float value;
        int index;
    } pairs[ITEMS];
    double doubles[ITEMS], result[ITEMS];
    float floats[ITEMS];
    const void *in = type == MPI_DOUBLE  ? (void *)doubles
                     : type == MPI_FLOAT ? (void *)floats
                                         : pairs;
    for (int i = 0; i < ITEMS; i++) {
        doubles[i] = value_of(kind, i, round);
        floats[i] = pairs[i].value = (float)doubles[i];
        pairs[i].index = rank;
    }
    MPI_Allreduce(in, result, ITEMS, type, op, world);
    expect_same(result, type == MPI_FLOAT ? sizeof(floats) : sizeof(result), kind);
}

int main(int argc, char **argv)
{
    mpi_begin(&argc, &argv);
    const MPI_Op of_numbers[] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD};
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++) {
            for (unsigned i = 0; i < COUNT_OF(of_numbers); i++) {
                reduce(MPI_DOUBLE, of_numbers[i], kind, round);
                reduce(MPI_FLOAT, of_numbers[i], kind, round);
            }
            reduce(MPI_FLOAT_INT, MPI_MAXLOC, kind, round);
            reduce(MPI_FLOAT_INT, MPI_MINLOC, kind, round);
        }
    return mpi_end();
}
