/* tests/mpi/guests/mpi_datatypes.c: every constructor of datatypes, on both sides of every kind of
 * one-sided call, on windows of MPI_Win_allocate. What must come of it is computed by MPI_Pack and
 * MPI_Unpack. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AREA = 1 << 16, MIDDLE = AREA / 2 };

static int rank, ranks, wrong;
static char *base; /* of this rank's part */
static char origin[AREA], result[AREA], expected[AREA], wanted[AREA];
static MPI_Win window;

/* ---- Types: each has 1, 2, 3, 4, 6, 8, 12 or 24 elements ---- */

static MPI_Aint extent_of(MPI_Datatype type)
{
    MPI_Aint lower, extent;
    MPI_Type_get_extent(type, &lower, &extent);
    return extent;
}

static MPI_Datatype vector_of(MPI_Datatype type, int count, int length, int stride)
{
    MPI_Datatype made;
    MPI_Type_vector(count, length, stride, type, &made);
    return made;
}

static MPI_Datatype resized(MPI_Datatype type, MPI_Aint lower, MPI_Aint extent)
{
    MPI_Datatype made;
    MPI_Type_create_resized(type, lower, extent, &made);
    MPI_Type_free(&type);
    return made;
}

static MPI_Datatype array_of(MPI_Datatype type, int dimensions, const int *sizes, const int *parts,
                             const int *starts, int order)
{
    MPI_Datatype made;
    MPI_Type_create_subarray(dimensions, sizes, parts, starts, order, type, &made);
    return made;
}

static MPI_Datatype share_of(MPI_Datatype type, int which, const int *kinds, const int *blocks,
                             int order)
{
    MPI_Datatype made;
    MPI_Type_create_darray(4, which, 2, (int[]){7, 9}, kinds, blocks, (int[]){2, 2}, order, type,
                           &made);
    return made;
}

/* Of struct constructors with inner types of several kinds. */
static MPI_Datatype structure_of(MPI_Datatype type, MPI_Aint unit)
{
    MPI_Datatype made, inner = vector_of(type, 2, 2, 3);
    MPI_Type_create_struct(3, (int[]){2, 0, 1}, (MPI_Aint[]){-2 * unit, 0, 5 * unit},
                           (MPI_Datatype[]){type, inner, inner}, &made);
    MPI_Type_free(&inner);
    return made;
}

static MPI_Datatype deep(MPI_Datatype type)
{
    MPI_Datatype made;
    MPI_Type_dup(type, &made);
    for (int i = 0; i < 12; i++) {
        int size = (int)(extent_of(made) / extent_of(type));
        MPI_Datatype inner = made;
        made = i % 4 ? resized(vector_of(inner, 1, 1, 1), 0, (size + 1) * extent_of(type))
                     : vector_of(inner, 2, 1, i < 8 ? 2 : 1);
        MPI_Type_free(&inner);
    }
    return made;
}

/* Constructors with large counts, where MPI has them. */
static MPI_Datatype make_large(int i, MPI_Datatype type, MPI_Aint unit)
{
    MPI_Datatype made = MPI_DATATYPE_NULL;
#if MPI_VERSION >= 4
    int block = MPI_DISTRIBUTE_BLOCK, cyclic = MPI_DISTRIBUTE_CYCLIC;
    int any = MPI_DISTRIBUTE_DFLT_DARG;
    switch (i) {
    case 0:
        MPI_Type_vector_c(3, 2, 4, type, &made);
        break;
    case 1:
        MPI_Type_create_hvector_c(3, 2, 4 * unit, type, &made);
        break;
    case 2:
        MPI_Type_indexed_c(2, (MPI_Count[]){1, 3}, (MPI_Count[]){5, -4}, type, &made);
        break;
    case 3:
        MPI_Type_create_hindexed_c(2, (MPI_Count[]){1, 3}, (MPI_Count[]){5 * unit, unit}, type,
                                   &made);
        break;
    case 4:
        MPI_Type_create_indexed_block_c(2, 3, (MPI_Count[]){5, -4}, type, &made);
        break;
    case 5:
        MPI_Type_create_hindexed_block_c(2, 3, (MPI_Count[]){5 * unit, -unit * 4}, type, &made);
        break;
    case 6:
        MPI_Type_create_struct_c(2, (MPI_Count[]){2, 1}, (MPI_Count[]){unit * 4, 0},
                                 (MPI_Datatype[]){type, type}, &made);
        break;
    case 7:
        MPI_Type_create_subarray_c(2, (MPI_Count[]){4, 5}, (MPI_Count[]){2, 3}, (MPI_Count[]){1, 2},
                                   MPI_ORDER_C, type, &made);
        break;
    case 8:
        MPI_Type_create_darray_c(4, 1, 2, (MPI_Count[]){6, 8}, (int[]){block, cyclic},
                                 (int[]){any, 2}, (int[]){2, 2}, MPI_ORDER_FORTRAN, type, &made);
        break;
    case 9:
        MPI_Type_contiguous_c(4, type, &made);
        break;
    case 10:
        MPI_Type_create_resized_c(type, -unit, 3 * unit, &made);
        break;
    default:
        break;
    }
#else
    (void)i, (void)type, (void)unit;
#endif
    return made;
}

