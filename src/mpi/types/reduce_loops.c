/* src/mpi/types/reduce_loops.c: one small loop per operation and type, made by macros.
 *
 * Compiled once for each level of CPUs with wider registers; reduce.c chooses the best table that
 * runs here. Nothing is contracted (x * y + z in one rounding), so that all levels give the same
 * bits. */
#include "mpi/types/reduce_loops.h"

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

/* Elements may be unaligned, and the program may access them as another type. The attributes are
 * those of a structure: in a declaration of a pointer they would be the pointer's, and a typedef of
 * a structure ignores them. */
#define LOOP(name, operation, type, expression)                                                    \
    static void name##_##operation(void *target, const void *origin, size_t count)                 \
    {                                                                                              \
        struct element {                                                                           \
            type value;                                                                            \
        } __attribute__((packed, may_alias)) *to = target;                                         \
        const struct element *from = origin;                                                       \
        for (size_t i = 0; i < count; i++) {                                                       \
            type a = to[i].value, b = from[i].value;                                               \
            to[i].value = (type)(expression);                                                      \
        }                                                                                          \
    }

#define ARITHMETIC(name, type)                                                                     \
    LOOP(name, SUM, type, a + b)                                                                   \
    LOOP(name, PRODUCT, type, a *b)

#define ORDER(name, type)                                                                          \
    LOOP(name, MAXIMUM, type, a > b ? a : b)                                                       \
    LOOP(name, MINIMUM, type, a < b ? a : b)

#define LOGIC(name, type)                                                                          \
    LOOP(name, AND, type, a &&b)                                                                   \
    LOOP(name, OR, type, a || b)                                                                   \
    LOOP(name, XOR, type, !a != !b)

#define BITS(name, type)                                                                           \
    LOOP(name, BIT_AND, type, a &b)                                                                \
    LOOP(name, BIT_OR, type, a | b)                                                                \
    LOOP(name, BIT_XOR, type, a ^ b)

/* Stores the two members, because the padding of a pair may be the program's. */
#define PAIR_LOOP(name, operation, keeps_target)                                                   \
    static void name##_##operation(void *target, const void *origin, size_t count)                 \
    {                                                                                              \
        struct element {                                                                           \
            struct name value;                                                                     \
        } __attribute__((packed, may_alias)) *to = target;                                         \
        const struct element *from = origin;                                                       \
        for (size_t i = 0; i < count; i++) {                                                       \
            struct name a = to[i].value, b = from[i].value;                                        \
            to[i].value.value = keeps_target ? a.value : b.value;                                  \
            to[i].value.index = keeps_target ? a.index : b.index;                                  \
        }                                                                                          \
    }

/* MPI_MAXLOC, MPI_MINLOC: of equal values the one with the lower index. */
#define PAIR(name, value_type, index_type)                                                         \
    struct name {                                                                                  \
        value_type value;                                                                          \
        index_type index;                                                                          \
    };                                                                                             \
    PAIR_LOOP(name, MAXLOC, (a.value > b.value || (a.value == b.value && a.index <= b.index)))     \
    PAIR_LOOP(name, MINLOC, (a.value < b.value || (a.value == b.value && a.index <= b.index)))

#define WHOLE(name, type)                                                                          \
    ARITHMETIC(name, type)                                                                         \
    ORDER(name, type)                                                                              \
    LOGIC(name, type)                                                                              \
    BITS(name, type)

/* Sums of signed integers wrap around, as in every MPI library: computed as unsigned. */
#define SIGNED(name, type, unsigned_type)                                                          \
    LOOP(name, SUM, type, (unsigned_type)a + (unsigned_type)b)                                     \
    LOOP(name, PRODUCT, type, (uint64_t)a *(uint64_t)b)                                            \
    ORDER(name, type)                                                                              \
    LOGIC(name, type)                                                                              \
    BITS(name, type)

SIGNED(int8, int8_t, uint8_t)
SIGNED(int16, int16_t, uint16_t)
SIGNED(int32, int32_t, uint32_t)
SIGNED(int64, int64_t, uint64_t)
WHOLE(uint8, uint8_t)
LOOP(uint16, SUM, uint16_t, a + b)
LOOP(uint16, PRODUCT, uint16_t, (uint32_t)a *(uint32_t)b)
ORDER(uint16, uint16_t)
LOGIC(uint16, uint16_t)
BITS(uint16, uint16_t)
WHOLE(uint32, uint32_t)
WHOLE(uint64, uint64_t)
ARITHMETIC(float32, float)
ORDER(float32, float)
ARITHMETIC(float64, double)
ORDER(float64, double)
ARITHMETIC(float80, long double)
ORDER(float80, long double)
ARITHMETIC(complex64, float complex)
ARITHMETIC(complex128, double complex)
ARITHMETIC(complex160, long double complex)
PAIR(pair_float, float, int)
PAIR(pair_double, double, int)
PAIR(pair_long_double, long double, int)
PAIR(pair_long, long, int)
PAIR(pair_int, int, int)
PAIR(pair_short, short, int)
PAIR(pair_reals, float, float)
PAIR(pair_doubles, double, double)

