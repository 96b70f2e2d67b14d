/* src/mpi/types/class.h: classes of MPI's predefined types; nothing here needs MPI. */
#ifndef ONESPACE_MPI_TYPES_CLASS_H
#define ONESPACE_MPI_TYPES_CLASS_H

/* What the elements of a predefined type are; class and size tell how to reduce them. */
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

#endif
