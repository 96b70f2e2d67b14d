/* src/mpi/wrap/collectives_large.c: wraps MPI's collective operations with large counts. */
#include "mpi/wrap/wrap.h"

#include <limits.h>
#include <stdlib.h>

#include "mpi/collectives/communicator.h"
#include "mpi/collectives/operations.h"
#include "mpi/collectives/shape.h"

/* ---- Large counts for functions that take int ---- */

static void fail(int *error, int class)
{
    if (*error == MPI_SUCCESS)
        *error = class;
}

/* The count as int; 0 with *error set if it is too large. */
static int count_to_int(MPI_Count value, int *error)
{
    if (value >= INT_MIN && value <= INT_MAX)
        return (int)value;
    fail(error, MPI_ERR_COUNT);
    return 0;
}

/* Whether this rank is the root, whose arguments count. */
static int is_root_rank(int root, MPI_Comm comm)
{
    int is_inter = 0, rank = MPI_PROC_NULL;
    if (pmpi()->Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter)
        return root == MPI_ROOT;
    return pmpi()->Comm_rank(comm, &rank) == MPI_SUCCESS && rank == root;
}

static int count_ranks(MPI_Comm comm, int *error)
{
    int is_inter = 0, ranks = 0, result = pmpi()->Comm_test_inter(comm, &is_inter);
    if (result == MPI_SUCCESS)
        result =
            is_inter ? pmpi()->Comm_remote_size(comm, &ranks) : pmpi()->Comm_size(comm, &ranks);
    if (result != MPI_SUCCESS)
        fail(error, result);
    return ranks;
}

/* An array of one value per rank (MPI_Count or MPI_Aint) as int; the caller frees it. NULL:
 * `values` is NULL and not significant, or *error is set: a value is too large, or out of memory.
 */
static int *counts_to_int(const void *values, MPI_Comm comm, int *error)
{
    if (!values)
        return NULL;
    int ranks = count_ranks(comm, error);
    int *ints = malloc(((size_t)ranks + 1) * sizeof(*ints));
    if (!ints)
        fail(error, MPI_ERR_NO_MEM);
    for (int i = 0; ints && i < ranks; i++)
        ints[i] = count_to_int(places_value(values, 1, i), error);
    return ints;
}

/* ---- The wrappers ---- */

/* Where the library lacks a function with large counts, the layer calls the one with int counts if
 * the counts fit. */

static int finish(MPI_Comm comm, int error)
{
    pmpi()->Comm_call_errhandler(comm, error);
    return error;
}

/* Those with the arguments of MPI_Allreduce. `ours`: the layer's, of `call`. */
#define REDUCTION(name, ours)                                                                      \
    WRAP(name##_c)                                                                                 \
    int MPI_##name##_c(const void *send, void *receive, MPI_Count count, MPI_Datatype type,        \
                       MPI_Op op, MPI_Comm comm)                                                   \
    {                                                                                              \
        int result = MPI_SUCCESS;                                                                  \
        const struct reduction call = {send, receive, count, type, op, comm};                      \
        if (!communicator_is_left(comm, 1) && (ours))                                              \
            return result;                                                                         \
        if (pmpi()->name##_c)                                                                      \
            return pmpi()->name##_c(send, receive, count, type, op, comm);                         \
        int few_count = count_to_int(count, &result);                                              \
        return result == MPI_SUCCESS ? pmpi()->name(send, receive, few_count, type, op, comm)      \
                                     : finish(comm, result);                                       \
    }
#define BLOCKS (&(const struct places){.count = count})
REDUCTION(Allreduce, collective_reduce(&call, ENGINE_EVERYBODY, &result))
REDUCTION(Reduce_scatter_block, collective_reduce_scatter(&call, BLOCKS, &result))
REDUCTION(Scan, collective_scan(&call, 0, &result))
REDUCTION(Exscan, collective_scan(&call, 1, &result))

WRAP(Allgather_c)
int MPI_Allgather_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
                    MPI_Count receive_count, MPI_Datatype receive_type, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct one from = {(void *)send, send_count, send_type};
    const struct many to = {receive, {.count = receive_count}, receive_type, NULL};
    if (!communicator_is_left(comm, 0) &&
        collective_gather(comm, &from, &to, ENGINE_EVERYBODY, &result))
        return result;
    if (pmpi()->Allgather_c)
        return pmpi()->Allgather_c(send, send_count, send_type, receive, receive_count,
                                   receive_type, comm);
    int few_send_count = count_to_int(send == MPI_IN_PLACE ? 0 : send_count, &result);
    int few_receive_count = count_to_int(receive_count, &result);
    return result == MPI_SUCCESS ? pmpi()->Allgather(send, few_send_count, send_type, receive,
                                                     few_receive_count, receive_type, comm)
                                 : finish(comm, result);
}

