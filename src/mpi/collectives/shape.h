/* src/mpi/collectives/shape.h: data as a rank describes it to MPI, and as it is read by others. */
#ifndef ONESPACE_MPI_COLLECTIVES_SHAPE_H
#define ONESPACE_MPI_COLLECTIVES_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#include "mpi/collectives/engine.h"
#include "mpi/types/types.h"

/* Of a datatype. */
struct shape {
    size_t size;                  /* bytes of data in an item */
    ptrdiff_t extent;             /* from one item to the next */
    const struct loop_nest *form; /* NULL: items are dense, one after another */
};

/* Where in a buffer the data from or for each rank is. */
struct places {
    MPI_Count count;                    /* items of each rank, without `counts` */
    const void *counts, *displacements; /* NULL; or of int, or MPI_Count and MPI_Aint */
    int are_large;
    int vary; /* that the call has `counts`, on ranks too where they mean nothing and may be NULL */
};

/* One of int or, if they are large, of MPI_Count or MPI_Aint. */
int64_t places_value(const void *values, int are_large, int index);
MPI_Count places_count(const struct places *places, int rank);
/* In items; of Alltoallw in bytes. */
ptrdiff_t places_at(const struct places *places, int rank);
/* Whether no count is negative. */
int places_are_valid(const struct places *places, int ranks);

/* MPI_SUCCESS, or the class of what is wrong with the type. */
int shape_find(MPI_Datatype type, struct shape *shape);
/* The same of a type whose shape was found: MPI_ERR_TYPE if the program has not committed it. */
int shape_check_committed(MPI_Datatype type);

/* Data in memory. */
struct piece {
    char *address;
    MPI_Count count; /* of items */
    struct shape shape;
};

static inline size_t piece_bytes(const struct piece *piece)
{
    return (size_t)piece->count * piece->shape.size;
}
static inline struct engine_part piece_part(const struct piece *piece)
{
    return (struct engine_part){piece->address, piece_bytes(piece), piece->shape.form};
}
/* Bytes without a type. */
static inline struct piece piece_of_bytes(const void *address, size_t bytes)
{
    return (struct piece){(char *)address, (MPI_Count)bytes, {1, 1, NULL}};
}
/* MPI_SUCCESS or an error class; MPI_ERR_TRUNCATE: there is more than the piece can hold. */
int piece_fill(const struct piece *piece, const struct engine_part *from);
static inline int piece_copy(const struct piece *to, const struct piece *from)
{
    const struct engine_part part = piece_part(from);
    return piece_fill(to, &part);
}
/* Its data in one piece, to `to`, which has room for it. */
int piece_pack(const struct piece *piece, void *to);

#endif
