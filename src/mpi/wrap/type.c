/* src/mpi/wrap/type.c: wraps MPI_Type_free, since the layer keeps what it found out about types. */
#include "mpi/types/layout.h"
#include "mpi/wrap/wrap.h"

WRAP(Type_free)
int MPI_Type_free(MPI_Datatype *type)
{
    if (type)
        layouts_forget(*type);
    return real()->Type_free(type);
}
