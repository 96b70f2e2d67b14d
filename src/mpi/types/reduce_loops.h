/* src/mpi/types/reduce_loops.h: the reductions' loops, by operation and type; nothing here needs
 * MPI. */
#ifndef ONESPACE_MPI_TYPES_REDUCE_LOOPS_H
#define ONESPACE_MPI_TYPES_REDUCE_LOOPS_H

#include <stddef.h>

#include "mpi/types/class.h"

/* target[i] = target[i] OP origin[i] for `count` elements that lie one after another at any
 * alignment. */
typedef void reduce_function(void *target, const void *origin, size_t count);

enum operation {
    SUM,
    PRODUCT,
    MAXIMUM,
    MINIMUM,
    AND,
    OR,
    XOR,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    MAX_AT,
    MIN_AT,
    OPERATIONS
};

struct reduce_row {
    enum type_class kind;
    size_t size;                            /* of an element; 0: any */
    reduce_function *functions[OPERATIONS]; /* NULL: not defined for the type */
};

struct reduce_table {
    const struct reduce_row *rows;
    size_t count;
};

/* For every CPU of the architecture; for x86-64-v3 (256-bit registers) and v4 (512-bit). */
extern const struct reduce_table reduce_table_plain, reduce_table_v3, reduce_table_v4;

#endif
