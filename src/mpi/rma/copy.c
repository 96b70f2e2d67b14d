/* src/mpi/rma/copy.c: MPI_Put and MPI_Get. */
#include "mpi/rma/count.h"

static int check(const struct transfer *origin, MPI_Count count)
{
    return origin->count < 0 || count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS;
}

/* From how many bytes on the provider's own copy is used. */
enum { MANY = 64 << 10, LARGEST_ELEMENT = 32 };

/* The size of a large transfer of plain data for which the provider has a copy of its own; else 0.
 */
static size_t bulk_size(const struct window *window, const struct transfer *to,
                        const struct transfer *from)
{
    if (from->count < MANY / LARGEST_ELEMENT || !window->provider->copy)
        return 0;
    const struct basic *target = types_basic(to->type), *origin = types_basic(from->type);
    if (!types_is_dense(target) || !types_is_dense(origin))
        return 0;
    size_t size = (size_t)from->count * origin->size;
    return size >= MANY && size <= (size_t)to->count * target->size ? size : 0;
}

/* `way` is DIRECT_PUT or DIRECT_GET. */
static int copy(struct window *window, enum direct_use way, const struct transfer *origin, int rank,
                MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    int result = check(origin, count);
    if (rank == MPI_PROC_NULL || result != MPI_SUCCESS)
        return result;
    char *address = direct_target(window, rank, displacement, &result);
    struct transfer target = {address, count, type};
    if (result != MPI_SUCCESS)
        return result;
    direct_count(window, rank, way, origin);
    if (way == DIRECT_GET)
        direct_note_read(window);
    const struct transfer *to = way == DIRECT_PUT ? &target : origin;
    const struct transfer *from = way == DIRECT_PUT ? origin : &target;
    size_t size = bulk_size(window, to, from);
    if (size)
        window->provider->copy(window, rank, way == DIRECT_PUT, address, origin->address, size);
    else
        result = types_copy(to, from);
    if (way == DIRECT_PUT)
        direct_count_end(window, rank);
    return result;
}

int direct_put(struct window *window, const struct transfer *origin, int rank,
               MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    return copy(window, DIRECT_PUT, origin, rank, displacement, count, type);
}

int direct_get(struct window *window, const struct transfer *origin, int rank,
               MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    return copy(window, DIRECT_GET, origin, rank, displacement, count, type);
}
