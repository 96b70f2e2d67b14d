/* src/mpi/rma/put_get.c: MPI_Put and MPI_Get. */
#include "mpi/rma/rma.h"

static int check_counts(const struct buf_desc *origin, MPI_Count target_count)
{
    return origin->count < 0 || target_count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS;
}

/* The provider's own copy function serves copies of at least this size. */
enum { BULK_MIN_BYTES = 64 << 10, ELEMENT_MAX_BYTES = 32 };

/* The bytes of a copy that the provider's own function serves; 0: it does not. */
static size_t bulk_size(const struct window *window, const struct buf_desc *target,
                        const struct predefined_type *target_type, const struct buf_desc *origin,
                        const struct predefined_type *origin_type, enum rma_kind kind)
{
    MPI_Count target_count = kind == RMA_PUT ? origin->count : target->count;
    if (target_count < BULK_MIN_BYTES / ELEMENT_MAX_BYTES || !window->provider->copy)
        return 0;
    size_t at_target = items_size(target->count, target_type->size),
           at_origin = items_size(origin->count, origin_type->size);
    size_t size = kind == RMA_PUT ? at_origin : at_target;
    return size >= BULK_MIN_BYTES && size <= (kind == RMA_PUT ? at_target : at_origin) ? size : 0;
}

static void begin_access(struct window *window, enum rma_kind kind, const struct buf_desc *origin,
                         int target_rank)
{
    rma_begin_access(window, target_rank, kind, origin);
    if (kind == RMA_GET)
        rma_note_get(window);
}

static int copy_derived(struct window *window, enum rma_kind kind, const struct buf_desc *origin,
                        int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                        MPI_Datatype target_datatype)
{
    const struct type_layout *target_type, *origin_type;
    int64_t lower, upper;
    int result = type_layout_find_committed(target_datatype, &target_type);
    origin_type = target_type;
    if (result == MPI_SUCCESS && target_datatype != origin->type)
        result = type_layout_find_committed(origin->type, &origin_type);
    if (result == MPI_SUCCESS)
        result = type_layout_bounds(target_type, target_count, &lower, &upper);
    if (result != MPI_SUCCESS)
        return result;
    char *address = rma_target_address(window, target_rank, target_disp, lower, upper, &result);
    const struct buf_desc target = {address, target_count, target_datatype};
    if (result != MPI_SUCCESS)
        return result;
    begin_access(window, kind, origin, target_rank);
    result = kind == RMA_PUT ? type_layout_copy(&target, target_type, origin, origin_type)
                             : type_layout_copy(origin, origin_type, &target, target_type);
    if (kind == RMA_PUT)
        rma_end_store(window, target_rank);
    return result;
}

/* kind: RMA_PUT or RMA_GET. */
static int copy(struct window *window, enum rma_kind kind, const struct buf_desc *origin,
                int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                MPI_Datatype target_datatype)
{
    int result = check_counts(origin, target_count);
    int64_t bytes;
    if (target_rank == MPI_PROC_NULL || result != MPI_SUCCESS)
        return result;
    const struct predefined_type *target_type = predefined_type_known(target_datatype);
    const struct predefined_type *origin_type =
        origin->type == target_datatype ? target_type : predefined_type_known(origin->type);
    if (!predefined_type_is_dense(target_type) || !predefined_type_is_dense(origin_type))
        return copy_derived(window, kind, origin, target_rank, target_disp, target_count,
                            target_datatype);
    if (__builtin_mul_overflow((int64_t)target_count, (int64_t)target_type->size, &bytes))
        return MPI_ERR_COUNT;
    char *address = rma_target_address(window, target_rank, target_disp, 0, bytes, &result);
    const struct buf_desc target = {address, target_count, target_datatype};
    if (result != MPI_SUCCESS)
        return result;
    begin_access(window, kind, origin, target_rank);
    size_t size = bulk_size(window, &target, target_type, origin, origin_type, kind);
    if (size)
        window->provider->copy(window, target_rank, kind == RMA_PUT, address, origin->address,
                               size);
    else if (kind == RMA_PUT)
        result = buf_copy_dense(&target, target_type, origin, origin_type);
    else
        result = buf_copy_dense(origin, origin_type, &target, target_type);
    if (kind == RMA_PUT)
        rma_end_store(window, target_rank);
    return result;
}

static int copy_from_any_memory(struct window *window, enum rma_kind kind,
                                const struct buf_desc *origin, int target_rank,
                                MPI_Aint target_disp, MPI_Count target_count,
                                MPI_Datatype target_datatype)
{
    struct buf_desc host = *origin;
    struct gpu_copy device;
    int result = check_counts(origin, target_count);
    if (target_rank == MPI_PROC_NULL || result != MPI_SUCCESS ||
        (result = gpu_copy_in(&host, &device)) != MPI_SUCCESS)
        return result;
    result = copy(window, kind, &host, target_rank, target_disp, target_count, target_datatype);
    int returned = gpu_copy_out(&device, kind == RMA_GET && result == MPI_SUCCESS);
    return result != MPI_SUCCESS ? result : returned;
}

int rma_put(struct window *window, const struct buf_desc *origin, int target_rank,
            MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype)
{
    return (gpu_is_possible() ? copy_from_any_memory : copy)(
        window, RMA_PUT, origin, target_rank, target_disp, target_count, target_datatype);
}

int rma_get(struct window *window, const struct buf_desc *origin, int target_rank,
            MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype)
{
    return (gpu_is_possible() ? copy_from_any_memory : copy)(
        window, RMA_GET, origin, target_rank, target_disp, target_count, target_datatype);
}
