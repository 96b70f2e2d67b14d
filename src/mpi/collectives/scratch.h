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
};

/* Memory of a communicator for the call in progress. Too much for a stack: threads may have small
 * ones. */
enum { SHORT_MAX = 4096 }; /* bytes of short data */
struct rooms {
    _Alignas(SCRATCH_LINE) char given[SHORT_MAX], got[SHORT_MAX]; /* for the engine; packed data */
    _Alignas(SCRATCH_LINE) char operands[2 * (SCRATCH_ROOM + SCRATCH_LINE)];
};

/* Room for `items` items or, if they are too many for `rooms`, for as many as it has; but for at
 * least `least`. `rooms`: NULL to get all memory from malloc. MPI_SUCCESS or an error class, and
 * nothing to free. */
int scratch_new(struct scratch *scratch, struct rooms *rooms, MPI_Datatype type,
                const struct shape *shape, size_t items, size_t least);
void scratch_free(struct scratch *scratch);

#endif
