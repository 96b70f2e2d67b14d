/* src/mpi/types/types.h: MPI's datatypes, as far as loads and stores need to know them. */
#ifndef ONESPACE_MPI_TYPES_TYPES_H
#define ONESPACE_MPI_TYPES_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "mpi/real/real.h"
#include "mpi/types/class.h"

/* A predefined type; never freed. */
struct basic {
    MPI_Datatype type;
    enum type_class class;
    size_t size;   /* bytes of data */
    size_t extent; /* from one element to the next: larger for some pairs */
};

/* The predefined type behind a handle; NULL: a derived type. */
const struct basic *types_basic(MPI_Datatype type);
/* The predefined type that all elements of a derived type have, or NULL when they differ. */
const struct basic *types_element(MPI_Datatype type);

static inline int types_is_dense(const struct basic *basic)
{
    return basic && basic->size == basic->extent;
}

/* One side of a transfer. */
struct transfer {
    void *address;
    MPI_Count count;
    MPI_Datatype type;
};

/* Copies between any two types with the same signature; comm: any communicator of this process. */
int types_copy(const struct transfer *to, const struct transfer *from, MPI_Comm comm);

/* The offset, in bytes from the item's address, of each of the *count predefined elements of a
 * derived type. Freed by the caller; NULL: out of memory, or the type is too large. */
int64_t *types_offsets(MPI_Datatype type, const struct basic *element, size_t *count,
                       MPI_Comm comm);

#endif
