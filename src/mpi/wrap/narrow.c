/* src/mpi/wrap/narrow.c: see narrow.h. */
#include "mpi/wrap/narrow.h"

#include <limits.h>
#include <stdlib.h>

#include "mpi/collectives/shape.h"

static void fail(int *error, int class)
{
    if (*error == MPI_SUCCESS)
        *error = class;
}

int narrow_one(MPI_Count value, int *error)
{
    if (value >= INT_MIN && value <= INT_MAX)
        return (int)value;
    fail(error, MPI_ERR_COUNT);
    return 0;
}

int narrow_is_root(int root, MPI_Comm comm)
{
    int is_inter = 0, rank = MPI_PROC_NULL;
    if (real()->Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter)
        return root == MPI_ROOT;
    return real()->Comm_rank(comm, &rank) == MPI_SUCCESS && rank == root;
}

static int count_ranks(MPI_Comm comm, int *error)
{
    int is_inter = 0, ranks = 0, result = real()->Comm_test_inter(comm, &is_inter);
    if (result == MPI_SUCCESS)
        result =
            is_inter ? real()->Comm_remote_size(comm, &ranks) : real()->Comm_size(comm, &ranks);
    if (result != MPI_SUCCESS)
        fail(error, result);
    return ranks;
}

int *narrow_all(const void *values, MPI_Comm comm, int *error)
{
    if (!values)
        return NULL;
    int ranks = count_ranks(comm, error);
    int *narrow = malloc(((size_t)ranks + 1) * sizeof(*narrow));
    if (!narrow)
        fail(error, MPI_ERR_NO_MEM);
    for (int i = 0; narrow && i < ranks; i++)
        narrow[i] = narrow_one(places_value(values, 1, i), error);
    return narrow;
}
