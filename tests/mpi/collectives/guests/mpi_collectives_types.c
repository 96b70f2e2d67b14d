/* mpi_collectives_types: the predefined operations on each predefined type that has them, by
 * MPI_Allreduce. Rank 0 prints a hash of each result, or that the library refuses it: the same with
 * and without the layer. Numbers are small, so that nothing is rounded. */
#include "mpi/collectives/guests/fnv.h"
#include "mpi/guests/mpi_check.h"
#include "mpi/types/guests/mpi_types.h"

enum { ITEM_MAX = 64, COUNTS = 3 };
static const int counts[COUNTS] = {1, 9, 700};

/* ---- Items as MPI_Pack has them: without gaps ---- */

static int number_of(int i, int mask)
{
    return (1 + (rank * 7 + i * 3) % 5) & mask;
}

static void put_real(char *to, int size, int number)
{
    float single = (float)number;
    double two = number;
    long double more = number;
    memcpy(to, size == 4 ? (void *)&single : size == 8 ? (void *)&two : &more, (size_t)size);
}

static int is_real(const struct type_row *row)
{
    return row->kind == REAL || row->kind == COMPLEX;
}

static void pack_item(const struct type_row *row, char *to, int size, int i)
{
    int mask = row->kind == TRUTH ? TRUTH_MASK : 7, half = row->kind == COMPLEX ? size / 2 : 0;
    memset(to, 0, (size_t)size);
    if (is_real(row)) {
        put_real(to, half ? half : size, number_of(i, mask));
        if (half)
            put_real(to + half, half, number_of(i + 1, mask));
        return;
    }
    to[0] = (char)number_of(i, mask);
    if (row->kind == PAIR) /* the index, or the second number, is no larger than the first */
        to[strstr(row->name, "2DOUBLE") ? size / 2 : size - 4] = (char)rank;
}

/* Ten bytes of a long double count. */
static int counts_in_hash(const struct type_row *row, int size, int at)
{
    int is_long = strstr(row->name, "LONG_DOUBLE") != NULL, within = at % size;
    return !is_long || (row->kind == PAIR && within >= 16) || within % 16 < 10;
}

static uint64_t hash(const struct type_row *row, const char *items, int size, int count)
{
    uint64_t hash = FNV_SEED;
    for (int at = 0; at < size * count; at++)
        if (counts_in_hash(row, size, at))
            hash = fnv(hash, &items[at], 1);
    return hash;
}

static void reduce(const struct type_row *row, const struct operation_row *operation, int count)
{
    int size, place = 0;
    MPI_Aint low, extent;
    MPI_Type_size(row->type, &size);
    MPI_Type_get_extent(row->type, &low, &extent);
    char *packed = calloc((size_t)count + 1, ITEM_MAX), *in = calloc((size_t)count, (size_t)extent),
         *out = calloc((size_t)count, (size_t)extent);
    for (int i = 0; i < count; i++)
        pack_item(row, packed + i * size, size, i);
    MPI_Unpack(packed, size * count, &place, in, count, row->type, MPI_COMM_SELF);
    int result = MPI_Allreduce(in, out, count, row->type, operation->op, world);
    memset(packed, 0, (size_t)size * (size_t)count);
    place = 0;
    MPI_Pack(out, count, row->type, packed, size * count, &place, MPI_COMM_SELF);
    if (rank == 0 && result == MPI_SUCCESS)
        printf("%s of %d %s: %016llx\n", operation->name, count, row->name,
               (unsigned long long)hash(row, packed, size, count));
    else if (rank == 0)
        printf("%s of %d %s: refused\n", operation->name, count, row->name);
    free(packed);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    struct type_row types[TYPES_MAX];
    struct operation_row ops[OPS];
    mpi_begin(&argc, &argv);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    find_operations(ops);
    for (int i = 0, count = find_types(types); i < count; i++)
        for (int k = 0; k < OPS * COUNTS; k++)
            if (types[i].kind & ops[k / COUNTS].kind & ~MOVE)
                reduce(&types[i], &ops[k / COUNTS], counts[k % COUNTS]);
    MPI_Finalize();
    return 0;
}
