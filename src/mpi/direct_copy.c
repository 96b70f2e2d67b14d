/* src/mpi/direct_copy.c: MPI_Put and MPI_Get. */
#include "mpi/direct_count.h"

static int check(const struct transfer *origin, MPI_Count count)
{
    return origin->count < 0 || count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS;
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
    return way == DIRECT_PUT ? types_copy(&target, origin, window->self)
                             : types_copy(origin, &target, window->self);
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
