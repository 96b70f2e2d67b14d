/* A library whose constructor calls MPI, as libraries of tools do, while another thread does. */
#include <mpi.h>

void constructor_runs(void); /* of the program */

__attribute__((constructor)) static void call_mpi(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int is_complete;
    constructor_runs();
    MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE);
}
