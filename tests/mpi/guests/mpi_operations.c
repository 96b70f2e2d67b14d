/* tests/mpi/guests/mpi_operations.c: the predefined operations on every predefined type, by each
 * accumulating call. A window of MPI_Win_allocate must take what the MPI library takes on a window
 * of MPI_Win_create, and make the same of it.
 *
 * Left out is what a library refuses (Open MPI 4.1 then crashes) or leaves undone without an error
 * (as MPICH 4.0, which then hangs in the next call), and what comes of REAL16 and COMPLEX32, which
 * neither computes.
 *
 * `table [TYPE]` prints what was taken. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 256 };

struct window {
    MPI_Win handle;
    char *base;
};

struct outcome {
    int is_error;
    char target[ROOM], result[ROOM];
};

enum { ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP };
static const char *const call_names[] = {"accumulate", "get_accumulate", "fetch_and_op"};
static int wrong, is_table;
static int most;         /* mask of the values that the type can have */
static const char *only; /* this type */

/* Numbers that all types can have, of which no operation makes a NaN: only the lowest byte is set.
 */
static void set(char *area, int count, MPI_Aint extent, int value)
{
    memset(area, 0, ROOM);
    for (int i = 0; i < count; i++)
        area[i * extent] = (char)((value + i) & most);
}

static struct outcome call_on(const struct window *window, int call, MPI_Datatype type, MPI_Op op)
{
    struct outcome outcome;
    char origin[ROOM];
    MPI_Aint lower, extent;
    int result = MPI_SUCCESS;
    MPI_Type_get_extent(type, &lower, &extent);
    set(origin, 2, extent, 3);
    set(window->base, 2, extent, 6);
    set(outcome.result, 2, extent, 1);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window->handle);
    if (call == ACCUMULATE)
        result = MPI_Accumulate(origin, 2, type, 0, 0, 2, type, op, window->handle);
    else if (call == GET_ACCUMULATE)
        result = MPI_Get_accumulate(origin, 2, type, outcome.result, 2, type, 0, 0, 2, type, op,
                                    window->handle);
    else
        result = MPI_Fetch_and_op(origin, outcome.result, type, 0, 0, op, window->handle);
    MPI_Win_unlock(0, window->handle);
    outcome.is_error = result != MPI_SUCCESS;
    memcpy(outcome.target, window->base, ROOM);
    return outcome;
}

/* What the library refuses may be taken. */
static int differ(const struct outcome *is, const struct outcome *should)
{
    return !should->is_error && (is->is_error || memcmp(is->target, should->target, ROOM) != 0 ||
                                 memcmp(is->result, should->result, ROOM) != 0);
}

static void check(const struct window *ours, const struct window *theirs, int call,
                  MPI_Datatype type, const char *name, MPI_Op op, const char *op_name)
{
    struct outcome is = call_on(ours, call, type, op), should = call_on(theirs, call, type, op);
    int is_wrong = differ(&is, &should);
    wrong += is_wrong;
    if (is_wrong || is_table)
        printf("%s %s %s: %s, library: %s; %d %d, library: %d %d\n", call_names[call], name,
               op_name, is.is_error ? "refused" : "taken", should.is_error ? "refused" : "taken",
               is.target[0], is.result[0], should.target[0], should.result[0]);
}

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
    MOST_OF_TRUTH = 1,
#else
    TRUTH = INTEGER,
    PACKED = INTEGER,
    MOST_OF_TRUTH = 7, /* integers like the others */
#endif
};

static void check_type(const struct window *ours, const struct window *theirs, MPI_Datatype type,
                       const char *name, int kind)
{
#define OP(op, kind)                                                                               \
    {                                                                                              \
        op, #op, kind                                                                              \
    }
    const struct {
        MPI_Op op;
        const char *name;
        int kind;
    } all[] = {OP(MPI_SUM, ARITHMETIC), OP(MPI_PROD, ARITHMETIC), OP(MPI_MAX, ORDER),
               OP(MPI_MIN, ORDER),      OP(MPI_LAND, LOGIC),      OP(MPI_LOR, LOGIC),
               OP(MPI_LXOR, LOGIC),     OP(MPI_BAND, BITS),       OP(MPI_BOR, BITS),
               OP(MPI_BXOR, BITS),      OP(MPI_MAXLOC, PLACE),    OP(MPI_MINLOC, PLACE),
               OP(MPI_REPLACE, MOVE),   OP(MPI_NO_OP, MOVE)};
    if (only && strcmp(only, name) != 0)
        return;
    most = kind == TRUTH ? MOST_OF_TRUTH : 7;
    for (int i = 0; i < (int)(sizeof(all) / sizeof(all[0])); i++)
        for (int call = ACCUMULATE; call <= FETCH_AND_OP; call++)
            if ((kind & all[i].kind) && (all[i].op != MPI_NO_OP || call != ACCUMULATE))
                check(ours, theirs, call, type, name, all[i].op, all[i].name);
}

