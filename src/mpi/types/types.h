/* src/mpi/types/types.h: MPI's datatypes, as far as loads and stores need to know them. */
#ifndef ONESPACE_MPI_TYPES_TYPES_H
#define ONESPACE_MPI_TYPES_TYPES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/real/real.h"
#include "mpi/types/class.h"
#include "onespace/sync/copy.h"

struct layouts;

/* A predefined type; never freed. */
struct basic {
    MPI_Datatype type;
    enum type_class class;
    size_t size;   /* bytes of data */
    size_t extent; /* from one element to the next: larger for some pairs */
    const struct layouts *layouts;
    /* Operations, one bit each, of which it is known whether the library computes them on the type,
     * and those that it computes: written by any thread, `computed` first (release), read in the
     * other order (acquire). All threads find the same. */
    _Atomic unsigned asked, computed;
    struct basic *next; /* in types_basic's table; set before the entry is published */
};

/* The predefined type behind a handle; NULL: a derived type. */
const struct basic *types_basic(MPI_Datatype type);
/* The same, but NULL also for a type that was not asked for yet. Much faster for derived types. */
const struct basic *types_known(MPI_Datatype type);
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

/* Copies between two dense types. MPI_SUCCESS or MPI_ERR_TRUNCATE. */
static inline int types_copy_dense(const struct transfer *to, const struct basic *target,
                                   const struct transfer *from, const struct basic *origin)
{
    size_t size = (size_t)from->count * origin->size;
    if (size > (size_t)to->count * target->size)
        return MPI_ERR_TRUNCATE;
    onespace_copy(to->address, from->address, size);
    return MPI_SUCCESS;
}
/* Copies between any two types with the same signature. MPI_SUCCESS or an error class. */
int types_copy(const struct transfer *to, const struct transfer *from);

#endif