/* Type number i; MPI_DATATYPE_NULL behind the last. */
static MPI_Datatype make(int i, MPI_Datatype type)
{
    MPI_Datatype made = MPI_DATATYPE_NULL, inner;
    MPI_Aint unit = extent_of(type);
    int block = MPI_DISTRIBUTE_BLOCK, cyclic = MPI_DISTRIBUTE_CYCLIC, none = MPI_DISTRIBUTE_NONE;
    int any = MPI_DISTRIBUTE_DFLT_DARG;
    switch (i) {
    case 0:
        MPI_Type_dup(type, &made);
        return made;
    case 1:
        MPI_Type_contiguous(6, type, &made);
        return made;
    case 2:
        return vector_of(type, 4, 3, 7);
    case 3:
        return vector_of(type, 4, 2, -5);
    case 4:
        MPI_Type_create_hvector(3, 2, 4 * unit, type, &made);
        return made;
    case 5:
        MPI_Type_indexed(4, (int[]){1, 0, 2, 3}, (int[]){9, 1, 4, -6}, type, &made);
        return made;
    case 6:
        MPI_Type_create_hindexed(3, (int[]){1, 1, 4}, (MPI_Aint[]){0, unit, 3 * unit}, type, &made);
        return made;
    case 7:
        MPI_Type_create_indexed_block(4, 2, (int[]){0, 3, 6, 13}, type, &made);
        return made;
    case 8:
        MPI_Type_create_hindexed_block(3, 1, (MPI_Aint[]){8 * unit, 4 * unit, 0}, type, &made);
        return made;
    case 9:
        return structure_of(type, unit);
    case 10:
        return array_of(type, 2, (int[]){5, 6}, (int[]){2, 4}, (int[]){3, 1}, MPI_ORDER_C);
    case 11:
        return array_of(type, 3, (int[]){3, 4, 5}, (int[]){2, 3, 4}, (int[]){1, 0, 1},
                        MPI_ORDER_FORTRAN);
    case 12:
        return share_of(type, 1, (int[]){block, cyclic}, (int[]){any, any}, MPI_ORDER_C);
    case 13:
        return share_of(type, 2, (int[]){cyclic, cyclic}, (int[]){2, 4}, MPI_ORDER_FORTRAN);
    case 14:
        return resized(vector_of(type, 2, 2, 3), -unit, 7 * unit);
    case 15:
        inner = resized(vector_of(type, 2, 1, 2), 0, 5 * unit);
        MPI_Type_contiguous(4, inner, &made);
        break;
    case 16:
        inner = vector_of(type, 2, 1, 3);
        made = vector_of(inner, 2, 2, 4);
        break;
    case 17:
        inner = vector_of(type, 3, 1, 2);
        MPI_Type_indexed(2, (int[]){3, 1}, (int[]){0, 5}, inner, &made);
        break;
    case 18:
        return deep(type);
    case 19:
        inner = array_of(type, 2, (int[]){4, 4}, (int[]){2, 2}, (int[]){1, 1}, MPI_ORDER_C);
        MPI_Type_create_hvector(2, 1, 40 * unit, inner, &made);
        break;
    case 20:
        inner = vector_of(type, 1, 2, 1);
        MPI_Type_create_darray(2, 1, 1, (int[]){11}, (int[]){cyclic}, (int[]){3}, (int[]){2},
                               MPI_ORDER_C, inner, &made);
        break;
    case 21:
        MPI_Type_create_darray(2, 1, 2, (int[]){3, 8}, (int[]){none, block}, (int[]){any, 4},
                               (int[]){1, 2}, MPI_ORDER_C, type, &made);
        return made;
    default:
        return make_large(i - 22, type, unit);
    }
    MPI_Type_free(&inner);
    return made;
}

