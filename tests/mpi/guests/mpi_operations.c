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

#include "mpi_types.h"

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

static void check_type(const struct window *ours, const struct window *theirs, MPI_Datatype type,
                       const char *name, int kind)
{
    struct operation_row all[MOST_OPERATIONS];
    find_operations(all);
    if (only && strcmp(only, name) != 0)
        return;
    most = kind == TRUTH ? MOST_OF_TRUTH : 7;
    for (int i = 0; i < MOST_OPERATIONS; i++)
        for (int call = ACCUMULATE; call <= FETCH_AND_OP; call++)
            if ((kind & all[i].kind) && (all[i].op != MPI_NO_OP || call != ACCUMULATE))
                check(ours, theirs, call, type, name, all[i].op, all[i].name);
}

static void check_all(const struct window *ours, const struct window *theirs)
{
    struct type_row types[MOST_TYPES];
    for (int i = 0, count = find_types(types); i < count; i++)
        check_type(ours, theirs, types[i].type, types[i].name, types[i].kind);
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
