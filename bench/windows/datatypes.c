/* bench/windows/datatypes.c: one-sided calls with derived datatypes, from rank 0 to rank 1.
 *
 * datatypes names
 *
 * "NUMBER NAME" of each type.
 *
 * datatypes [-n TIMES] [NUMBER...]
 *
 * "CALL-SIDE NUMBER SECONDS" for each type: the median time of a call with its flush. SIDE is where
 * the type is: target, origin or both; the other side has as many doubles in a row. fresh: at the
 * target, and made for each call, with its commit and free. */
#include <mpi.h>

#include "../lib/bench.h"

enum { ROWS = 1000, WIDTH = 10000, BLOCKS = 1000, WARM_UP = 3 };

static const char *const names[] = {
    "contiguous 1000",
    "vector 100 x 10 of 2000",
    "vector 1000 x 10 of 10000",
    "vector 1000 x 1 of 2",
    "vector 8 x 1 of 16",
    "vector 2 x 2 of 4",
    "vector 10 x 500 of 600",
    "hvector 50 x 3 of 100",
    "indexed 100 of 1 to 8",
    "indexed 1000 of 1",
    "indexed block 200 x 4",
    "hindexed block 50 x 16",
    "struct of three arrays",
    "subarray 100 x 100 of 200 x 200",
    "subarray 10 x 20 x 30 of 40 x 40 x 40",
    "subarray face of 40 x 40 x 40",
    "darray block x block",
    "darray cyclic x cyclic",
    "50 resized vectors",
    "vector of vectors",
    "indexed of subarrays",
    "dup of contiguous 4",
};
enum { TYPES = sizeof(names) / sizeof(names[0]) };

enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, CALLS };
static const char *const call_names[] = {"put", "get", "accumulate", "get_accumulate"};
enum { TARGET, ORIGIN, BOTH, FRESH, SIDES };
static const char *const side_names[] = {"target", "origin", "both", "fresh"};

static int rank, times = 200;
static double *base, *origin, *result;
static MPI_Win window;

static MPI_Datatype blocks_of(int count, int most, int distance)
{
    static int lengths[BLOCKS], displs[BLOCKS];
    MPI_Datatype type;
    for (int i = 0; i < count; i++) {
        lengths[i] = 1 + i * 5 % most;
        displs[i] = i * distance + i * 7 % 3;
    }
    MPI_Type_indexed(count, lengths, displs, MPI_DOUBLE, &type);
    return type;
}

static MPI_Datatype equal_blocks(int count, int length, int is_bytes)
{
    static int displs[BLOCKS];
    static MPI_Aint addresses[BLOCKS];
    MPI_Datatype type;
    for (int i = 0; i < count; i++) {
        displs[i] = i * (length + 3) + i * 7 % 3;
        addresses[i] = displs[i] * (MPI_Aint)sizeof(double);
    }
    if (is_bytes)
        MPI_Type_create_hindexed_block(count, length, addresses, MPI_DOUBLE, &type);
    else
        MPI_Type_create_indexed_block(count, length, displs, MPI_DOUBLE, &type);
    return type;
}

static MPI_Datatype part_of_cube(int x, int y, int z)
{
    MPI_Datatype type;
    MPI_Type_create_subarray(3, (int[]){40, 40, 40}, (int[]){x, y, z}, (int[]){3, 4, 5},
                             MPI_ORDER_C, MPI_DOUBLE, &type);
    return type;
}

static MPI_Datatype share(int kind, int block)
{
    MPI_Datatype type;
    MPI_Type_create_darray(4, 1, 2, (int[]){200, 200}, (int[]){kind, kind}, (int[]){block, block},
                           (int[]){2, 2}, MPI_ORDER_C, MPI_DOUBLE, &type);
    return type;
}

static MPI_Datatype vector(MPI_Datatype inner, int count, int length, int stride)
{
    MPI_Datatype type;
    MPI_Type_vector(count, length, stride, inner, &type);
    return type;
}

static MPI_Datatype resized_vector(void)
{
    MPI_Datatype inner = vector(MPI_DOUBLE, 4, 2, 3), type;
    MPI_Type_create_resized(inner, 0, 16 * (MPI_Aint)sizeof(double), &type);
    MPI_Type_free(&inner);
    return type;
}

static MPI_Datatype nested(int which)
{
    MPI_Datatype inner, type;
    if (which == 19) {
        inner = vector(MPI_DOUBLE, 4, 2, 3);
        type = vector(inner, 20, 1, 2);
    } else if (which == 20) {
        MPI_Type_create_subarray(2, (int[]){8, 8}, (int[]){4, 4}, (int[]){2, 2}, MPI_ORDER_C,
                                 MPI_DOUBLE, &inner);
        MPI_Type_indexed(4, (int[]){1, 2, 1, 3}, (int[]){0, 2, 7, 9}, inner, &type);
    } else {
        MPI_Type_contiguous(4, MPI_DOUBLE, &inner);
        MPI_Type_dup(inner, &type);
    }
    MPI_Type_free(&inner);
    return type;
}

