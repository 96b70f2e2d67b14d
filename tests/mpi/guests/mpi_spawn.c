/* mpi_spawn: MPI_Comm_spawn of this program, which starts as an ordinary process; a message comes
 * back. */
#include "mpi/guests/mpi_check.h"

enum { CHILDREN = 2 };

static int parent_of_children(char *program)
{
    MPI_Comm children;
    int value, sum = 0;
    MPI_Comm_spawn(program, MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, world, &children,
                   MPI_ERRCODES_IGNORE);
    for (int i = 0; i < CHILDREN; i++) {
        MPI_Recv(&value, 1, MPI_INT, i, 0, children, MPI_STATUS_IGNORE);
        sum += value;
    }
    MPI_Comm_disconnect(&children);
    printf("sum %d\n", sum);
    return sum != 41 + 42;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    int status = 0;
    mpi_begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL)
        status = parent_of_children(argv[0]);
    else {
        int value = 41 + rank;
        MPI_Send(&value, 1, MPI_INT, 0, 0, parent);
        MPI_Comm_disconnect(&parent);
    }
    MPI_Finalize();
    return status;
}
