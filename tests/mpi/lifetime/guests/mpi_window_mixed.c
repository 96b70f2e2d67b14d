/* mpi_window_mixed WHAT [DIRECTORY]: windows of communicators in which some ranks lack the MPI
 * layer. All ranks must use the MPI library's windows then, whatever each of them knows or asks
 * for.
 *
 *   spawn    this program spawns two processes and creates windows with them
 *   plain    windows of world
 *   hints    as plain; rank 0 asks for storage, the others give no hints
 *   storage  as plain; all ask for storage
 *   ended    a rank ends after one of two others has created a window with it */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

/* Returns whether the window is on storage. */
static int use_window(MPI_Comm comm, int asks)
{
    enum { COUNT = 100 };
    MPI_Win window;
    MPI_Info found, info = MPI_INFO_NULL;
    int own, all, flag = 0;
    long *base;
    char value[MPI_MAX_INFO_VAL];
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &all);
    if (asks)
        info = hints(path_of("part", own), NULL);
    OK(MPI_Win_allocate(COUNT * sizeof(long), sizeof(long), info, comm, &base, &window));
    info_free(info);
    long number = own;
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put(&number, 1, MPI_LONG, (own + 1) % all, 3, 1, MPI_LONG, window));
    OK(MPI_Win_fence(0, window));
    CHECK(base[3] == (own + all - 1) % all);
    OK(MPI_Win_get_info(window, &found));
    MPI_Info_get(found, "alloc_type", MPI_MAX_INFO_VAL - 1, value, &flag);
    MPI_Info_free(&found);
    OK(MPI_Win_free(&window));
    return flag && strcmp(value, "storage") == 0;
}

static void spawn(char *program, char **arguments)
{
    MPI_Comm parent, others, all, copy;
    MPI_Comm_get_parent(&parent);
    int is_parent = parent == MPI_COMM_NULL;
    if (is_parent)
        MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, world, &others,
                       MPI_ERRCODES_IGNORE);
    else
        others = parent;
    MPI_Intercomm_merge(others, !is_parent, &all);
    MPI_Comm_dup(all, &copy);
    use_window(all, 0);
    use_window(copy, is_parent && directory);
    use_window(world, 0);
    use_window(copy, 0);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&others);
}

static void await_end(int pid)
{
    for (int i = 0; i < 3000 && (kill(pid, 0) == 0 || errno != ESRCH); i++)
        usleep(10000);
}

/* Three ranks: 0 and 2 create a window, 2 ends, 0 and 1 create one. */
static void outlive(void)
{
    MPI_Comm first, second;
    int pid = getpid();
    MPI_Comm_split(world, rank == 1, 0, &first);
    MPI_Comm_split(world, rank == 2, 0, &second);
    MPI_Bcast(&pid, 1, MPI_INT, 2, world);
    if (rank != 1)
        use_window(first, 0);
    MPI_Barrier(world);
    if (rank == 2)
        _exit(0);
    await_end(pid);
    use_window(second, 0);
    report();
    _exit(wrong != 0);
}

int main(int argc, char **argv)
{
    const char *what = argv[1];
    directory = argc > 2 ? argv[2] : NULL;
    mpi_begin(&argc, &argv);
    int asks = strcmp(what, "storage") == 0 || (strcmp(what, "hints") == 0 && rank == 0);
    if (strcmp(what, "ended") == 0)
        outlive();
    if (strcmp(what, "spawn") == 0)
        spawn(argv[0], argv + 1);
    else
        for (int i = 0; i < 2; i++)
            if (use_window(world, asks) && i == 0)
                printf("rank %d: on storage\n", rank);
    return mpi_end();
}
