/* mpi_datatypes: every constructor of datatypes, on both sides of every kind of one-sided call, on
 * windows of MPI_Win_allocate. MPI_Pack and MPI_Unpack compute the expected data. */
#include <pthread.h>

#include "mpi/guests/mpi_check.h"

enum { AREA = 1 << 16, MIDDLE = AREA / 2, TYPES_MAX = 40 };

static char *base; /* of this rank's part */
static char origin[AREA], result[AREA], expected[AREA], expected_result[AREA];
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

#define INTS(...)   ((int[]){__VA_ARGS__})
#define AINTS(...)  ((MPI_Aint[]){__VA_ARGS__})
#define COUNTS(...) ((MPI_Count[]){__VA_ARGS__})
enum {
    BLOCK = MPI_DISTRIBUTE_BLOCK,
    CYCLIC = MPI_DISTRIBUTE_CYCLIC,
    UNDIVIDED = MPI_DISTRIBUTE_NONE,
    ANY = MPI_DISTRIBUTE_DFLT_DARG
};

/* Constructors with large counts, where MPI has them. Returns how many. */
static int make_large(MPI_Datatype type, MPI_Datatype *made)
{
    int n = 0;
#if MPI_VERSION >= 4
    MPI_Aint unit = extent_of(type);
    MPI_Type_vector_c(3, 2, 4, type, &made[n++]);
    MPI_Type_create_hvector_c(3, 2, 4 * unit, type, &made[n++]);
    MPI_Type_indexed_c(2, COUNTS(1, 3), COUNTS(5, -4), type, &made[n++]);
    MPI_Type_create_hindexed_c(2, COUNTS(1, 3), COUNTS(5 * unit, unit), type, &made[n++]);
    MPI_Type_create_indexed_block_c(2, 3, COUNTS(5, -4), type, &made[n++]);
    MPI_Type_create_hindexed_block_c(2, 3, COUNTS(5 * unit, -unit * 4), type, &made[n++]);
    MPI_Type_create_struct_c(2, COUNTS(2, 1), COUNTS(unit * 4, 0), (MPI_Datatype[]){type, type},
                             &made[n++]);
    MPI_Type_create_subarray_c(2, COUNTS(4, 5), COUNTS(2, 3), COUNTS(1, 2), MPI_ORDER_C, type,
                               &made[n++]);
    MPI_Type_create_darray_c(4, 1, 2, COUNTS(6, 8), INTS(BLOCK, CYCLIC), INTS(ANY, 2), INTS(2, 2),
                             MPI_ORDER_FORTRAN, type, &made[n++]);
    MPI_Type_contiguous_c(4, type, &made[n++]);
    MPI_Type_create_resized_c(type, -unit, 3 * unit, &made[n++]);
#else
    (void)type, (void)made;
#endif
    return n;
}

/* Constructors on constructors. Returns how many. */
static int make_nested(MPI_Datatype type, MPI_Datatype *made)
{
    int n = 0;
    MPI_Aint unit = extent_of(type);
    MPI_Datatype spaced = resized(vector_of(type, 2, 1, 2), 0, 5 * unit);
    MPI_Datatype pair = vector_of(type, 2, 2, 3), two = vector_of(type, 1, 2, 1), square;
    MPI_Datatype apart = vector_of(type, 2, 1, 3), three = vector_of(type, 3, 1, 2);
    MPI_Type_create_subarray(2, INTS(4, 4), INTS(2, 2), INTS(1, 1), MPI_ORDER_C, type, &square);
    MPI_Type_create_struct(3, INTS(2, 0, 1), AINTS(-2 * unit, 0, 5 * unit),
                           (MPI_Datatype[]){type, pair, pair}, &made[n++]);
    MPI_Type_contiguous(4, spaced, &made[n++]);
    made[n++] = vector_of(apart, 2, 2, 4);
    MPI_Type_indexed(2, INTS(3, 1), INTS(0, 5), three, &made[n++]);
    MPI_Type_create_hvector(2, 1, 40 * unit, square, &made[n++]);
    MPI_Type_create_darray(2, 1, 1, INTS(11), INTS(CYCLIC), INTS(3), INTS(2), MPI_ORDER_C, two,
                           &made[n++]);
    made[n++] = deep(type);
    MPI_Type_free(&spaced);
    MPI_Type_free(&pair);
    MPI_Type_free(&two);
    MPI_Type_free(&square);
    MPI_Type_free(&apart);
    MPI_Type_free(&three);
    return n;
}