/* ---- Calls ---- */

enum { PUT, GET, SUM, REPLACE, FETCH, FETCH_SUM, FETCH_REPLACE, CALLS };
static const char *const call_names[] = {
    "put", "get", "accumulate", "replace", "fetch", "get_accumulate", "get_accumulate replace"};

struct typed_items {
    int count, size; /* bytes of an item */
    MPI_Datatype type;
};

static void fill(char *area, int seed)
{
    static char pattern[AREA + 128]; /* a double of such bytes is finite */
    for (int i = 0; pattern[1] == 0 && i < (int)sizeof(pattern); i++)
        pattern[i] = (char)(i * 7 % 97);
    memcpy(area, pattern + seed, AREA);
}

static int pack(const char *area, const struct typed_items *side, char *packed)
{
    int at = 0;
    MPI_Pack(area + MIDDLE, side->count, side->type, packed, AREA, &at, MPI_COMM_WORLD);
    return at;
}

static void unpack(char *area, const struct typed_items *side, const char *packed, int size)
{
    int at = 0;
    MPI_Unpack(packed, size, &at, area + MIDDLE, side->count, side->type, MPI_COMM_WORLD);
}

/* What the call makes of `area`, the target's, and of `fetched`, at the origin. */
static void compute(int call, char *area, char *fetched, const struct typed_items *target,
                    const struct typed_items *source)
{
    static char new[AREA], old[AREA];
    int size = pack(origin, source, new);
    pack(area, target, old);
    if (call == GET || call >= FETCH)
        unpack(fetched, source, old, size);
    for (int i = 0; (call == SUM || call == FETCH_SUM) && i < size; i += (int)sizeof(double)) {
        double sum, more;
        memcpy(&sum, old + i, sizeof(sum));
        memcpy(&more, new + i, sizeof(more));
        sum += more;
        memcpy(new + i, &sum, sizeof(sum));
    }
    if (call != GET && call != FETCH)
        unpack(area, target, new, size);
}

static void do_call(int call, int to, const struct typed_items *target,
                    const struct typed_items *source)
{
    MPI_Op op = call == FETCH                      ? MPI_NO_OP
                : call == SUM || call == FETCH_SUM ? MPI_SUM
                                                   : MPI_REPLACE;
    if (call == PUT)
        MPI_Put(origin + MIDDLE, source->count, source->type, to, MIDDLE, target->count,
                target->type, window);
    else if (call == GET)
        MPI_Get(result + MIDDLE, source->count, source->type, to, MIDDLE, target->count,
                target->type, window);
    else if (call < FETCH)
        MPI_Accumulate(origin + MIDDLE, source->count, source->type, to, MIDDLE, target->count,
                       target->type, op, window);
    else
        MPI_Get_accumulate(origin + MIDDLE, source->count, source->type, result + MIDDLE,
                           source->count, source->type, to, MIDDLE, target->count, target->type, op,
                           window);
}

/* Where elements have gaps, only the data is compared. */
static int differ(const char *is, const char *should, const struct typed_items *side, int has_gaps)
{
    static char packed[2][AREA];
    if (!has_gaps)
        return memcmp(is, should, AREA) != 0;
    int size = pack(is, side, packed[0]);
    pack(should, side, packed[1]);
    return memcmp(packed[0], packed[1], (size_t)size) != 0;
}

static void check(int call, const struct typed_items *target, const struct typed_items *source,
                  int has_gaps, const char *what)
{
    fill(base, 5);
    fill(expected, 5);
    fill(origin, 31);
    fill(result, 64);
    fill(wanted, 64);
    compute(call, expected, wanted, target, source);
    MPI_Win_fence(0, window);
    do_call(call, (rank + 1) % ranks, target, source);
    MPI_Win_fence(0, window);
    int is_wrong =
        differ(base, expected, target, has_gaps) || differ(result, wanted, source, has_gaps);
    if (is_wrong && wrong++ < 20)
        printf("rank %d: %s of %s is wrong\n", rank, call_names[call], what);
}

