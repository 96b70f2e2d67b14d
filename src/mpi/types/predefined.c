/* src/mpi/types/predefined.c: MPI's predefined types. */
#include "mpi/types/types.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BUCKETS_BITS = 8 };

/* Some arithmetic is not defined by the standard but supported by a library; the layer then
 * computes what that library does. Characters are numbers in all libraries, truth values and packed
 * bytes in MPICH. */
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

/* MPI_Type_create_f90_real, _complex and _integer return predefined types without a name. */
static enum type_class class_of(MPI_Datatype type, int combiner)
{
    return combiner == MPI_COMBINER_F90_REAL      ? TYPE_FLOATING
           : combiner == MPI_COMBINER_F90_COMPLEX ? TYPE_COMPLEX
           : combiner == MPI_COMBINER_F90_INTEGER ? TYPE_SIGNED
                                                  : class_of_named(type);
}

/* Only the function with large counts reports the constructor of a type made with large counts. */
static int combiner_of(MPI_Datatype type, int *combiner)
{
    MPI_Count large[4];
    int few[3];
    if (pmpi()->Type_get_envelope_c)
        return pmpi()->Type_get_envelope_c(type, &large[0], &large[1], &large[2], &large[3],
                                           combiner);
    return pmpi()->Type_get_envelope(type, &few[0], &few[1], &few[2], combiner);
}

static int is_predefined(MPI_Datatype type, int *combiner)
{
    return combiner_of(type, combiner) == MPI_SUCCESS &&
           (*combiner == MPI_COMBINER_NAMED || *combiner == MPI_COMBINER_F90_REAL ||
            *combiner == MPI_COMBINER_F90_COMPLEX || *combiner == MPI_COMBINER_F90_INTEGER);
}

static struct predefined_type *describe(MPI_Datatype type, int combiner)
{
    MPI_Aint lower, extent;
    int size;
    struct predefined_type *predefined = malloc(sizeof(*predefined));
    if (!predefined || pmpi()->Type_size(type, &size) != MPI_SUCCESS ||
        pmpi()->Type_get_extent(type, &lower, &extent) != MPI_SUCCESS) {
        free(predefined);
        return NULL;
    }
    *predefined = (struct predefined_type){.type = type,
                                           .class = class_of(type, combiner),
                                           .size = (size_t)size,
                                           .extent = (size_t)extent};
    if ((predefined->layout = type_layout_of_predefined(predefined)))
        return predefined;
    free(predefined);
    return NULL;
}

static struct predefined_type *find(struct predefined_type *predefined, MPI_Datatype type)
{
    while (predefined && predefined->type != type)
        predefined = predefined->next;
    return predefined;
}

/* Returns the type's entry, which another thread may have added meanwhile. */
static struct predefined_type *publish(struct predefined_type *_Atomic *bucket,
                                       struct predefined_type *predefined)
{
    predefined->next = atomic_load_explicit(bucket, memory_order_acquire);
    while (!find(predefined->next, predefined->type))
        if (atomic_compare_exchange_weak_explicit(bucket, &predefined->next, predefined,
                                                  memory_order_release, memory_order_acquire))
            return predefined;
    struct predefined_type *other = find(predefined->next, predefined->type);
    type_layout_free((struct type_layout *)predefined->layout);
    free(predefined);
    return other;
}

/* Predefined types are few, and their handles are never reused for another type, so entries stay.
 * Any thread adds (release) and reads (acquire). */
static struct predefined_type *_Atomic buckets[1 << BUCKETS_BITS];

static struct predefined_type *_Atomic *bucket_of(MPI_Datatype type)
{
    return &buckets[handle_hash((uintptr_t)type, BUCKETS_BITS)];
}

const struct predefined_type *predefined_type_known(MPI_Datatype type)
{
    return find(atomic_load_explicit(bucket_of(type), memory_order_acquire), type);
}

const struct predefined_type *predefined_type_of(MPI_Datatype type)
{
    const struct predefined_type *known = predefined_type_known(type);
    struct predefined_type *predefined;
    int combiner;
    if (known || type == MPI_DATATYPE_NULL || !is_predefined(type, &combiner) ||
        !(predefined = describe(type, combiner)))
        return known;
    return publish(bucket_of(type), predefined);
}

int type_layout_bounds(const struct type_layout *layout, MPI_Count count, int64_t *lower,
                       int64_t *upper)
{
    int64_t last;
    *lower = *upper = 0;
    if (count == 0 || layout->bytes.size == 0)
        return MPI_SUCCESS;
    if (__builtin_mul_overflow((int64_t)count - 1, layout->bytes.extent, &last) ||
        __builtin_add_overflow(layout->lower, last < 0 ? last : 0, lower) ||
        __builtin_add_overflow(layout->upper, last > 0 ? last : 0, upper))
        return MPI_ERR_COUNT;
    return MPI_SUCCESS;
}

int type_layout_copy(const struct buf_desc *to, const struct type_layout *sink,
                     const struct buf_desc *from, const struct type_layout *source)
{
    struct typed_items target = {to->address, (size_t)to->count, &sink->bytes};
    struct typed_items origin = {from->address, (size_t)from->count, &source->bytes};
    if (items_size(from->count, source->bytes.size) > items_size(to->count, sink->bytes.size))
        return MPI_ERR_TRUNCATE;
    return items_copy(&target, &origin);
}
