/* src/mpi/types/predefined.c: MPI's predefined types. */
#include "mpi/types/types.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BUCKETS_BITS = 8 };

/* Arithmetic that the standard does not define, but a library computes, is computed as there:
 * characters are numbers in all, truth values and packed bytes in MPICH. */
#ifdef OPEN_MPI
enum { BOOLEANS = TYPE_LOGICAL, LOGICALS = TYPE_LOGICAL, PACKED = TYPE_BYTES };
#else
enum { BOOLEANS = TYPE_UNSIGNED, LOGICALS = TYPE_SIGNED, PACKED = TYPE_UNSIGNED };
#endif
enum { CHARACTERS = CHAR_MIN < 0 ? TYPE_SIGNED : TYPE_UNSIGNED };

static enum type_class class_of_named(MPI_Datatype type)
{
    const struct {
        MPI_Datatype type;
        int class; /* enum type_class */
    } table[] = {
        {MPI_SIGNED_CHAR, TYPE_SIGNED},
        {MPI_SHORT, TYPE_SIGNED},
        {MPI_INT, TYPE_SIGNED},
        {MPI_LONG, TYPE_SIGNED},
        {MPI_LONG_LONG, TYPE_SIGNED},
        {MPI_INT8_T, TYPE_SIGNED},
        {MPI_INT16_T, TYPE_SIGNED},
        {MPI_INT32_T, TYPE_SIGNED},
        {MPI_INT64_T, TYPE_SIGNED},
        {MPI_AINT, TYPE_SIGNED},
        {MPI_OFFSET, TYPE_SIGNED},
        {MPI_COUNT, TYPE_SIGNED},
        {MPI_INTEGER, TYPE_SIGNED},
        {MPI_INTEGER1, TYPE_SIGNED},
        {MPI_INTEGER2, TYPE_SIGNED},
        {MPI_INTEGER4, TYPE_SIGNED},
        {MPI_INTEGER8, TYPE_SIGNED},
        {MPI_BYTE, TYPE_UNSIGNED},
        {MPI_UNSIGNED_CHAR, TYPE_UNSIGNED},
        {MPI_UNSIGNED_SHORT, TYPE_UNSIGNED},
        {MPI_UNSIGNED, TYPE_UNSIGNED},
        {MPI_UNSIGNED_LONG, TYPE_UNSIGNED},
        {MPI_UNSIGNED_LONG_LONG, TYPE_UNSIGNED},
        {MPI_UINT8_T, TYPE_UNSIGNED},
        {MPI_UINT16_T, TYPE_UNSIGNED},
        {MPI_UINT32_T, TYPE_UNSIGNED},
        {MPI_UINT64_T, TYPE_UNSIGNED},
        {MPI_FLOAT, TYPE_FLOATING},
        {MPI_DOUBLE, TYPE_FLOATING},
        {MPI_LONG_DOUBLE, TYPE_FLOATING},
        {MPI_REAL, TYPE_FLOATING},
        {MPI_DOUBLE_PRECISION, TYPE_FLOATING},
        {MPI_REAL4, TYPE_FLOATING},
        {MPI_REAL8, TYPE_FLOATING},
        {MPI_C_COMPLEX, TYPE_COMPLEX},
        {MPI_C_FLOAT_COMPLEX, TYPE_COMPLEX},
        {MPI_C_DOUBLE_COMPLEX, TYPE_COMPLEX},
        {MPI_C_LONG_DOUBLE_COMPLEX, TYPE_COMPLEX},
        {MPI_CXX_FLOAT_COMPLEX, TYPE_COMPLEX},
        {MPI_CXX_DOUBLE_COMPLEX, TYPE_COMPLEX},
        {MPI_CXX_LONG_DOUBLE_COMPLEX, TYPE_COMPLEX},
        {MPI_COMPLEX, TYPE_COMPLEX},
        {MPI_DOUBLE_COMPLEX, TYPE_COMPLEX},
        {MPI_COMPLEX8, TYPE_COMPLEX},
        {MPI_COMPLEX16, TYPE_COMPLEX},
        {MPI_C_BOOL, BOOLEANS},
        {MPI_CXX_BOOL, BOOLEANS},
        {MPI_LOGICAL, LOGICALS},
        {MPI_CHAR, CHARACTERS},
        {MPI_CHARACTER, CHARACTERS},
        {MPI_PACKED, PACKED},
        {MPI_FLOAT_INT, TYPE_PAIR_FLOAT},
        {MPI_DOUBLE_INT, TYPE_PAIR_DOUBLE},
        {MPI_LONG_DOUBLE_INT, TYPE_PAIR_LONG_DOUBLE},
        {MPI_LONG_INT, TYPE_PAIR_LONG},
        {MPI_2INT, TYPE_PAIR_INT},
        {MPI_SHORT_INT, TYPE_PAIR_SHORT},
        {MPI_2INTEGER, TYPE_PAIR_INT},
        {MPI_2REAL, TYPE_PAIR_REALS},
        {MPI_2DOUBLE_PRECISION, TYPE_PAIR_DOUBLES},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].type == type)
            return (enum type_class)table[i].class;
    return TYPE_BYTES;
}