static int multiple_of_both(int a, int b)
{
    int both = a;
    while (both % b)
        both += a;
    return both;
}

static void check_pair(MPI_Datatype element, int has_gaps, int i, int j)
{
    char what[128], name[MPI_MAX_OBJECT_NAME];
    int length;
    struct typed_items target = {.type = make(i, element)}, source = {.type = make(j, element)};
    MPI_Type_get_name(element, name, &length);
    snprintf(what, sizeof(what), "%s: type %d to or from type %d", name, j, i);
    MPI_Type_commit(&target.type);
    MPI_Type_commit(&source.type);
    MPI_Type_size(target.type, &target.size);
    MPI_Type_size(source.type, &source.size);
    int size = multiple_of_both(target.size, source.size);
    target.count = size / target.size;
    source.count = size / source.size;
    for (int call = 0; call < CALLS; call++)
        if (element == MPI_DOUBLE || (call != SUM && call != FETCH_SUM))
            check(call, &target, &source, has_gaps, what);
    MPI_Type_free(&target.type);
    MPI_Type_free(&source.type);
}

static void check_element(MPI_Datatype element, int has_gaps, int step)
{
    int types = 0;
    MPI_Datatype made;
    while ((made = make(types, element)) != MPI_DATATYPE_NULL) {
        MPI_Type_free(&made);
        types++;
    }
    for (int i = 0; i < types; i++)
        for (int j = i % step; j < types; j += step)
            check_pair(element, has_gaps, i, j);
}

/* Elements of several types can be put and got. */
static void check_mixed(void)
{
    MPI_Datatype mixed, apart;
    MPI_Type_create_struct(3, (int[]){1, 2, 3}, (MPI_Aint[]){0, 8, 24},
                           (MPI_Datatype[]){MPI_INT, MPI_DOUBLE, MPI_CHAR}, &mixed);
    MPI_Type_create_struct(3, (int[]){1, 2, 3}, (MPI_Aint[]){-64, 800, 100},
                           (MPI_Datatype[]){MPI_INT, MPI_DOUBLE, MPI_CHAR}, &apart);
    MPI_Type_commit(&mixed);
    MPI_Type_commit(&apart);
    struct typed_items some = {5, 0, mixed}, others = {5, 0, apart};
    check(PUT, &some, &others, 0, "mixed types");
    check(GET, &others, &some, 0, "mixed types");
    MPI_Type_free(&mixed);
    MPI_Type_free(&apart);
}

/* ---- A type that several threads use for the first time ---- */

static MPI_Datatype common;

static void *put_in_thread(void *argument)
{
    int at = *(int *)argument;
    MPI_Put(origin + MIDDLE, 1, common, rank, at, 1, common, window);
    return NULL;
}

static void check_threads(void)
{
    for (int i = 0; i < 200; i++) {
        pthread_t threads[4];
        int at[4];
        common = vector_of(MPI_DOUBLE, 4, i % 5 + 1, i % 7 + 6);
        MPI_Type_commit(&common);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
        for (int t = 0; t < 4; t++) {
            at[t] = t * AREA / 8;
            pthread_create(&threads[t], NULL, put_in_thread, &at[t]);
        }
        for (int t = 0; t < 4; t++)
            pthread_join(threads[t], NULL);
        MPI_Win_unlock(rank, window);
        for (int t = 0; t < 4; t++)
            for (int block = 0; block < 4; block++) {
                int offset = block * (i % 7 + 6) * (int)sizeof(double);
                wrong += memcmp(base + at[t] + offset, origin + MIDDLE + offset,
                                (size_t)(i % 5 + 1) * sizeof(double)) != 0;
            }
        MPI_Type_free(&common);
    }
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win_allocate(AREA, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    check_element(MPI_DOUBLE, 0, 4);
    check_element(MPI_SIGNED_CHAR, 0, 7);
    check_element(MPI_DOUBLE_INT, 1, 9);
    check_element(MPI_SHORT_INT, 1, 9);
    check_mixed();
    if (level == MPI_THREAD_MULTIPLE)
        check_threads();
    MPI_Win_free(&window);
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