#define ROW_ARITHMETIC(name) [SUM] = name##_SUM, [PRODUCT] = name##_PRODUCT
#define ROW_ORDER(name)      [MAXIMUM] = name##_MAXIMUM, [MINIMUM] = name##_MINIMUM
#define ROW_LOGIC(name)      [AND] = name##_AND, [OR] = name##_OR, [XOR] = name##_XOR
#define ROW_BITS(name)                                                                             \
    [BIT_AND] = name##_BIT_AND, [BIT_OR] = name##_BIT_OR, [BIT_XOR] = name##_BIT_XOR
#define ROW_WHOLE(name)                                                                            \
    {                                                                                              \
        ROW_ARITHMETIC(name), ROW_ORDER(name), ROW_LOGIC(name), ROW_BITS(name)                     \
    }
#define ROW_REAL(name)                                                                             \
    {                                                                                              \
        ROW_ARITHMETIC(name), ROW_ORDER(name)                                                      \
    }
#define ROW_COMPLEX(name)                                                                          \
    {                                                                                              \
        ROW_ARITHMETIC(name)                                                                       \
    }
#define ROW_PAIR(name)                                                                             \
    {                                                                                              \
        [MAXLOC] = name##_MAXLOC, [MINLOC] = name##_MINLOC                                         \
    }

static const struct reduce_row rows[] = {
    {TYPE_SIGNED, 1, ROW_WHOLE(int8)},
    {TYPE_SIGNED, 2, ROW_WHOLE(int16)},
    {TYPE_SIGNED, 4, ROW_WHOLE(int32)},
    {TYPE_SIGNED, 8, ROW_WHOLE(int64)},
    {TYPE_UNSIGNED, 1, ROW_WHOLE(uint8)},
    {TYPE_UNSIGNED, 2, ROW_WHOLE(uint16)},
    {TYPE_UNSIGNED, 4, ROW_WHOLE(uint32)},
    {TYPE_UNSIGNED, 8, ROW_WHOLE(uint64)},
    {TYPE_FLOATING, 4, ROW_REAL(float32)},
    {TYPE_FLOATING, 8, ROW_REAL(float64)},
    {TYPE_FLOATING, sizeof(long double), ROW_REAL(float80)},
    {TYPE_COMPLEX, 8, ROW_COMPLEX(complex64)},
    {TYPE_COMPLEX, 16, ROW_COMPLEX(complex128)},
    {TYPE_COMPLEX, 2 * sizeof(long double), ROW_COMPLEX(complex160)},
    {TYPE_LOGICAL, 1, {ROW_LOGIC(uint8)}},
    {TYPE_LOGICAL, 2, {ROW_LOGIC(uint16)}},
    {TYPE_LOGICAL, 4, {ROW_LOGIC(uint32)}},
    {TYPE_LOGICAL, 8, {ROW_LOGIC(uint64)}},
    {TYPE_PAIR_FLOAT, sizeof(float) + sizeof(int), ROW_PAIR(pair_float)},
    {TYPE_PAIR_DOUBLE, sizeof(double) + sizeof(int), ROW_PAIR(pair_double)},
    {TYPE_PAIR_LONG_DOUBLE, sizeof(long double) + sizeof(int), ROW_PAIR(pair_long_double)},
    {TYPE_PAIR_LONG, sizeof(long) + sizeof(int), ROW_PAIR(pair_long)},
    {TYPE_PAIR_INT, 2 * sizeof(int), ROW_PAIR(pair_int)},
    {TYPE_PAIR_SHORT, sizeof(short) + sizeof(int), ROW_PAIR(pair_short)},
    {TYPE_PAIR_REALS, 2 * sizeof(float), ROW_PAIR(pair_reals)},
    {TYPE_PAIR_DOUBLES, 2 * sizeof(double), ROW_PAIR(pair_doubles)},
};

const struct reduce_table REDUCE_TABLE = {rows, sizeof(rows) / sizeof(rows[0])};