/* Returns how many. */
static int make_types(MPI_Datatype type, MPI_Datatype *made)
{
    int n = 0;
    MPI_Aint unit = extent_of(type);
    MPI_Type_dup(type, &made[n++]);
    MPI_Type_contiguous(6, type, &made[n++]);
    made[n++] = vector_of(type, 4, 3, 7);
    made[n++] = vector_of(type, 4, 2, -5);
    MPI_Type_create_hvector(3, 2, 4 * unit, type, &made[n++]);
    MPI_Type_indexed(4, INTS(1, 0, 2, 3), INTS(9, 1, 4, -6), type, &made[n++]);
    MPI_Type_create_hindexed(3, INTS(1, 1, 4), AINTS(0, unit, 3 * unit), type, &made[n++]);
    MPI_Type_create_indexed_block(4, 2, INTS(0, 3, 6, 13), type, &made[n++]);
    MPI_Type_create_hindexed_block(3, 1, AINTS(8 * unit, 4 * unit, 0), type, &made[n++]);
    MPI_Type_create_subarray(2, INTS(5, 6), INTS(2, 4), INTS(3, 1), MPI_ORDER_C, type, &made[n++]);
    MPI_Type_create_subarray(3, INTS(3, 4, 5), INTS(2, 3, 4), INTS(1, 0, 1), MPI_ORDER_FORTRAN,
                             type, &made[n++]);
    MPI_Type_create_darray(4, 1, 2, INTS(7, 9), INTS(BLOCK, CYCLIC), INTS(ANY, ANY), INTS(2, 2),
                           MPI_ORDER_C, type, &made[n++]);
    MPI_Type_create_darray(4, 2, 2, INTS(7, 9), INTS(CYCLIC, CYCLIC), INTS(2, 4), INTS(2, 2),
                           MPI_ORDER_FORTRAN, type, &made[n++]);
    MPI_Type_create_darray(2, 1, 2, INTS(3, 8), INTS(UNDIVIDED, BLOCK), INTS(ANY, 4), INTS(1, 2),
                           MPI_ORDER_C, type, &made[n++]);
    made[n++] = resized(vector_of(type, 2, 2, 3), -unit, 7 * unit);
    n += make_nested(type, made + n);
    n += make_large(type, made + n);
    for (int i = 0; i < n; i++)
        MPI_Type_commit(&made[i]);
    return n;
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
    MPI_Pack(area + MIDDLE, side->count, side->type, packed, AREA, &at, world);
    return at;
}

static void unpack(char *area, const struct typed_items *side, const char *packed, int size)
{
    int at = 0;
    MPI_Unpack(packed, size, &at, area + MIDDLE, side->count, side->type, world);
}

/* Applies the call to `area`, the target's, and to `fetched`, at the origin. */
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

static void check_call(int call, const struct typed_items *target, const struct typed_items *source,
                       int has_gaps, const char *what)
{
    fill(base, 5);
    fill(expected, 5);
    fill(origin, 31);
    fill(result, 64);
    fill(expected_result, 64);
    compute(call, expected, expected_result, target, source);
    MPI_Win_fence(0, window);
    do_call(call, next_rank, target, source);
    MPI_Win_fence(0, window);
    int is_wrong = differ(base, expected, target, has_gaps) ||
                   differ(result, expected_result, source, has_gaps);
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

static void check_pair(MPI_Datatype element, int has_gaps, const MPI_Datatype *types, int i, int j)
{
    char what[128], name[MPI_MAX_OBJECT_NAME];
    int length;
    struct typed_items target = {.type = types[i]}, source = {.type = types[j]};
    MPI_Type_get_name(element, name, &length);
    snprintf(what, sizeof(what), "%s: type %d to or from type %d", name, j, i);
    MPI_Type_size(target.type, &target.size);
    MPI_Type_size(source.type, &source.size);
    int size = multiple_of_both(target.size, source.size);
    target.count = size / target.size;
    source.count = size / source.size;
    for (int call = 0; call < CALLS; call++)
        if (element == MPI_DOUBLE || (call != SUM && call != FETCH_SUM))
            check_call(call, &target, &source, has_gaps, what);
}

static void check_element(MPI_Datatype element, int has_gaps, int step)
{
    MPI_Datatype types[TYPES_MAX];
    int count = make_types(element, types);
    for (int i = 0; i < count; i++)
        for (int j = i % step; j < count; j += step)
            check_pair(element, has_gaps, types, i, j);
    for (int i = 0; i < count; i++)
        MPI_Type_free(&types[i]);
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
    check_call(PUT, &some, &others, 0, "mixed types");
    check_call(GET, &others, &some, 0, "mixed types");
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
    int level = mpi_begin_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    MPI_Win_allocate(AREA, 1, MPI_INFO_NULL, world, &base, &window);
    check_element(MPI_DOUBLE, 0, 4);
    check_element(MPI_SIGNED_CHAR, 0, 7);
    check_element(MPI_DOUBLE_INT, 1, 9);
    check_element(MPI_SHORT_INT, 1, 9);
    check_mixed();
    if (level == MPI_THREAD_MULTIPLE)
        check_threads();
    MPI_Win_free(&window);
    return mpi_end();
}