WRAP(Allgatherv_c)
int MPI_Allgatherv_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
                     const MPI_Count counts[], const MPI_Aint places[], MPI_Datatype receive_type,
                     MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct one from = {(void *)send, send_count, send_type};
    const struct many to = {receive, {0, counts, places, 1, 1}, receive_type, NULL};
    if (!communicator_is_left(comm, 0) &&
        collective_gather(comm, &from, &to, ENGINE_EVERYBODY, &result))
        return result;
    if (pmpi()->Allgatherv_c)
        return pmpi()->Allgatherv_c(send, send_count, send_type, receive, counts, places,
                                    receive_type, comm);
    int few_send_count = count_to_int(send == MPI_IN_PLACE ? 0 : send_count, &result);
    int *few_counts = counts_to_int(counts, comm, &result);
    int *few_places = counts_to_int(places, comm, &result);
    result = result == MPI_SUCCESS ? pmpi()->Allgatherv(send, few_send_count, send_type, receive,
                                                        few_counts, few_places, receive_type, comm)
                                   : finish(comm, result);
    free(few_counts);
    free(few_places);
    return result;
}

WRAP(Alltoall_c)
int MPI_Alltoall_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
                   MPI_Count receive_count, MPI_Datatype receive_type, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct many from = {(void *)send, {.count = send_count}, send_type, NULL};
    const struct many to = {receive, {.count = receive_count}, receive_type, NULL};
    if (!communicator_is_left(comm, 0) && collective_alltoall(comm, &from, &to, &result))
        return result;
    if (pmpi()->Alltoall_c)
        return pmpi()->Alltoall_c(send, send_count, send_type, receive, receive_count, receive_type,
                                  comm);
    int few_send_count = count_to_int(send == MPI_IN_PLACE ? 0 : send_count, &result);
    int few_receive_count = count_to_int(receive_count, &result);
    return result == MPI_SUCCESS ? pmpi()->Alltoall(send, few_send_count, send_type, receive,
                                                    few_receive_count, receive_type, comm)
                                 : finish(comm, result);
}

/* What MPI_Alltoallv and MPI_Alltoallw take. */
struct few {
    int *send_counts, *send_places, *receive_counts, *receive_places;
};

static void free_few(const struct few *few)
{
    free(few->send_counts);
    free(few->send_places);
    free(few->receive_counts);
    free(few->receive_places);
}

WRAP(Alltoallv_c)
int MPI_Alltoallv_c(const void *send, const MPI_Count send_counts[], const MPI_Aint send_places[],
                    MPI_Datatype send_type, void *receive, const MPI_Count receive_counts[],
                    const MPI_Aint receive_places[], MPI_Datatype receive_type, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct many from = {(void *)send, {0, send_counts, send_places, 1, 1}, send_type, NULL};
    const struct many to = {receive, {0, receive_counts, receive_places, 1, 1}, receive_type, NULL};
    if (!communicator_is_left(comm, 0) && collective_alltoall(comm, &from, &to, &result))
        return result;
    if (pmpi()->Alltoallv_c)
        return pmpi()->Alltoallv_c(send, send_counts, send_places, send_type, receive,
                                   receive_counts, receive_places, receive_type, comm);
    int is_in_place = send == MPI_IN_PLACE;
    struct few few = {
        counts_to_int(is_in_place ? NULL : send_counts, comm, &result),
        counts_to_int(is_in_place ? NULL : send_places, comm, &result),
        counts_to_int(receive_counts, comm, &result),
        counts_to_int(receive_places, comm, &result),
    };
    result = result == MPI_SUCCESS
                 ? pmpi()->Alltoallv(send, few.send_counts, few.send_places, send_type, receive,
                                     few.receive_counts, few.receive_places, receive_type, comm)
                 : finish(comm, result);
    free_few(&few);
    return result;
}