/* MPI_Type_create_f90_real and its like return types that are predefined, but have no name. */
static enum type_class class_of(MPI_Datatype type, int combiner)
{
    return combiner == MPI_COMBINER_F90_REAL      ? TYPE_FLOATING
           : combiner == MPI_COMBINER_F90_COMPLEX ? TYPE_COMPLEX
           : combiner == MPI_COMBINER_F90_INTEGER ? TYPE_SIGNED
                                                  : class_of_named(type);
}

/* A type that was made with large counts tells its constructor only to the function for these. */
static int combiner_of(MPI_Datatype type, int *combiner)
{
    MPI_Count large[4];
    int few[3];
    if (real()->Type_get_envelope_c)
        return real()->Type_get_envelope_c(type, &large[0], &large[1], &large[2], &large[3],
                                           combiner);
    return real()->Type_get_envelope(type, &few[0], &few[1], &few[2], combiner);
}

static int is_predefined(MPI_Datatype type, int *combiner)
{
    return combiner_of(type, combiner) == MPI_SUCCESS &&
           (*combiner == MPI_COMBINER_NAMED || *combiner == MPI_COMBINER_F90_REAL ||
            *combiner == MPI_COMBINER_F90_COMPLEX || *combiner == MPI_COMBINER_F90_INTEGER);
}

static struct basic *describe(MPI_Datatype type, int combiner)
{
    MPI_Aint lower, extent;
    int size;
    struct basic *basic = malloc(sizeof(*basic));
    if (!basic || real()->Type_size(type, &size) != MPI_SUCCESS ||
        real()->Type_get_extent(type, &lower, &extent) != MPI_SUCCESS) {
        free(basic);
        return NULL;
    }
    *basic = (struct basic){.type = type,
                            .class = class_of(type, combiner),
                            .size = (size_t)size,
                            .extent = (size_t)extent};
    if ((basic->layouts = layouts_of_basic(basic)))
        return basic;
    free(basic);
    return NULL;
}

static struct basic *find(struct basic *basic, MPI_Datatype type)
{
    while (basic && basic->type != type)
        basic = basic->next;
    return basic;
}

/* The entry of the type: another thread may have added one meanwhile. */
static struct basic *add(struct basic *_Atomic *bucket, struct basic *basic)
{
    basic->next = atomic_load_explicit(bucket, memory_order_acquire);
    while (!find(basic->next, basic->type))
        if (atomic_compare_exchange_weak_explicit(bucket, &basic->next, basic, memory_order_release,
                                                  memory_order_acquire))
            return basic;
    struct basic *other = find(basic->next, basic->type);
    layouts_free((struct layouts *)basic->layouts);
    free(basic);
    return other;
}

/* Predefined types are few, and their handles are never reused for another type, so entries stay.
 * Any thread adds (release) and reads (acquire). */
static struct basic *_Atomic buckets[1 << BUCKETS_BITS];

static struct basic *_Atomic *bucket_of(MPI_Datatype type)
{
    return &buckets[real_hash((uintptr_t)type, BUCKETS_BITS)];
}

const struct basic *types_known(MPI_Datatype type)
{
    return find(atomic_load_explicit(bucket_of(type), memory_order_acquire), type);
}

const struct basic *types_basic(MPI_Datatype type)
{
    const struct basic *known = types_known(type);
    struct basic *basic;
    int combiner;
    if (known || !is_predefined(type, &combiner) || !(basic = describe(type, combiner)))
        return known;
    return add(bucket_of(type), basic);
}

int layouts_bounds(const struct layouts *layouts, MPI_Count count, int64_t *lower, int64_t *upper)
{
    int64_t last;
    *lower = *upper = 0;
    if (count == 0 || layouts->bytes.size == 0)
        return MPI_SUCCESS;
    if (__builtin_mul_overflow((int64_t)count - 1, layouts->bytes.extent, &last) ||
        __builtin_add_overflow(layouts->lower, last < 0 ? last : 0, lower) ||
        __builtin_add_overflow(layouts->upper, last > 0 ? last : 0, upper))
        return MPI_ERR_COUNT;
    return MPI_SUCCESS;
}

int layouts_copy(const struct transfer *to, const struct layouts *sink, const struct transfer *from,
                 const struct layouts *source)
{
    struct side target = {to->address, (size_t)to->count, &sink->bytes};
    struct side origin = {from->address, (size_t)from->count, &source->bytes};
    if (origin.items * source->bytes.size > target.items * sink->bytes.size)
        return MPI_ERR_TRUNCATE;
    return walk_copy(&target, &origin);
}

int types_copy(const struct transfer *to, const struct transfer *from)
{
    const struct basic *target = types_known(to->type), *origin = types_known(from->type);
    if (types_is_dense(target) && types_is_dense(origin))
        return types_copy_dense(to, target, from, origin);
    const struct layouts *sink, *source;
    int error = layouts_find(to->type, &sink);
    source = sink;
    if (error == MPI_SUCCESS && from->type != to->type)
        error = layouts_find(from->type, &source);
    return error == MPI_SUCCESS ? layouts_copy(to, sink, from, source) : error;
}
