/* src/mpi/collectives/scratch.h: memory of this rank in which operands of a reduction are combined.
 *
 * A function of the program gets items as they lie in the program's own buffers: at the distances
 * and with the gaps of the call's type, which may begin before the item's address. So do the loops
 * of predefined operations, on the pairs that have gaps. */
#ifndef ONESPACE_MPI_COLLECTIVES_SCRATCH_H
#define ONESPACE_MPI_COLLECTIVES_SCRATCH_H

#include "mpi/collectives/shape.h"

/* Bytes of an operand that need no memory of malloc; two of them stay in any first-level cache. */
enum { SCRATCH_ROOM = 8192, SCRATCH_LINE = 64 };

struct scratch {
    char *sum, *next; /* two operands: the addresses of their first items, aligned for any type */
    size_t items;     /* room in each */
    void *memory;     /* of malloc, or NULL */
    _Alignas(SCRATCH_LINE) char room[2 * (SCRATCH_ROOM + SCRATCH_LINE)];
};

/* Room for `items` items or, if they are too many for `room`, for as many as it has; but for at
 * least `least`. MPI_SUCCESS or an error class, and nothing to free. */
int scratch_new(struct scratch *scratch, MPI_Datatype type, const struct shape *shape, size_t items,
                size_t least);
void scratch_free(struct scratch *scratch);

#endif
