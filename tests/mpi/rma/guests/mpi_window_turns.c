/* mpi_window_turns CASE: locks that other ranks take in turns, so that one of them always has one.
 *
 *   shared  all others poll rank 0's part under shared locks until rank 1 has stored there
 *   all     the same, under MPI_Win_lock_all
 *   both    odd ranks lock exclusively, even ranks lock all, 200 times each
 *   held    rank 0 has a shared lock until rank 2 gets one, while rank 1 waits for an exclusive one
 */
#include "mpi/guests/mpi_check.h"

static MPI_Win window;
static int *base;

static void lock(int is_all)
{
    if (is_all)
        OK(MPI_Win_lock_all(0, window));
    else
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window));
}

static void unlock(int is_all)
{
    if (is_all)
        OK(MPI_Win_unlock_all(window));
    else
        OK(MPI_Win_unlock(0, window));
}

static void store_one(void)
{
    int one = 1;
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
    OK(MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
    OK(MPI_Win_unlock(0, window));
}

static void poll(int is_all)
{
    int value = 0;
    MPI_Barrier(world);
    for (double begin = MPI_Wtime(); rank == 1 && MPI_Wtime() < begin + 0.1;)
        ;
    if (rank == 1)
        store_one();
    while (rank != 1 && !value) {
        lock(is_all);
        OK(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
        unlock(is_all);
    }
}

static void both(void)
{
    int value = 0, sum = 0;
    for (int i = 0; i < 200; i++) {
        if (rank % 2) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
            OK(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
            OK(MPI_Win_flush(0, window));
            value++;
            OK(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
            OK(MPI_Win_unlock(0, window));
        } else {
            lock(1);
            OK(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
            OK(MPI_Win_flush_all(window));
            OK(MPI_Get(&sum, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
            OK(MPI_Win_flush_all(window));
            CHECK(value == sum);
            unlock(1);
        }
    }
    MPI_Barrier(world);
    CHECK(rank || *base == 200 * (ranks / 2));
}

static void held(void)
{
    MPI_Comm holders;
    MPI_Comm_split(world, rank == 1, rank, &holders);
    if (rank == 0)
        lock(0);
    MPI_Barrier(world);
    if (rank == 1) {
        store_one();
    } else {
        for (double begin = MPI_Wtime(); MPI_Wtime() < begin + 0.2;) /* rank 1 waits by now */
            ;
        if (rank != 0)
            lock(0);
        MPI_Barrier(holders);
        unlock(0);
    }
    MPI_Comm_free(&holders);
}

int main(int argc, char **argv)
{
    mpi_begin(&argc, &argv);
    OK(MPI_Win_allocate(rank ? 0 : sizeof(int), sizeof(int), MPI_INFO_NULL, world, &base, &window));
    if (rank == 0)
        *base = 0;
    MPI_Barrier(world);
    if (strcmp(argv[1], "both") == 0)
        both();
    else if (strcmp(argv[1], "held") == 0)
        held();
    else
        poll(strcmp(argv[1], "all") == 0);
    OK(MPI_Win_free(&window));
    return mpi_end();
}
