/* mpi_operations [table [TYPE]]: the predefined operations on every predefined type, by each
 * accumulating call. A window of MPI_Win_allocate must accept what the MPI library accepts on a
 * window of MPI_Win_create, with the same result.
 *
 * Left out are operations that a library refuses (Open MPI 4.1 then crashes) or ignores without an
 * error (as MPICH 4.0, which then hangs in the next call), and the results of REAL16 and COMPLEX32,
 * which neither computes.
 *
 * `table` prints what was accepted. */
#include "mpi/guests/mpi_check.h"
#include "mpi/types/guests/mpi_types.h"

/* Two elements; and enough for the widest registers, with some that are left over. */
enum { COUNT_MAX = 131, BYTES = COUNT_MAX * 32 };

static struct window {
    MPI_Win handle;
    char *base;
} allocated, created; /* made by MPI_Win_allocate and MPI_Win_create */

struct outcome {
    int is_error;
    char target[BYTES], result[BYTES];
};

enum { ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP };
static const char *const call_names[] = {"accumulate", "get_accumulate", "fetch_and_op"};
static int is_table;
static int mask;         /* of the values that the type can have */
static const char *only; /* this type */

/* Numbers that all types can have, and whose results are not NaN: only the lowest byte is set. */
static void set(char *area, int count, MPI_Aint extent, int value)
{
    memset(area, 0, BYTES);
    for (int i = 0; i < count; i++)
        area[i * extent] = (char)((value + i) & mask);
}

static struct outcome call_on(const struct window *window, int call, int count, MPI_Datatype type,
                              MPI_Op op)
{
    struct outcome outcome;
    char origin[BYTES];
    MPI_Aint lower, extent;
    int result = MPI_SUCCESS;
    MPI_Type_get_extent(type, &lower, &extent);
    set(origin, count, extent, 3);
    set(window->base, count, extent, 6);
    set(outcome.result, count, extent, 1);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window->handle);
    if (call == ACCUMULATE)
        result = MPI_Accumulate(origin, count, type, 0, 0, count, type, op, window->handle);
    else if (call == GET_ACCUMULATE)
        result = MPI_Get_accumulate(origin, count, type, outcome.result, count, type, 0, 0, count,
                                    type, op, window->handle);
    else
        result = MPI_Fetch_and_op(origin, outcome.result, type, 0, 0, op, window->handle);
    MPI_Win_unlock(0, window->handle);
    outcome.is_error = result != MPI_SUCCESS;
    memcpy(outcome.target, window->base, BYTES);
    return outcome;
}

/* The layer may accept what the library refuses. */
static int differ(const struct outcome *is, const struct outcome *should)
{
    return !should->is_error && (is->is_error || memcmp(is->target, should->target, BYTES) != 0 ||
                                 memcmp(is->result, should->result, BYTES) != 0);
}

static void check_call(int call, int count, const struct type_row *type,
                       const struct operation_row *op)
{
    struct outcome is = call_on(&allocated, call, count, type->type, op->op);
    struct outcome should = call_on(&created, call, count, type->type, op->op);
    int is_wrong = differ(&is, &should);
    wrong += is_wrong;
    if (is_wrong || is_table)
        printf("%s %s %s: %s, library: %s; %d %d, library: %d %d\n", call_names[call], type->name,
               op->name, is.is_error ? "refused" : "accepted",
               should.is_error ? "refused" : "accepted", is.target[0], is.result[0],
               should.target[0], should.result[0]);
}

static void check_type(const struct type_row *type)
{
    struct operation_row ops[OPS];
    find_operations(ops);
    if (only && strcmp(only, type->name) != 0)
        return;
    mask = type->kind == TRUTH ? TRUTH_MASK : 7;
    for (int i = 0; i < OPS; i++)
        for (int call = ACCUMULATE; call <= FETCH_AND_OP; call++)
            if ((type->kind & ops[i].kind) && (ops[i].op != MPI_NO_OP || call != ACCUMULATE))
                for (int count = 2; count <= COUNT_MAX; count += COUNT_MAX - 2)
                    check_call(call, count, type, &ops[i]);
}

int main(int argc, char **argv)
{
    static _Alignas(64) char memory[BYTES];
    struct type_row types[TYPES_MAX];
    mpi_begin(&argc, &argv);
    is_table = argc > 1 && strcmp(argv[1], "table") == 0;
    only = argc > 2 ? argv[2] : NULL;
    created.base = memory;
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, world, &allocated.base, &allocated.handle);
    MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, world, &created.handle);
    MPI_Win_set_errhandler(allocated.handle, MPI_ERRORS_RETURN);
    MPI_Win_set_errhandler(created.handle, MPI_ERRORS_RETURN);
    MPI_Barrier(world);
    for (int i = 0, count = find_types(types); rank == 0 && i < count; i++)
        check_type(&types[i]);
    MPI_Barrier(world);
    MPI_Win_free(&allocated.handle);
    MPI_Win_free(&created.handle);
    return mpi_end();
}
