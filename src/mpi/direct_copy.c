/* src/mpi/direct_copy.c: MPI_Put and MPI_Get. */
#include "mpi/direct_count.h"

static int check(const struct transfer *origin, MPI_Count count)
{
    return origin->count < 0 || count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS;
}

int direct_put(struct window *window, const struct transfer *origin, int rank,
               MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    int result = check(origin, count);
    if (rank == MPI_PROC_NULL || result != MPI_SUCCESS)
        return result;
    char *address = direct_target(window, rank, displacement, &result);
    struct transfer target = {address, count, type};
    if (result != MPI_SUCCESS)
        return result;
    direct_count(window, rank, DIRECT_PUT, origin);
    return types_copy(&target, origin, window->self);
}

int direct_get(struct window *window, const struct transfer *origin, int rank,
               MPI_Aint displacement, MPI_Count count, MPI_Datatype type)
{
    int result = check(origin, count);
    if (rank == MPI_PROC_NULL || result != MPI_SUCCESS)
        return result;
    char *address = direct_target(window, rank, displacement, &result);
    struct transfer target = {address, count, type};
    if (result != MPI_SUCCESS)
        return result;
    direct_count(window, rank, DIRECT_GET, origin);
    return types_copy(origin, &target, window->self);
}
