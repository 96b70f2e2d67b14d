/* Put, Get, Accumulate and Fetch_and_op on windows made in each way; then loads and stores in
 * shared ones. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 20000 };

static int rank, ranks, wrong;

static void use_window(MPI_Win window, long *base, const char *how)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, before = wrong;
    long *mine = malloc(COUNT * sizeof(long)), one = 1, old = -1;
    for (int i = 0; i < COUNT; i++)
        mine[i] = rank * 100000L + i, base[i] = -1;
    MPI_Win_fence(0, window);
    MPI_Put(mine, COUNT / 2, MPI_LONG, right, 10, COUNT / 2, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++)
        wrong += base[i] != (i >= 10 && i < 10 + COUNT / 2 ? left * 100000L + i - 10 : -1);
    MPI_Win_fence(0, window);
    MPI_Get(mine, COUNT / 2, MPI_LONG, left, 10, COUNT / 2, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT / 2; i++)
        wrong += mine[i] != (left + ranks - 1) % ranks * 100000L + i;
    base[0] = base[1] = base[2] = 0;
    MPI_Win_fence(0, window);
    for (int i = 0; i < 10; i++)
        for (int target = 0; target < ranks; target++)
            MPI_Accumulate(&one, 1, MPI_LONG, target, 0, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    wrong += base[0] != 10L * ranks;
    MPI_Win_fence(0, window);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 1, MPI_SUM, window);
    MPI_Win_unlock(0, window);
    wrong += old < 0 || old >= ranks;
    MPI_Barrier(MPI_COMM_WORLD);
    long total = -1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(&total, 1, MPI_LONG, 0, 1, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    wrong += total != ranks;
    if (wrong != before)
        printf("rank %d: %d wrong with %s\n", rank, wrong - before, how);
    MPI_Barrier(MPI_COMM_WORLD);
    free(mine);
}

static void use_shared(void)
{
    long *base, *theirs;
    int left = (rank + ranks - 1) % ranks, unit;
    MPI_Aint size;
    MPI_Win window;
    MPI_Win_allocate_shared(COUNT * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                            &base, &window);
    use_window(window, base, "MPI_Win_allocate_shared");
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < COUNT; i++)
        base[i] = rank + i;
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
    MPI_Win_shared_query(window, left, &size, &unit, &theirs);
    for (int i = 0; i < COUNT; i++)
        wrong += theirs[i] != left + i;
    wrong += size != (MPI_Aint)(COUNT * sizeof(long)) || unit != sizeof(long);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    static long fixed[COUNT];
    long *base;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 2; i++) {
        MPI_Win_allocate(COUNT * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                         &window);
        use_window(window, base, "MPI_Win_allocate");
        MPI_Win_free(&window);
    }
    MPI_Win_create(fixed, sizeof(fixed), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    use_window(window, fixed, "MPI_Win_create");
    MPI_Win_free(&window);
    use_shared();
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
