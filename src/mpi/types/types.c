/* src/mpi/types/types.c: see types.h.
 *
 * Derived types are packed and unpacked by MPI. This relies on a packed item being its elements
 * without gaps and without conversion, as in all libraries for machines of one kind. */
#include "mpi/types/types.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE = 256, CHUNK = 64 << 20 };

static enum type_class class_of(MPI_Datatype type)
{
    const struct {
        MPI_Datatype type;
        enum type_class class;
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
        {MPI_C_BOOL, TYPE_LOGICAL},
        {MPI_CXX_BOOL, TYPE_LOGICAL},
        {MPI_LOGICAL, TYPE_LOGICAL},
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
            return table[i].class;
    return TYPE_BYTES;
}

static int combiner_of(MPI_Datatype type)
{
    int integers, addresses, types, combiner = -1;
    return real()->Type_get_envelope(type, &integers, &addresses, &types, &combiner) == MPI_SUCCESS
               ? combiner
               : -1;
}

static struct basic *describe(MPI_Datatype type)
{
    MPI_Aint lower, extent;
    int size;
    struct basic *basic = malloc(sizeof(*basic));
    if (!basic || real()->Type_size(type, &size) != MPI_SUCCESS ||
        real()->Type_get_extent(type, &lower, &extent) != MPI_SUCCESS) {
        free(basic);
        return NULL;
    }
    *basic = (struct basic){type, class_of(type), (size_t)size, (size_t)extent};
    return basic;
}

const struct basic *types_basic(MPI_Datatype type)
{
    /* Predefined types only: their handles are never reused for another type. Any thread writes
     * (release) and reads (acquire). A replaced entry is not freed, since another thread may be
     * reading it. */
    static struct basic *_Atomic cache[CACHE];
    uintptr_t key = (uintptr_t)type;
    struct basic *_Atomic *place = &cache[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    struct basic *basic = atomic_load_explicit(place, memory_order_acquire);
    if (basic && basic->type == type)
        return basic;
    if (combiner_of(type) != MPI_COMBINER_NAMED || !(basic = describe(type)))
        return NULL;
    atomic_store_explicit(place, basic, memory_order_release);
    return basic;
}

/* The element type that all have in common, or NULL. Frees the handles of derived types. */
static const struct basic *common_element(MPI_Datatype *inner, int types)
{
    const struct basic *common = NULL;
    int differ = 0;
    for (int i = 0; i < types; i++) {
        const struct basic *found = types_element(inner[i]);
        differ |= !found || (common && found != common);
        common = found;
        if (!types_basic(inner[i]))
            real()->Type_free(&inner[i]);
    }
    return differ ? NULL : common;
}

static const struct basic *element_of_contents(MPI_Datatype type, int integers, int addresses,
                                               int types)
{
    const struct basic *element = NULL;
    int *counts = calloc((size_t)integers + 1, sizeof(*counts));
    MPI_Aint *places = calloc((size_t)addresses + 1, sizeof(*places));
    MPI_Datatype *inner = calloc((size_t)types + 1, sizeof(*inner));
    if (counts && places && inner &&
        real()->Type_get_contents(type, integers, addresses, types, counts, places, inner) ==
            MPI_SUCCESS)
        element = common_element(inner, types);
    free(counts);
    free(places);
    free(inner);
    return element;
}

const struct basic *types_element(MPI_Datatype type)
{
    int integers, addresses, types, combiner;
    const struct basic *basic = types_basic(type);
    if (basic ||
        real()->Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS)
        return basic;
    return element_of_contents(type, integers, addresses, types);
}

/* ---- Copying ---- */

static char *at_item(const struct transfer *side, MPI_Count item, MPI_Aint extent)
{
    return (char *)side->address + item * extent;
}

/* One chunk through a buffer; the counts fit an int. */
static int copy_packed(const struct transfer *to, const struct transfer *from, size_t size,
                       MPI_Comm comm)
{
    int at = 0, result;
    if (types_is_dense(types_basic(to->type)))
        return real()->Pack(from->address, (int)from->count, from->type, to->address, (int)size,
                            &at, comm);
    if (types_is_dense(types_basic(from->type)))
        return real()->Unpack(from->address, (int)size, &at, to->address, (int)to->count, to->type,
                              comm);
    void *buffer = malloc(size ? size : 1);
    if (!buffer)
        return MPI_ERR_NO_MEM;
    result =
        real()->Pack(from->address, (int)from->count, from->type, buffer, (int)size, &at, comm);
    at = 0;
    if (result == MPI_SUCCESS)
        result =
            real()->Unpack(buffer, (int)size, &at, to->address, (int)to->count, to->type, comm);
    free(buffer);
    return result;
}

/* The smallest numbers of items of the two types that take the same number of bytes. */
static void smallest_step(int to_size, int from_size, MPI_Count *to_step, MPI_Count *from_step)
{
    int a = to_size, b = from_size;
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    *to_step = from_size / a;
    *from_step = to_size / a;
}

/* Size and extent of one side's type. */
struct layout {
    int size;
    MPI_Aint extent;
};

static int measure(MPI_Datatype type, struct layout *layout)
{
    MPI_Aint lower;
    int result = real()->Type_size(type, &layout->size);
    return result == MPI_SUCCESS ? real()->Type_get_extent(type, &lower, &layout->extent) : result;
}

static int copy_chunks(const struct transfer *to, const struct layout *sink,
                       const struct transfer *from, const struct layout *source, MPI_Comm comm)
{
    MPI_Count to_step, from_step, to_done = 0, from_done = 0;
    int result = MPI_SUCCESS;
    smallest_step(sink->size, source->size, &to_step, &from_step);
    MPI_Count steps = CHUNK / (source->size * from_step);
    MPI_Count chunk = from_step * (steps < 1 ? 1 : steps);
    while (result == MPI_SUCCESS && from_done < from->count) {
        MPI_Count items = chunk < from->count - from_done ? chunk : from->count - from_done;
        MPI_Count bytes = items * source->size;
        if (bytes > INT32_MAX || bytes % sink->size)
            return MPI_ERR_COUNT;
        struct transfer piece = {at_item(from, from_done, source->extent), items, from->type};
        struct transfer place = {at_item(to, to_done, sink->extent), bytes / sink->size, to->type};
        result = copy_packed(&place, &piece, (size_t)bytes, comm);
        from_done += items;
        to_done += place.count;
    }
    return result;
}

int types_copy(const struct transfer *to, const struct transfer *from, MPI_Comm comm)
{
    const struct basic *target = types_basic(to->type), *origin = types_basic(from->type);
    if (types_is_dense(target) && types_is_dense(origin)) {
        size_t size = (size_t)from->count * origin->size;
        if (size > (size_t)to->count * target->size)
            return MPI_ERR_TRUNCATE;
        memmove(to->address, from->address, size);
        return MPI_SUCCESS;
    }
    struct layout sink, source;
    int result = measure(to->type, &sink);
    if (result == MPI_SUCCESS)
        result = measure(from->type, &source);
    if (result != MPI_SUCCESS || source.size == 0 || from->count == 0)
        return result;
    if (from->count * source.size > to->count * sink.size)
        return MPI_ERR_TRUNCATE;
    return copy_chunks(to, &sink, from, &source, comm);
}

/* ---- Offsets ---- */

/* Packs a map of the item in which byte n holds bits `shift` to `shift` + 7 of n: each packed byte
 * tells where in the item it came from. */
static int pack_map(MPI_Datatype type, MPI_Aint lower, size_t extent, unsigned shift, void *packed,
                    int size, MPI_Comm comm)
{
    int at = 0;
    unsigned char *map = malloc(extent);
    if (!map)
        return MPI_ERR_NO_MEM;
    for (size_t n = 0; n < extent; n++)
        map[n] = (unsigned char)(n >> shift);
    int result = real()->Pack(map - lower, 1, type, packed, size, &at, comm);
    free(map);
    return result;
}

int64_t *types_offsets(MPI_Datatype type, const struct basic *element, size_t *count, MPI_Comm comm)
{
    MPI_Aint lower, extent;
    int size = 0, result = real()->Type_get_true_extent(type, &lower, &extent);
    if (result == MPI_SUCCESS)
        result = real()->Type_size(type, &size);
    *count = (size_t)size / element->size;
    unsigned char *packed = malloc((size_t)size + 1);
    int64_t *offsets = calloc(*count + 1, sizeof(*offsets));
    if (!packed || !offsets || extent > INT32_MAX)
        result = MPI_ERR_NO_MEM;
    for (unsigned shift = 0; result == MPI_SUCCESS && (extent - 1) >> shift; shift += 8) {
        result = pack_map(type, lower, (size_t)extent, shift, packed, size, comm);
        for (size_t i = 0; result == MPI_SUCCESS && i < *count; i++)
            offsets[i] |= (int64_t)packed[i * element->size] << shift;
    }
    for (size_t i = 0; i < *count && offsets; i++)
        offsets[i] += lower;
    free(packed);
    if (result == MPI_SUCCESS)
        return offsets;
    free(offsets);
    return NULL;
}
