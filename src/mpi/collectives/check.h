/* src/mpi/collectives/check.h: whether all ranks make the same collective call, where the user asks
 * for that by ONESPACE_LOG=check. */
#ifndef ONESPACE_MPI_COLLECTIVES_CHECK_H
#define ONESPACE_MPI_COLLECTIVES_CHECK_H

#include "mpi/collectives/shape.h"
#include "mpi/pmpi/pmpi.h"

struct described {
    const char *name;
    int root;
    MPI_Count count; /* of items; -1: ranks may give different ones */
    MPI_Datatype type;
    MPI_Op op; /* MPI_OP_NULL: none */
    int is_reduction;
    /* In place of count, where MPI has all ranks name the counts of all; else NULL. */
    const struct places *places;
};

/* Collective, if asked for, on the ranks of one space or of several. MPI_SUCCESS; or MPI_ERR_OTHER
 * on all ranks, and a message that names the calls of two ranks that differ; or the error of an
 * exchange. */
int check_call(MPI_Comm comm, const struct described *call);

#endif
