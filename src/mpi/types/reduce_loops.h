/* src/mpi/types/reduce_loops.h: the loops of reductions, by operation and type. Needs no MPI. */
#ifndef ONESPACE_MPI_TYPES_REDUCE_LOOPS_H
#define ONESPACE_MPI_TYPES_REDUCE_LOOPS_H

#include <stddef.h>

/* The kind of a predefined type's elements; kind and size decide how to reduce them. */
enum type_class {
    TYPE_BYTES, /* unknown: can only be replaced and fetched */
    TYPE_SIGNED,
    TYPE_UNSIGNED,
    TYPE_FLOATING,
    TYPE_COMPLEX,
    TYPE_LOGICAL,
    TYPE_PAIR_FLOAT, /* a value and an int, as in C: struct { float; int; } */
    TYPE_PAIR_DOUBLE,
    TYPE_PAIR_LONG_DOUBLE,
    TYPE_PAIR_LONG,
    TYPE_PAIR_INT,
    TYPE_PAIR_SHORT,
    TYPE_PAIR_REALS, /* Fortran: two of the same */
    TYPE_PAIR_DOUBLES,
};

/* the reductions' loops, by operation and type; nothing here needs
 * MPI. */

/* target[i] = target[i] OP origin[i] for `count` elements that lie one after another at any
 * alignment. */
typedef void reduce_function(void *target, const void *origin, size_t count);

enum reduce_op {
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
    MAXLOC,
    MINLOC,
    OPERATIONS
};

struct reduce_row {
    enum type_class kind;
    size_t size;                            /* of an element */
    reduce_function *functions[OPERATIONS]; /* NULL: not defined for the type */
};

struct reduce_table {
    const struct reduce_row *rows;
    size_t count;
};

/* For every CPU of the architecture; for x86-64-v3 (256-bit registers) and v4 (512-bit). */
extern const struct reduce_table reduce_table_plain, reduce_table_v3, reduce_table_v4;

#endif