WRAP(Alltoallw_c)
int MPI_Alltoallw_c(const void *send, const MPI_Count send_counts[], const MPI_Aint send_places[],
                    const MPI_Datatype send_types[], void *receive,
                    const MPI_Count receive_counts[], const MPI_Aint receive_places[],
                    const MPI_Datatype receive_types[], MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct many from = {
        (void *)send, {0, send_counts, send_places, 1, 1}, MPI_DATATYPE_NULL, send_types};
    const struct many to = {
        receive, {0, receive_counts, receive_places, 1, 1}, MPI_DATATYPE_NULL, receive_types};
    if (!communicator_is_left(comm, 0) && collective_alltoall(comm, &from, &to, &result))
        return result;
    if (pmpi()->Alltoallw_c)
        return pmpi()->Alltoallw_c(send, send_counts, send_places, send_types, receive,
                                   receive_counts, receive_places, receive_types, comm);
    int is_in_place = send == MPI_IN_PLACE;
    struct few few = {
        counts_to_int(is_in_place ? NULL : send_counts, comm, &result),
        counts_to_int(is_in_place ? NULL : send_places, comm, &result),
        counts_to_int(receive_counts, comm, &result),
        counts_to_int(receive_places, comm, &result),
    };
    result = result == MPI_SUCCESS
                 ? pmpi()->Alltoallw(send, few.send_counts, few.send_places, send_types, receive,
                                     few.receive_counts, few.receive_places, receive_types, comm)
                 : finish(comm, result);
    free_few(&few);
    return result;
}

WRAP(Bcast_c)
int MPI_Bcast_c(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct one data = {buffer, count, type};
    if (!communicator_is_left(comm, 0) &&
        collective_broadcast(comm, &data, collective_root(root), &result))
        return result;
    if (pmpi()->Bcast_c)
        return pmpi()->Bcast_c(buffer, count, type, root, comm);
    int few_count = count_to_int(count, &result);
    return result == MPI_SUCCESS ? pmpi()->Bcast(buffer, few_count, type, root, comm)
                                 : finish(comm, result);
}

WRAP(Gather_c)
int MPI_Gather_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
                 MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct one from = {(void *)send, send_count, send_type};
    const struct many to = {receive, {.count = receive_count}, receive_type, NULL};
    if (!communicator_is_left(comm, 0) &&
        collective_gather(comm, &from, &to, collective_root(root), &result))
        return result;
    if (pmpi()->Gather_c)
        return pmpi()->Gather_c(send, send_count, send_type, receive, receive_count, receive_type,
                                root, comm);
    int is_root = is_root_rank(root, comm);
    int few_send_count = count_to_int(send == MPI_IN_PLACE ? 0 : send_count, &result);
    int few_receive_count = count_to_int(is_root ? receive_count : 0, &result);
    return result == MPI_SUCCESS ? pmpi()->Gather(send, few_send_count, send_type, receive,
                                                  few_receive_count, receive_type, root, comm)
                                 : finish(comm, result);
}

WRAP(Gatherv_c)
int MPI_Gatherv_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
                  const MPI_Count counts[], const MPI_Aint places[], MPI_Datatype receive_type,
                  int root, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct one from = {(void *)send, send_count, send_type};
    const struct many to = {receive, {0, counts, places, 1, 1}, receive_type, NULL};
    if (!communicator_is_left(comm, 0) &&
        collective_gather(comm, &from, &to, collective_root(root), &result))
        return result;
    if (pmpi()->Gatherv_c)
        return pmpi()->Gatherv_c(send, send_count, send_type, receive, counts, places, receive_type,
                                 root, comm);
    int is_root = is_root_rank(root, comm);
    int few_send_count = count_to_int(send == MPI_IN_PLACE ? 0 : send_count, &result);
    int *few_counts = counts_to_int(is_root ? counts : NULL, comm, &result);
    int *few_places = counts_to_int(is_root ? places : NULL, comm, &result);
    result = result == MPI_SUCCESS
                 ? pmpi()->Gatherv(send, few_send_count, send_type, receive, few_counts, few_places,
                                   receive_type, root, comm)
                 : finish(comm, result);
    free(few_counts);
    free(few_places);
    return result;
}

