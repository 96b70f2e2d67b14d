/* mpi_window_death.c RANK [DIRECTORY [mixed|sync|commit]]: that rank ends without a word while the
 * others wait for it in a fence. They get an error, and what it had allocated is still there. With
 * DIRECTORY the window is on storage; with `mixed` only odd ranks' parts are; with `sync` and
 * `commit` the others wait in onespace_window_sync_all and onespace_window_commit. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    MPI_Aint size;
    int rank, unit, wrong = 0, who = atoi(argv[1]);
    char *base, *theirs;
    const char *how = argc > 3 ? argv[3] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Info info = MPI_INFO_NULL;
    if (argc > 2) { /* on storage */
        char path[4096];
        snprintf(path, sizeof(path), "%s/death%d", argv[2], rank);
        MPI_Info_create(&info);
        MPI_Info_set(info, "alloc_type",
                     strcmp(how, "mixed") == 0 && rank % 2 == 0 ? "memory" : "storage");
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
        MPI_Info_set(info, "storage_alloc_filename", path);
        MPI_Info_set(info, "storage_alloc_versions", strcmp(how, "commit") == 0 ? "1" : "0");
    }
    MPI_Win_allocate_shared(SIZE, 1, info, MPI_COMM_WORLD, &base, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_shared_query(window, who, &size, &unit, &theirs);
    memset(base, 'a' + rank, SIZE);
    MPI_Win_fence(0, window);
    if (rank == who)
        _exit(0);
    wrong += await_all(how, window) == MPI_SUCCESS;
    sleep(1); /* the reaper has unmapped what nobody holds */
    for (int i = 0; i < SIZE; i += 4096)
        wrong += theirs[i] != 'a' + who;
    wrong += MPI_Win_free(&window) == MPI_SUCCESS;
    printf("rank %d: %d wrong\n", rank, wrong);
    fflush(stdout);
    _exit(wrong != 0);
}
