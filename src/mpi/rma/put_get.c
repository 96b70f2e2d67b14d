/* src/mpi/rma/put_get.c: MPI_Put and MPI_Get. */
#include "mpi/rma/rma.h"

static int check(const struct transfer *origin, MPI_Count count)
{
    return origin->count < 0 || count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS;
}

/* From how many bytes on the provider's own copy is used. */
enum { MANY = 64 << 10, LARGEST_ELEMENT = 32 };

/* The size of a large transfer for which the provider has a copy of its own; else 0. */
static size_t bulk_size(const struct window *window, const struct transfer *target,
                        const struct basic *theirs, const struct transfer *origin,
                        const struct basic *own, enum direct_use way)
{
    MPI_Count count = way == DIRECT_PUT ? origin->count : target->count;
    if (count < MANY / LARGEST_ELEMENT || !window->provider->copy)
        return 0;
    size_t at_target = (size_t)target->count * theirs->size,
           at_origin = (size_t)origin->count * own->size;
    size_t size = way == DIRECT_PUT ? at_origin : at_target;
    return size >= MANY && size <= (way == DIRECT_PUT ? at_target : at_origin) ? size : 0;
}

static void note(struct window *window, enum direct_use way, const struct transfer *origin,
                 int rank)
{
    direct_count(window, rank, way, origin);
    if (way == DIRECT_GET)
        direct_note_read(window);
}

static int copy_derived(struct window *window, enum direct_use way, const struct transfer *origin,
                        int rank, MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    const struct layouts *theirs, *own;
    int64_t lower, upper;
    int result = layouts_find(type, &theirs);
    own = theirs;
    if (result == MPI_SUCCESS && type != origin->type)
        result = layouts_find(origin->type, &own);
    if (result == MPI_SUCCESS)
        result = layouts_bounds(theirs, count, &lower, &upper);
    if (result != MPI_SUCCESS)
        return result;
    char *address = direct_target(window, rank, displacement, lower, upper, &result);
    const struct transfer target = {address, count, type};
    if (result != MPI_SUCCESS)
        return result;
    note(window, way, origin, rank);
    result = way == DIRECT_PUT ? layouts_copy(&target, theirs, origin, own)
                               : layouts_copy(origin, own, &target, theirs);
    if (way == DIRECT_PUT)
        direct_count_end(window, rank);
    return result;
}

/* `way` is DIRECT_PUT or DIRECT_GET. */
static int copy(struct window *window, enum direct_use way, const struct transfer *origin, int rank,
                MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    int result = check(origin, count);
    int64_t bytes;
    if (rank == MPI_PROC_NULL || result != MPI_SUCCESS)
        return result;
    const struct basic *theirs = types_known(type);
    const struct basic *own = origin->type == type ? theirs : types_known(origin->type);
    if (!types_is_dense(theirs) || !types_is_dense(own))
        return copy_derived(window, way, origin, rank, displacement, count, type);
    if (__builtin_mul_overflow((int64_t)count, (int64_t)theirs->size, &bytes))
        return MPI_ERR_COUNT;
    char *address = direct_target(window, rank, displacement, 0, bytes, &result);
    const struct transfer target = {address, count, type};
    if (result != MPI_SUCCESS)
        return result;
    note(window, way, origin, rank);
    size_t size = bulk_size(window, &target, theirs, origin, own, way);
    if (size)
        window->provider->copy(window, rank, way == DIRECT_PUT, address, origin->address, size);
    else if (way == DIRECT_PUT)
        result = types_copy_dense(&target, theirs, origin, own);
    else
        result = types_copy_dense(origin, own, &target, theirs);
    if (way == DIRECT_PUT)
        direct_count_end(window, rank);
    return result;
}

static int copy_any(struct window *window, enum direct_use way, const struct transfer *origin,
                    int rank, MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    struct transfer host = *origin;
    struct device_copy device;
    int result = check(origin, count);
    if (rank == MPI_PROC_NULL || result != MPI_SUCCESS ||
        (result = device_fetch(&host, &device)) != MPI_SUCCESS)
        return result;
    result = copy(window, way, &host, rank, displacement, count, type);
    int returned = device_return(&device, way == DIRECT_GET && result == MPI_SUCCESS);
    return result != MPI_SUCCESS ? result : returned;
}

int direct_put(struct window *window, const struct transfer *origin, int rank,
               MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    return (device_is_possible() ? copy_any : copy)(window, DIRECT_PUT, origin, rank, displacement,
                                                    count, type);
}

int direct_get(struct window *window, const struct transfer *origin, int rank,
               MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    return (device_is_possible() ? copy_any : copy)(window, DIRECT_GET, origin, rank, displacement,
                                                    count, type);
}