static MPI_Datatype make(int which)
{
    MPI_Datatype type;
    switch (which) {
    case 0:
        MPI_Type_contiguous(1000, MPI_DOUBLE, &type);
        return type;
    case 1:
        return vector(MPI_DOUBLE, 100, 10, 2000);
    case 2:
        return vector(MPI_DOUBLE, ROWS, 10, WIDTH);
    case 3:
        return vector(MPI_DOUBLE, 1000, 1, 2);
    case 4:
        return vector(MPI_DOUBLE, 8, 1, 16);
    case 5:
        return vector(MPI_DOUBLE, 2, 2, 4);
    case 6:
        return vector(MPI_DOUBLE, 10, 500, 600);
    case 7:
        MPI_Type_create_hvector(50, 3, 100 * (MPI_Aint)sizeof(double), MPI_DOUBLE, &type);
        return type;
    case 8:
        return blocks_of(100, 8, 12);
    case 9:
        return blocks_of(1000, 1, 5);
    case 10:
        return equal_blocks(200, 4, 0);
    case 11:
        return equal_blocks(50, 16, 1);
    case 12:
        MPI_Type_create_struct(3, (int[]){100, 20, 50}, (MPI_Aint[]){0, 2000, 8000},
                               (MPI_Datatype[]){MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE}, &type);
        return type;
    case 13:
        MPI_Type_create_subarray(2, (int[]){200, 200}, (int[]){100, 100}, (int[]){50, 50},
                                 MPI_ORDER_C, MPI_DOUBLE, &type);
        return type;
    case 14:
        return part_of_cube(10, 20, 30);
    case 15:
        return part_of_cube(30, 30, 1);
    case 16:
        return share(MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG);
    case 17:
        return share(MPI_DISTRIBUTE_CYCLIC, 4);
    case 18:
        return resized_vector();
    default:
        return nested(which);
    }
}

static int count_of(int which)
{
    return which == 18 ? 50 : 1;
}

static void do_call(int call, int origin_count, MPI_Datatype origin_type, int count,
                    MPI_Datatype type)
{
    if (call == PUT)
        MPI_Put(origin, origin_count, origin_type, 1, 0, count, type, window);
    else if (call == GET)
        MPI_Get(result, origin_count, origin_type, 1, 0, count, type, window);
    else if (call == ACCUMULATE)
        MPI_Accumulate(origin, origin_count, origin_type, 1, 0, count, type, MPI_SUM, window);
    else
        MPI_Get_accumulate(origin, origin_count, origin_type, result, origin_count, origin_type, 1,
                           0, count, type, MPI_SUM, window);
    MPI_Win_flush(1, window);
}

static double time_once(int call, int side, int which, MPI_Datatype made)
{
    int size, count = count_of(which);
    MPI_Datatype type = made;
    double start = MPI_Wtime();
    if (side == FRESH) {
        type = make(which);
        MPI_Type_commit(&type);
    }
    MPI_Type_size(type, &size);
    int doubles = count * size / (int)sizeof(double);
    if (side == BOTH)
        do_call(call, count, type, count, type);
    else if (side == ORIGIN)
        do_call(call, count, type, doubles, MPI_DOUBLE);
    else
        do_call(call, doubles, MPI_DOUBLE, count, type);
    if (side == FRESH)
        MPI_Type_free(&type);
    return MPI_Wtime() - start;
}

static void measure(int which)
{
    double *samples = bench_allocate((size_t)times * sizeof(double));
    MPI_Datatype type = make(which);
    MPI_Type_commit(&type);
    for (int call = 0; call < CALLS; call++)
        for (int side = 0; side < SIDES; side++) {
            for (int i = -WARM_UP; i < times; i++)
                samples[i < 0 ? 0 : i] = time_once(call, side, which, type);
            printf("%s-%s %d %.9f\n", call_names[call], side_names[side], which,
                   bench_median(samples, times));
        }
    MPI_Type_free(&type);
    free(samples);
}

static void *filled(size_t count)
{
    double *values = bench_allocate(count * sizeof(double));
    for (size_t i = 0; i < count; i++)
        values[i] = 1;
    return values;
}

int main(int argc, char **argv)
{
    const size_t room = (size_t)ROWS * WIDTH;
    if (argc > 1 && strcmp(argv[1], "names") == 0) {
        for (int i = 0; i < TYPES; i++)
            printf("%d %s\n", i, names[i]);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int option; (option = getopt(argc, argv, "n:")) != -1;)
        if (option != 'n' || (times = atoi(optarg)) < 1)
            MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Win_allocate((MPI_Aint)(rank == 1 ? room * sizeof(double) : 0), sizeof(double),
                     MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    if (rank == 1)
        memset(base, 0, room * sizeof(double));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        origin = filled(room);
        result = filled(room);
        MPI_Win_lock_all(0, window);
        for (int i = 0; optind == argc && i < TYPES; i++)
            measure(i);
        for (int i = optind; i < argc; i++)
            if (atoi(argv[i]) >= 0 && atoi(argv[i]) < TYPES)
                measure(atoi(argv[i]));
        MPI_Win_unlock_all(window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&window);
    free(origin);
    free(result);
    MPI_Finalize();
    return 0;
}
