/* mpi_types.h: the predefined types and operations of an MPI library, and which types each
 * operation is defined for. */
#ifndef ONESPACE_TESTS_MPI_TYPES_GUESTS_MPI_TYPES_H
#define ONESPACE_TESTS_MPI_TYPES_GUESTS_MPI_TYPES_H

#include <mpi.h>
#include <string.h>

/* Kinds of types, and of operations. */
enum {
    ARITHMETIC = 1,
    ORDER = 2,
    LOGIC = 4,
    BITS = 8,
    PLACE = 16,
    MOVE = 32,
    NONE = MOVE,
    PAIR = PLACE | MOVE,
    COMPLEX = ARITHMETIC | MOVE,
    REAL = COMPLEX | ORDER,
    FORTRAN = REAL | BITS, /* an integer: Open MPI refuses logic */
    INTEGER = FORTRAN | LOGIC,
#ifdef OPEN_MPI
    TRUTH = LOGIC | MOVE,
    PACKED = NONE,
    TRUTH_MASK = 1,
#else
    TRUTH = INTEGER,
    PACKED = INTEGER,
    TRUTH_MASK = 7, /* integers like the others */
#endif
};

struct type_row {
    MPI_Datatype type;
    const char *name;
    int kind;
};
struct operation_row {
    MPI_Op op;
    const char *name;
    int kind; /* a type must have one of these bits */
};
enum { TYPES_MAX = 80, OPS = 14 };

#define ROW(handle, kind)                                                                          \
    {                                                                                              \
        handle, #handle, kind                                                                      \
    }

/* Returns how many the library has. */
static inline int find_types(struct type_row found[TYPES_MAX])
{
    const struct type_row all[] = {
        ROW(MPI_CHAR, INTEGER),
        ROW(MPI_SIGNED_CHAR, INTEGER),
        ROW(MPI_UNSIGNED_CHAR, INTEGER),
        ROW(MPI_WCHAR, NONE),
        ROW(MPI_SHORT, INTEGER),
        ROW(MPI_INT, INTEGER),
        ROW(MPI_LONG, INTEGER),
        ROW(MPI_LONG_LONG, INTEGER),
        ROW(MPI_UNSIGNED_SHORT, INTEGER),
        ROW(MPI_UNSIGNED, INTEGER),
        ROW(MPI_UNSIGNED_LONG, INTEGER),
        ROW(MPI_UNSIGNED_LONG_LONG, INTEGER),
        ROW(MPI_INT8_T, INTEGER),
        ROW(MPI_INT16_T, INTEGER),
        ROW(MPI_INT32_T, INTEGER),
        ROW(MPI_INT64_T, INTEGER),
        ROW(MPI_UINT8_T, INTEGER),
        ROW(MPI_UINT16_T, INTEGER),
        ROW(MPI_UINT32_T, INTEGER),
        ROW(MPI_UINT64_T, INTEGER),
        ROW(MPI_AINT, INTEGER),
        ROW(MPI_OFFSET, INTEGER),
        ROW(MPI_COUNT, INTEGER),
        ROW(MPI_FLOAT, REAL),
        ROW(MPI_DOUBLE, REAL),
        ROW(MPI_LONG_DOUBLE, REAL),
        ROW(MPI_C_BOOL, TRUTH),
        ROW(MPI_CXX_BOOL, TRUTH),
        ROW(MPI_C_FLOAT_COMPLEX, COMPLEX),
        ROW(MPI_C_DOUBLE_COMPLEX, COMPLEX),
        ROW(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX),
        ROW(MPI_CXX_FLOAT_COMPLEX, COMPLEX),
        ROW(MPI_CXX_DOUBLE_COMPLEX, COMPLEX),
        ROW(MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX),
        ROW(MPI_BYTE, INTEGER),
        ROW(MPI_PACKED, PACKED),
        ROW(MPI_FLOAT_INT, PAIR),
        ROW(MPI_DOUBLE_INT, PAIR),
        ROW(MPI_LONG_INT, PAIR),
        ROW(MPI_SHORT_INT, PAIR),
        ROW(MPI_2INT, PAIR),
        ROW(MPI_LONG_DOUBLE_INT, PAIR),
        ROW(MPI_CHARACTER, FORTRAN),
        ROW(MPI_LOGICAL, TRUTH),
        ROW(MPI_INTEGER, FORTRAN),
        ROW(MPI_INTEGER1, FORTRAN),
        ROW(MPI_INTEGER2, FORTRAN),
        ROW(MPI_INTEGER4, FORTRAN),
        ROW(MPI_INTEGER8, FORTRAN),
        ROW(MPI_REAL, REAL),
        ROW(MPI_REAL4, REAL),
        ROW(MPI_REAL8, REAL),
        ROW(MPI_REAL16, NONE),
        ROW(MPI_DOUBLE_PRECISION, REAL),
        ROW(MPI_COMPLEX, COMPLEX),
        ROW(MPI_COMPLEX8, COMPLEX),
        ROW(MPI_COMPLEX16, COMPLEX),
        ROW(MPI_COMPLEX32, NONE),
        ROW(MPI_DOUBLE_COMPLEX, COMPLEX),
        ROW(MPI_2INTEGER, PAIR),
        ROW(MPI_2REAL, PAIR),
        ROW(MPI_2DOUBLE_PRECISION, PAIR),
    };
    int count = 0;
    for (int i = 0; i < (int)(sizeof(all) / sizeof(all[0])); i++)
        if (all[i].type != MPI_DATATYPE_NULL)
            found[count++] = all[i];
    found[count] = (struct type_row){MPI_DATATYPE_NULL, "f90 real", REAL};
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &found[count++].type);
    found[count] = (struct type_row){MPI_DATATYPE_NULL, "f90 complex", COMPLEX};
    MPI_Type_create_f90_complex(6, MPI_UNDEFINED, &found[count++].type);
    found[count] = (struct type_row){MPI_DATATYPE_NULL, "f90 integer", INTEGER};
    MPI_Type_create_f90_integer(9, &found[count++].type);
    return count;
}

static inline void find_operations(struct operation_row found[OPS])
{
    const struct operation_row all[OPS] = {
        ROW(MPI_SUM, ARITHMETIC), ROW(MPI_PROD, ARITHMETIC), ROW(MPI_MAX, ORDER),
        ROW(MPI_MIN, ORDER),      ROW(MPI_LAND, LOGIC),      ROW(MPI_LOR, LOGIC),
        ROW(MPI_LXOR, LOGIC),     ROW(MPI_BAND, BITS),       ROW(MPI_BOR, BITS),
        ROW(MPI_BXOR, BITS),      ROW(MPI_MAXLOC, PLACE),    ROW(MPI_MINLOC, PLACE),
        ROW(MPI_REPLACE, MOVE),   ROW(MPI_NO_OP, MOVE)};
    memcpy(found, all, sizeof(all));
}

#endif
