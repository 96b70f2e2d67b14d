/* mpi_collectives_differ count|root|operation|call: rank 1 makes another call than the others. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char data[8192];
    int rank, sum, one = 1, result;
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int is_other = rank == 1;
    if (strcmp(what, "count") == 0)
        result = MPI_Bcast(data, is_other ? 4096 : 8192, MPI_BYTE, 0, MPI_COMM_WORLD);
    else if (strcmp(what, "root") == 0)
        result = MPI_Bcast(data, 8, MPI_BYTE, is_other, MPI_COMM_WORLD);
    else if (strcmp(what, "call") == 0 && !is_other)
        result = MPI_Barrier(MPI_COMM_WORLD);
    else
        result = MPI_Allreduce(&one, &sum, 1, MPI_INT,
                               is_other && strcmp(what, "call") != 0 ? MPI_MAX : MPI_SUM,
                               MPI_COMM_WORLD);
    printf("rank %d: %s\n", rank, result == MPI_SUCCESS ? "no error" : "failed");
    MPI_Finalize();
    return 0;
}
