/* src/mpi/types/class.h: the kinds of MPI's predefined types, told without MPI. */
#ifndef ONESPACE_MPI_TYPES_CLASS_H
#define ONESPACE_MPI_TYPES_CLASS_H

/* What the elements of a predefined type are; with the size it tells how to reduce them. */
enum type_class {
    TYPE_BYTES, /* nothing is known: may be replaced and fetched only */
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

#endif
