/* src/mpi/rma/put_get.c: MPI_Put and MPI_Get. */
#include "mpi/rma/rma.h"

static int check(const struct buf_desc *origin, MPI_Count count)
{
    return origin->count < 0 || count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS;
}

/* From how many bytes on the provider's own copy is used. */
enum { MANY = 64 << 10, LARGEST_ELEMENT = 32 };

/* The size of a large transfer for which the provider has a copy of its own; else 0. */
static size_t bulk_size(const struct window *window, const struct buf_desc *target,
                        const struct predefined_type *theirs, const struct buf_desc *origin,
                        const struct predefined_type *own, enum rma_kind way)
{
    MPI_Count count = way == RMA_PUT ? origin->count : target->count;
    if (count < MANY / LARGEST_ELEMENT || !window->provider->copy)
        return 0;
    size_t at_target = (size_t)target->count * theirs->size,
           at_origin = (size_t)origin->count * own->size;
    size_t size = way == RMA_PUT ? at_origin : at_target;
    return size >= MANY && size <= (way == RMA_PUT ? at_target : at_origin) ? size : 0;
}

static void note(struct window *window, enum rma_kind way, const struct buf_desc *origin, int rank)
{
    rma_begin_access(window, rank, way, origin);
    if (way == RMA_GET)
        rma_note_get(window);
}

static int copy_derived(struct window *window, enum rma_kind way, const struct buf_desc *origin,
                        int rank, MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    const struct type_layout *theirs, *own;
    int64_t lower, upper;
    int result = type_layout_find(type, &theirs);
    own = theirs;
    if (result == MPI_SUCCESS && type != origin->type)
        result = type_layout_find(origin->type, &own);
    if (result == MPI_SUCCESS)
        result = type_layout_bounds(theirs, count, &lower, &upper);
    if (result != MPI_SUCCESS)
        return result;
    char *address = rma_target_address(window, rank, displacement, lower, upper, &result);
    const struct buf_desc target = {address, count, type};
    if (result != MPI_SUCCESS)
        return result;
    note(window, way, origin, rank);
    result = way == RMA_PUT ? type_layout_copy(&target, theirs, origin, own)
                            : type_layout_copy(origin, own, &target, theirs);
    if (way == RMA_PUT)
        rma_end_store(window, rank);
    return result;
}

/* `way` is RMA_PUT or RMA_GET. */
static int copy(struct window *window, enum rma_kind way, const struct buf_desc *origin, int rank,
                MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    int result = check(origin, count);
    int64_t bytes;
    if (rank == MPI_PROC_NULL || result != MPI_SUCCESS)
        return result;
    const struct predefined_type *theirs = predefined_type_known(type);
    const struct predefined_type *own =
        origin->type == type ? theirs : predefined_type_known(origin->type);
    if (!predefined_type_is_dense(theirs) || !predefined_type_is_dense(own))
        return copy_derived(window, way, origin, rank, displacement, count, type);
    if (__builtin_mul_overflow((int64_t)count, (int64_t)theirs->size, &bytes))
        return MPI_ERR_COUNT;
    char *address = rma_target_address(window, rank, displacement, 0, bytes, &result);
    const struct buf_desc target = {address, count, type};
    if (result != MPI_SUCCESS)
        return result;
    note(window, way, origin, rank);
    size_t size = bulk_size(window, &target, theirs, origin, own, way);
    if (size)
        window->provider->copy(window, rank, way == RMA_PUT, address, origin->address, size);
    else if (way == RMA_PUT)
        result = buf_copy_dense(&target, theirs, origin, own);
    else
        result = buf_copy_dense(origin, own, &target, theirs);
    if (way == RMA_PUT)
        rma_end_store(window, rank);
    return result;
}

static int copy_any(struct window *window, enum rma_kind way, const struct buf_desc *origin,
                    int rank, MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    struct buf_desc host = *origin;
    struct gpu_copy device;
    int result = check(origin, count);
    if (rank == MPI_PROC_NULL || result != MPI_SUCCESS ||
        (result = gpu_copy_in(&host, &device)) != MPI_SUCCESS)
        return result;
    result = copy(window, way, &host, rank, displacement, count, type);
    int returned = gpu_copy_out(&device, way == RMA_GET && result == MPI_SUCCESS);
    return result != MPI_SUCCESS ? result : returned;
}

int rma_put(struct window *window, const struct buf_desc *origin, int rank, MPI_Aint displacement,
            MPI_Count count, MPI_Datatype type)
{
    return (gpu_is_possible() ? copy_any : copy)(window, RMA_PUT, origin, rank, displacement, count,
                                                 type);
}

int rma_get(struct window *window, const struct buf_desc *origin, int rank, MPI_Aint displacement,
            MPI_Count count, MPI_Datatype type)
{
    return (gpu_is_possible() ? copy_any : copy)(window, RMA_GET, origin, rank, displacement, count,
                                                 type);
}
