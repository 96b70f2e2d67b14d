/* mpi_window_errors checked|unchecked: puts, gets and accumulating calls beyond the target's part
 * are errors, as are those with wrong arguments, and those outside of an epoch where the library
 * checks epochs. None of them stores anything. */
#include <limits.h>

#include "mpi/guests/mpi_check.h"

enum { COUNT = 10 };

static MPI_Win window;
static long *base, value = 7, fetched, compare;
static int outside; /* what a call outside of an epoch returns */
static MPI_Datatype every_other, backwards, uncommitted;
static long pair[4], fetched_pair[4];
#ifdef OPEN_MPI
enum { swaps_numbers = MPI_SUCCESS };
#else
enum { swaps_numbers = MPI_ERR_TYPE };
#endif

#define GIVES(expected, call)                                                                      \
    check(class_of(call) == (expected), #call " gives " #expected, __LINE__)

static int put(MPI_Aint displacement, int count, MPI_Datatype type)
{
    long data[4 * COUNT] = {1};
    return MPI_Put(data, count, type, next_rank, displacement, count, type, window);
}

static int get(MPI_Aint displacement, int count, MPI_Datatype type)
{
    long data[4 * COUNT];
    return MPI_Get(data, count, type, next_rank, displacement, count, type, window);
}

static int accumulate(MPI_Aint displacement, int count, MPI_Datatype type)
{
    long data[4 * COUNT] = {1};
    return MPI_Accumulate(data, count, type, next_rank, displacement, count, type, MPI_SUM, window);
}

static int fetch(MPI_Aint displacement)
{
    return MPI_Fetch_and_op(&value, &fetched, MPI_LONG, next_rank, displacement, MPI_SUM, window);
}

static int swap(MPI_Aint displacement)
{
    return MPI_Compare_and_swap(&value, &compare, &fetched, MPI_LONG, next_rank, displacement,
                                window);
}

static int put_with_request(MPI_Aint displacement)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int result =
        MPI_Rput(&value, 1, MPI_LONG, next_rank, displacement, 1, MPI_LONG, window, &request);
    if (request != MPI_REQUEST_NULL)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    return result;
}

/* Within an epoch. */
static void ranges(void)
{
    GIVES(MPI_SUCCESS, put(0, COUNT, MPI_LONG));
    GIVES(MPI_SUCCESS, put(COUNT - 1, 1, MPI_LONG));
    GIVES(MPI_SUCCESS, get(COUNT - 1, sizeof(long), MPI_BYTE));
    GIVES(MPI_ERR_RMA_RANGE, put(COUNT, 1, MPI_LONG));
    GIVES(MPI_ERR_RMA_RANGE, put(COUNT, 1, MPI_BYTE));
    GIVES(MPI_ERR_RMA_RANGE, put(1, COUNT, MPI_LONG));
    GIVES(MPI_ERR_RMA_RANGE, get(COUNT - 1, sizeof(long) + 1, MPI_BYTE));
    GIVES(MPI_ERR_RMA_RANGE, get(LONG_MAX / 4, 1, MPI_BYTE));
    GIVES(MPI_ERR_RMA_RANGE, accumulate(COUNT, 1, MPI_LONG));
    GIVES(MPI_ERR_RMA_RANGE, fetch(COUNT));
    GIVES(MPI_ERR_RMA_RANGE, swap(COUNT));
    GIVES(MPI_ERR_RMA_RANGE, put_with_request(COUNT));
    GIVES(MPI_ERR_DISP, put(-1, 1, MPI_LONG));
    GIVES(MPI_ERR_RANK, MPI_Put(&value, 1, MPI_LONG, ranks, 0, 1, MPI_LONG, window));
    GIVES(MPI_ERR_TYPE, put(0, 1, MPI_DATATYPE_NULL));
    GIVES(MPI_ERR_TYPE, put(0, 1, uncommitted));
    GIVES(MPI_ERR_TYPE, MPI_Get(pair, 2, MPI_LONG, next_rank, 0, 1, uncommitted, window));
    GIVES(MPI_ERR_TYPE, MPI_Put(pair, 1, uncommitted, next_rank, 0, 2, MPI_LONG, window));
    GIVES(MPI_ERR_TYPE, accumulate(0, 1, uncommitted));
    GIVES(MPI_ERR_TYPE,
          MPI_Fetch_and_op(pair, fetched_pair, every_other, next_rank, 0, MPI_SUM, window));
    GIVES(MPI_ERR_OP,
          MPI_Accumulate(&value, 1, MPI_LONG, next_rank, 0, 1, MPI_LONG, MPI_NO_OP, window));
    GIVES(swaps_numbers,
          MPI_Compare_and_swap(&value, &compare, &fetched, MPI_DOUBLE, next_rank, 0, window));
    GIVES(MPI_ERR_TYPE, accumulate(0, 1, MPI_DATATYPE_NULL));
    GIVES(MPI_ERR_COUNT, MPI_Get_accumulate(&value, 1, MPI_LONG, &fetched, -1, MPI_LONG, next_rank,
                                            0, 1, MPI_LONG, MPI_SUM, window));
    /* Derived types: their data, not their extent. */
    GIVES(MPI_SUCCESS, put(COUNT - 3, 1, every_other));
    GIVES(MPI_ERR_RMA_RANGE, put(COUNT - 2, 1, every_other));
    GIVES(MPI_SUCCESS, get(1, 1, backwards));
    GIVES(MPI_ERR_RMA_RANGE, get(0, 1, backwards));
    GIVES(MPI_ERR_RMA_RANGE, accumulate(COUNT - 2, 1, every_other));
    /* Nothing is accessed. */
    GIVES(MPI_SUCCESS, put(COUNT + 1, 0, MPI_LONG));
    GIVES(MPI_SUCCESS, MPI_Put(&value, 1, MPI_LONG, MPI_PROC_NULL, COUNT, 1, MPI_LONG, window));
}

