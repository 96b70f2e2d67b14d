/* storage_stale: windows on storage while something happens to their files.
 *
 *   storage_stale DIRECTORY COMMAND
 *
 * Each rank has a file there. Rank 0 runs the command; then all ranks store and synchronise. Prints
 * "rank N: sync: kept", or the class of the error. */
#include "mpi/guests/mpi_check.h"

enum { SIZE = 1 << 20 };

int main(int argc, char **argv)
{
    char path[4096], text[MPI_MAX_ERROR_STRING] = "kept";
    char *base;
    mpi_begin(&argc, &argv);
    snprintf(path, sizeof(path), "%s/part-%d", argv[1], rank);
    MPI_Info info = hints(path, NULL);
    MPI_Win window;
    OK(MPI_Win_allocate(SIZE, 1, info, world, &base, &window));
    info_free(info);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    memset(base, 'a', SIZE);
    OK(MPI_Win_sync(window));
    MPI_Barrier(world);
    if (rank == 0)
        CHECK(system(argv[2]) == 0);
    MPI_Barrier(world);
    memset(base, 'b', SIZE);
    int length, result = MPI_Win_sync(window);
    if (result != MPI_SUCCESS)
        MPI_Error_string(class_of(result), text, &length);
    printf("rank %d: sync: %s\n", rank, text);
    fflush(stdout);
    MPI_Win_free(&window);
    return mpi_end();
}
