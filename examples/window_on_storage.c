/* examples/window_on_storage.c: a window that outlives the program, made durable under an exclusive
 * lock (the paper, Listing 4), and two alternating windows, so that one is always consistent.
 *
 *   mpicc -o window_on_storage window_on_storage.c $(pkg-config --cflags onespace)
 *   mpiexec -n 2 onespace run ./window_on_storage DIRECTORY
 *
 * Each run continues the count of the previous one. */
#include <mpi.h>
#include <onespace/window.h>
#include <stdio.h>

struct state {
    long step, sum;
};

static MPI_Win open_window(const char *directory, int number, int rank, struct state **state)
{
    char path[4096];
    MPI_Info info;
    MPI_Win window;
    snprintf(path, sizeof(path), "%s/state%d.%d", directory, rank, number);
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_type", "storage");
    MPI_Info_set(info, "storage_alloc_filename", path);
    MPI_Win_allocate(sizeof(**state), 1, info, MPI_COMM_WORLD, state, &window);
    MPI_Info_free(&info);
    return window;
}

int main(int argc, char **argv)
{
    int rank;
    struct state *states[2];
    MPI_Win windows[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2; i++)
        windows[i] = open_window(argc > 1 ? argv[1] : ".", i, rank, &states[i]);
    if (!onespace_window_is_on_storage(windows[0])) {
        fprintf(stderr, "Nothing would be saved: start this program with `onespace run`.\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    struct state last = *states[states[1]->step > states[0]->step];
    for (int i = 0; i < 10; i++) {
        last.step++;
        last.sum += last.step;
        int next = (int)(last.step % 2); /* the other one keeps the previous step */
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, windows[next]);
        states[next]->sum = last.sum;
        MPI_Win_sync(windows[next]); /* durable before the step number is */
        states[next]->step = last.step;
        MPI_Win_sync(windows[next]);
        MPI_Win_unlock(rank, windows[next]);
    }
    printf("rank %d: step %ld, sum %ld\n", rank, last.step, last.sum);
    for (int i = 0; i < 2; i++)
        MPI_Win_free(&windows[i]);
    MPI_Finalize();
    return 0;
}
