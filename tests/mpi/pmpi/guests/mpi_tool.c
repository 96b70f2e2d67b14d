/* A profiling tool: a library that wraps an MPI function, linked in front of the MPI library. */
#include <mpi.h>
#include <stdio.h>

int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                            MPI_Win *window)
{
    fprintf(stderr, "tool: a window\n");
    return PMPI_Win_allocate_shared(size, unit, info, comm, base, window);
}
