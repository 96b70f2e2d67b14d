/* mpi_window_death RANK [DIRECTORY [mixed|sync|commit]]: that rank exits while the others wait for
 * it in a fence. They get an error, and what it had allocated is still there. With DIRECTORY the
 * window is on storage; with `mixed` only odd ranks' parts are; with `sync` and `commit` the others
 * wait in onespace_window_sync_all and onespace_window_commit. */
#include <unistd.h>

#include "mpi/guests/mpi_check.h"
#include "onespace/window.h"

#pragma weak onespace_window_sync_all
#pragma weak onespace_window_commit

static int await_all(const char *how, MPI_Win window)
{
    return strcmp(how, "sync") == 0     ? onespace_window_sync_all(window)
           : strcmp(how, "commit") == 0 ? onespace_window_commit(window, NULL)
                                        : MPI_Win_fence(0, window);
}

int main(int argc, char **argv)
{
    enum { SIZE = 8 << 20 };
    MPI_Win window;
    MPI_Info info = MPI_INFO_NULL;
    char *base;
    const char *how = argc > 3 ? argv[3] : "";
    int dying_rank = atoi(argv[1]);
    mpi_begin(&argc, &argv);
    directory = argv[2];
    if (directory) {
        info = hints(path_of("death", rank), PAIRS("alloc_shared_noncontig=true"));
        MPI_Info_set(info, "alloc_type",
                     strcmp(how, "mixed") == 0 && rank % 2 == 0 ? "memory" : "storage");
        MPI_Info_set(info, "storage_alloc_versions", strcmp(how, "commit") == 0 ? "1" : "0");
    }
    MPI_Win_allocate_shared(SIZE, 1, info, world, &base, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    const char *part = part_of(window, dying_rank);
    memset(base, 'a' + rank, SIZE);
    MPI_Win_fence(0, window);
    if (rank == dying_rank)
        _exit(0);
    CHECK(await_all(how, window) != MPI_SUCCESS);
    sleep(1); /* the reaper has unmapped what no task holds */
    for (int i = 0; i < SIZE; i += 4096)
        CHECK(part[i] == 'a' + dying_rank);
    CHECK(MPI_Win_free(&window) != MPI_SUCCESS);
    report();
    _exit(wrong != 0);
}