WRAP(Reduce_c)
int MPI_Reduce_c(const void *send, void *receive, MPI_Count count, MPI_Datatype type, MPI_Op op,
                 int root, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct reduction call = {send, receive, count, type, op, comm};
    if (!communicator_is_left(comm, 1) && collective_reduce(&call, collective_root(root), &result))
        return result;
    if (pmpi()->Reduce_c)
        return pmpi()->Reduce_c(send, receive, count, type, op, root, comm);
    int few_count = count_to_int(count, &result);
    return result == MPI_SUCCESS ? pmpi()->Reduce(send, receive, few_count, type, op, root, comm)
                                 : finish(comm, result);
}

WRAP(Reduce_scatter_c)
int MPI_Reduce_scatter_c(const void *send, void *receive, const MPI_Count counts[],
                         MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct reduction call = {send, receive, 0, type, op, comm};
    const struct places places = {.counts = counts, .are_large = 1, .vary = 1};
    if (!communicator_is_left(comm, 1) && collective_reduce_scatter(&call, &places, &result))
        return result;
    if (pmpi()->Reduce_scatter_c)
        return pmpi()->Reduce_scatter_c(send, receive, counts, type, op, comm);
    int *few_counts = counts_to_int(counts, comm, &result);
    result = result == MPI_SUCCESS
                 ? pmpi()->Reduce_scatter(send, receive, few_counts, type, op, comm)
                 : finish(comm, result);
    free(few_counts);
    return result;
}

WRAP(Scatter_c)
int MPI_Scatter_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
                  MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct many from = {(void *)send, {.count = send_count}, send_type, NULL};
    const struct one to = {receive, receive_count, receive_type};
    if (!communicator_is_left(comm, 0) &&
        collective_scatter(comm, &from, &to, collective_root(root), &result))
        return result;
    if (pmpi()->Scatter_c)
        return pmpi()->Scatter_c(send, send_count, send_type, receive, receive_count, receive_type,
                                 root, comm);
    int is_root = is_root_rank(root, comm);
    int few_send_count = count_to_int(is_root ? send_count : 0, &result);
    int few_receive_count = count_to_int(receive == MPI_IN_PLACE ? 0 : receive_count, &result);
    return result == MPI_SUCCESS ? pmpi()->Scatter(send, few_send_count, send_type, receive,
                                                   few_receive_count, receive_type, root, comm)
                                 : finish(comm, result);
}

WRAP(Scatterv_c)
int MPI_Scatterv_c(const void *send, const MPI_Count counts[], const MPI_Aint places[],
                   MPI_Datatype send_type, void *receive, MPI_Count receive_count,
                   MPI_Datatype receive_type, int root, MPI_Comm comm)
{
    int result = MPI_SUCCESS;
    const struct many from = {(void *)send, {0, counts, places, 1, 1}, send_type, NULL};
    const struct one to = {receive, receive_count, receive_type};
    if (!communicator_is_left(comm, 0) &&
        collective_scatter(comm, &from, &to, collective_root(root), &result))
        return result;
    if (pmpi()->Scatterv_c)
        return pmpi()->Scatterv_c(send, counts, places, send_type, receive, receive_count,
                                  receive_type, root, comm);
    int is_root = is_root_rank(root, comm);
    int *few_counts = counts_to_int(is_root ? counts : NULL, comm, &result);
    int *few_places = counts_to_int(is_root ? places : NULL, comm, &result);
    int few_receive_count = count_to_int(receive == MPI_IN_PLACE ? 0 : receive_count, &result);
    result = result == MPI_SUCCESS
                 ? pmpi()->Scatterv(send, few_counts, few_places, send_type, receive,
                                    few_receive_count, receive_type, root, comm)
                 : finish(comm, result);
    free(few_counts);
    free(few_places);
    return result;
}