static void outside_of_epochs(void)
{
    GIVES(outside, put(0, 1, MPI_LONG));
    GIVES(outside, get(0, 1, MPI_LONG));
    GIVES(outside, accumulate(0, 1, MPI_LONG));
    GIVES(outside, fetch(0));
    GIVES(outside, swap(0));
    GIVES(outside, put_with_request(0));
    GIVES(outside, MPI_Win_flush(next_rank, window));
    GIVES(outside, MPI_Win_flush_all(window));
    GIVES(MPI_SUCCESS, MPI_Put(&value, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, window));
}

static void passive(void)
{
    outside_of_epochs();
    OK(MPI_Win_lock(MPI_LOCK_SHARED, next_rank, 0, window));
    ranges();
    OK(MPI_Win_flush(next_rank, window));
    GIVES(MPI_ERR_RANK, MPI_Win_flush(ranks, window));
    GIVES(MPI_ERR_RANK, MPI_Win_flush_local(ranks, window));
    OK(MPI_Win_flush(MPI_PROC_NULL, window));
    OK(MPI_Win_unlock(next_rank, window));
    outside_of_epochs();
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, window));
    ranges();
    OK(MPI_Win_unlock_all(window));
    outside_of_epochs();
}

static void started(void)
{
    MPI_Group all, group, peers;
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &next_rank, &group);
    MPI_Group_incl(all, 1, &previous_rank, &peers);
    OK(MPI_Win_post(peers, 0, window));
    OK(MPI_Win_start(group, 0, window));
    ranges();
    GIVES(outside, MPI_Put(&value, 1, MPI_LONG, rank, 0, 1, MPI_LONG, window));
    OK(MPI_Win_complete(window));
    OK(MPI_Win_wait(window));
    outside_of_epochs();
    MPI_Group_free(&all);
    MPI_Group_free(&group);
    MPI_Group_free(&peers);
}

int main(int argc, char **argv)
{
    mpi_begin(&argc, &argv);
    outside = strcmp(argv[1], "checked") == 0 ? MPI_ERR_RMA_SYNC : MPI_SUCCESS;
    MPI_Type_vector(2, 1, 2, MPI_LONG, &every_other);
    MPI_Type_create_hindexed(1, (int[]){1}, (MPI_Aint[]){-(MPI_Aint)sizeof(long)}, MPI_LONG,
                             &backwards);
    MPI_Type_contiguous(2, MPI_LONG, &uncommitted);
    MPI_Type_commit(&every_other);
    MPI_Type_commit(&backwards);
    OK(MPI_Win_allocate(COUNT * sizeof(long), sizeof(long), MPI_INFO_NULL, world, &base, &window));
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    passive();
    MPI_Barrier(world);
    OK(MPI_Win_fence(0, window));
    ranges();
    OK(MPI_Win_fence(0, window));
    OK(put(0, 1, MPI_LONG));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window));
    outside_of_epochs();
    MPI_Barrier(world);
    started();
    OK(MPI_Win_free(&window));
    MPI_Type_free(&every_other);
    MPI_Type_free(&backwards);
    MPI_Type_free(&uncommitted);
    return mpi_end();
}
