/* src/mpi/types/contents.h: how a derived type was made. */
#ifndef ONESPACE_MPI_TYPES_CONTENTS_H
#define ONESPACE_MPI_TYPES_CONTENTS_H

#include "mpi/types/types.h"

/* The arguments of a constructor. `number` has those that are integers or counts, in the order in
 * which MPI_Type_get_contents gives the integers of a type that was made without large counts. Not
 * to be copied: the lists may be in `few`. */
struct contents {
    int combiner;
    MPI_Count integers, addresses, counts, types;
    int64_t *number, *address;
    MPI_Datatype *type;
    int64_t few[48]; /* room for a short list, where these are then */
};

/* MPI_SUCCESS, or an error class, and there is nothing to free. */
int contents_read(MPI_Datatype type, struct contents *contents);
/* Frees the handles of inner types, too. */
void contents_free(struct contents *contents);

#endif
