/* examples/checkpoint.c: a field that survives `kill -9`. Each rank has its own range of one file,
 * and after each step all ranks commit one version (docs/checkpoints.md).
 *
 *   mpicc -o checkpoint checkpoint.c $(pkg-config --cflags onespace)
 *   mpiexec -n 2 onespace run ./checkpoint FILE STEPS
 *
 * Kill it and start it again: it continues with the step after the last version. */
#include <mpi.h>
#include <onespace/window.h>
#include <stdio.h>
#include <stdlib.h>
#pragma weak onespace_window_commit /* `onespace run` provides them: nothing to link */
#pragma weak onespace_window_version

enum { CELLS = 100000 }; /* of each rank */

int main(int argc, char **argv)
{
    const MPI_Aint size = CELLS * sizeof(double);
    const uint64_t steps = argc > 2 ? strtoull(argv[2], NULL, 10) : 10;
    char offset[32];
    int rank;
    double *field;
    uint64_t step;
    MPI_Info info;
    MPI_Win window;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(offset, sizeof(offset), "%lld", (long long)rank * (long long)size);
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_type", "storage");
    MPI_Info_set(info, "storage_alloc_filename", argc > 1 ? argv[1] : "field");
    MPI_Info_set(info, "storage_alloc_offset", offset); /* or a file name for each rank */
    MPI_Info_set(info, "storage_alloc_versions", "1");
    MPI_Win_allocate(size, sizeof(double), info, MPI_COMM_WORLD, &field, &window); /* restores */
    MPI_Info_free(&info);
    if (!onespace_window_is_on_storage(window)) {
        fprintf(stderr, "Nothing would be saved: start this program with `onespace run`.\n");
        MPI_Win_free(&window);
        MPI_Finalize();
        return 1;
    }

    onespace_window_version(window, &step); /* 0: there was none, and the field is zero */
    printf("rank %d: continues after step %lu with %g\n", rank, (unsigned long)step, field[0]);
    fflush(stdout);
    while (step < steps) {
        for (int i = 0; i < CELLS; i++)
            field[i] += rank + 1;
        /* Collective. All ranks have stored what belongs to this step; `step` is the version. */
        onespace_window_commit(window, &step);
    }
    printf("rank %d: has done step %lu and holds %g\n", rank, (unsigned long)step, field[0]);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