static void check_all(const struct window *ours, const struct window *theirs)
{
#define TYPE(type, kind)                                                                           \
    {                                                                                              \
        type, #type, kind                                                                          \
    }
    const struct {
        MPI_Datatype type;
        const char *name;
        int kind;
    } all[] = {
        TYPE(MPI_CHAR, INTEGER),
        TYPE(MPI_SIGNED_CHAR, INTEGER),
        TYPE(MPI_UNSIGNED_CHAR, INTEGER),
        TYPE(MPI_WCHAR, NONE),
        TYPE(MPI_SHORT, INTEGER),
        TYPE(MPI_INT, INTEGER),
        TYPE(MPI_LONG, INTEGER),
        TYPE(MPI_LONG_LONG, INTEGER),
        TYPE(MPI_UNSIGNED_SHORT, INTEGER),
        TYPE(MPI_UNSIGNED, INTEGER),
        TYPE(MPI_UNSIGNED_LONG, INTEGER),
        TYPE(MPI_UNSIGNED_LONG_LONG, INTEGER),
        TYPE(MPI_INT8_T, INTEGER),
        TYPE(MPI_INT16_T, INTEGER),
        TYPE(MPI_INT32_T, INTEGER),
        TYPE(MPI_INT64_T, INTEGER),
        TYPE(MPI_UINT8_T, INTEGER),
        TYPE(MPI_UINT16_T, INTEGER),
        TYPE(MPI_UINT32_T, INTEGER),
        TYPE(MPI_UINT64_T, INTEGER),
        TYPE(MPI_AINT, INTEGER),
        TYPE(MPI_OFFSET, INTEGER),
        TYPE(MPI_COUNT, INTEGER),
        TYPE(MPI_FLOAT, REAL),
        TYPE(MPI_DOUBLE, REAL),
        TYPE(MPI_LONG_DOUBLE, REAL),
        TYPE(MPI_C_BOOL, TRUTH),
        TYPE(MPI_CXX_BOOL, TRUTH),
        TYPE(MPI_C_FLOAT_COMPLEX, COMPLEX),
        TYPE(MPI_C_DOUBLE_COMPLEX, COMPLEX),
        TYPE(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX),
        TYPE(MPI_CXX_FLOAT_COMPLEX, COMPLEX),
        TYPE(MPI_CXX_DOUBLE_COMPLEX, COMPLEX),
        TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX),
        TYPE(MPI_BYTE, INTEGER),
        TYPE(MPI_PACKED, PACKED),
        TYPE(MPI_FLOAT_INT, PAIR),
        TYPE(MPI_DOUBLE_INT, PAIR),
        TYPE(MPI_LONG_INT, PAIR),
        TYPE(MPI_SHORT_INT, PAIR),
        TYPE(MPI_2INT, PAIR),
        TYPE(MPI_LONG_DOUBLE_INT, PAIR),
        TYPE(MPI_CHARACTER, FORTRAN),
        TYPE(MPI_LOGICAL, TRUTH),
        TYPE(MPI_INTEGER, FORTRAN),
        TYPE(MPI_INTEGER1, FORTRAN),
        TYPE(MPI_INTEGER2, FORTRAN),
        TYPE(MPI_INTEGER4, FORTRAN),
        TYPE(MPI_INTEGER8, FORTRAN),
        TYPE(MPI_REAL, REAL),
        TYPE(MPI_REAL4, REAL),
        TYPE(MPI_REAL8, REAL),
        TYPE(MPI_REAL16, NONE),
        TYPE(MPI_DOUBLE_PRECISION, REAL),
        TYPE(MPI_COMPLEX, COMPLEX),
        TYPE(MPI_COMPLEX8, COMPLEX),
        TYPE(MPI_COMPLEX16, COMPLEX),
        TYPE(MPI_COMPLEX32, NONE),
        TYPE(MPI_DOUBLE_COMPLEX, COMPLEX),
        TYPE(MPI_2INTEGER, PAIR),
        TYPE(MPI_2REAL, PAIR),
        TYPE(MPI_2DOUBLE_PRECISION, PAIR),
    };
    MPI_Datatype made;
    for (int i = 0; i < (int)(sizeof(all) / sizeof(all[0])); i++)
        if (all[i].type != MPI_DATATYPE_NULL) /* the library has it */
            check_type(ours, theirs, all[i].type, all[i].name, all[i].kind);
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &made);
    check_type(ours, theirs, made, "f90 real", REAL);
    MPI_Type_create_f90_complex(6, MPI_UNDEFINED, &made);
    check_type(ours, theirs, made, "f90 complex", COMPLEX);
    MPI_Type_create_f90_integer(9, &made);
    check_type(ours, theirs, made, "f90 integer", INTEGER);
}

int main(int argc, char **argv)
{
    static _Alignas(64) char memory[ROOM];
    int rank;
    struct window ours, theirs = {.base = memory};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    is_table = argc > 1 && strcmp(argv[1], "table") == 0;
    only = argc > 2 ? argv[2] : NULL;
    MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &ours.base, &ours.handle);
    MPI_Win_create(memory, ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &theirs.handle);
    MPI_Win_set_errhandler(ours.handle, MPI_ERRORS_RETURN);
    MPI_Win_set_errhandler(theirs.handle, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        check_all(&ours, &theirs);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&ours.handle);
    MPI_Win_free(&theirs.handle);
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
