/* mpi_onesided: MPI_Put, MPI_Get, MPI_Accumulate and MPI_Fetch_and_op on windows made in each way;
 * then loads and stores in shared ones. */
#include "mpi/guests/mpi_check.h"

enum { COUNT = 20000 };

static void use_window(MPI_Win window, long *base)
{
    long *data = malloc(COUNT * sizeof(long)), one = 1, old = -1, total = -1;
    for (int i = 0; i < COUNT; i++)
        data[i] = rank * 100000L + i, base[i] = -1;
    MPI_Win_fence(0, window);
    MPI_Put(data, COUNT / 2, MPI_LONG, next_rank, 10, COUNT / 2, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++)
        CHECK(base[i] == (i >= 10 && i < 10 + COUNT / 2 ? previous_rank * 100000L + i - 10 : -1));
    MPI_Win_fence(0, window);
    MPI_Get(data, COUNT / 2, MPI_LONG, previous_rank, 10, COUNT / 2, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT / 2; i++)
        CHECK(data[i] == (previous_rank + ranks - 1) % ranks * 100000L + i);
    base[0] = base[1] = base[2] = 0;
    MPI_Win_fence(0, window);
    for (int i = 0; i < 10; i++)
        for (int target = 0; target < ranks; target++)
            MPI_Accumulate(&one, 1, MPI_LONG, target, 0, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    CHECK(base[0] == 10L * ranks);
    MPI_Win_fence(0, window);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 1, MPI_SUM, window);
    MPI_Win_unlock(0, window);
    CHECK(old >= 0 && old < ranks);
    MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(&total, 1, MPI_LONG, 0, 1, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    CHECK(total == ranks);
    MPI_Barrier(world);
    free(data);
}

static void load_and_store(MPI_Win window, long *base)
{
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < COUNT; i++)
        base[i] = rank + i;
    MPI_Win_sync(window);
    MPI_Barrier(world);
    MPI_Win_sync(window);
    const long *part = (long *)part_of(window, previous_rank);
    for (int i = 0; i < COUNT; i++)
        CHECK(part[i] == previous_rank + i);
    MPI_Barrier(world);
    MPI_Win_unlock_all(window);
}

int main(int argc, char **argv)
{
    static long fixed[COUNT];
    enum { UNIT = sizeof(long), BYTES = COUNT * UNIT };
    long *base;
    MPI_Win window;
    mpi_begin(&argc, &argv);
    for (int i = 0; i < 2; i++) {
        MPI_Win_allocate(BYTES, UNIT, MPI_INFO_NULL, world, &base, &window);
        use_window(window, base);
        MPI_Win_free(&window);
    }
    MPI_Win_create(fixed, BYTES, UNIT, MPI_INFO_NULL, world, &window);
    use_window(window, fixed);
    MPI_Win_free(&window);
    MPI_Win_allocate_shared(BYTES, UNIT, MPI_INFO_NULL, world, &base, &window);
    use_window(window, base);
    load_and_store(window, base);
    MPI_Win_free(&window);
    return mpi_end();
}
