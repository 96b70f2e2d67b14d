/* src/mpi/collectives/reduce.c: the barrier, and the operations that combine data; see
 * operations.h.
 *
 * Predefined operations on predefined types, element by element, and the program's own on any type,
 * on all of the data at once if it is short: a function may expect that. Both in the order of the
 * ranks. What the engine cannot combine where it lies, since it is much (functions) or has gaps, is
 * done by fold.c or, if short, brought into a form that the engine can.
 *
 * Ranks decide by what MPI has them give alike: the operation, the count, and the type's signature,
 * so whether it is predefined, where the operation is, and its size. Not by where the data lies in
 * an item: that may differ where the operation is the program's own. A predefined operation that
 * has no loop here, but that the library computes, is done by its MPI_Reduce_local like a function
 * of the program. */
#include <stdlib.h>
#include <string.h>

#include "mpi/collectives/exchange.h"
#include "mpi/collectives/fold.h"
#include "mpi/collectives/scratch.h"
#include "mpi/types/types.h"

/* One rank's call. */
struct combining {
    struct exchange exchange;
    const struct reduction *call;
    struct shape shape; /* of the type */
    int is_folded;      /* by fold.c; else by the engine: */
    struct engine_operation operation;
    struct shape moved; /* the items as the engine gets them */
    int is_moved;       /* by way of given and got; else they are the program's buffers */
    struct scratch scratch;
    struct rooms *rooms; /* if is_moved */
};

/* What find_operation returns beside MPI_SUCCESS and the classes of errors: the library's, on all
 * ranks. */
enum { LEFT = -1 };

static void note(struct combining *combining, int result)
{
    if (combining->exchange.result == MPI_SUCCESS)
        combining->exchange.result = result;
}

/* ---- Functions of the program, on short data ---- */

static void copy(struct combining *combining, const struct piece *to, const struct piece *from)
{
    note(combining, piece_copy(to, from));
}

/* A function computes in = from OP in. Operands are dense here; for the function they get the
 * type's gaps. */
static void combine(void *context, void *into, const void *from, size_t bytes, int from_is_first)
{
    struct combining *combining = context;
    const struct reduction *call = combining->call;
    const struct shape *shape = &combining->shape;
    struct scratch *scratch = &combining->scratch;
    MPI_Count items = (MPI_Count)(bytes / shape->size);
    struct piece first = piece_of_bytes(from_is_first ? from : into, bytes),
                 second = piece_of_bytes(from_is_first ? into : from, bytes),
                 sum = {scratch->sum, items, *shape}, next = {scratch->next, items, *shape},
                 result = piece_of_bytes(into, bytes);
    copy(combining, &next, &second);
    if (shape->form)
        copy(combining, &sum, &first);
    note(combining, pmpi()->Reduce_local(shape->form ? scratch->sum : first.address, scratch->next,
                                         (int)items, call->type, call->op));
    copy(combining, &result, &next);
}

/* ---- Which way ---- */

static int get_rooms(struct combining *combining)
{
    combining->rooms = communicator_rooms(combining->exchange.communicator);
    return combining->rooms ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int find_function(struct combining *combining, size_t count)
{
    int commutes;
    const struct reduction *call = combining->call;
    const struct shape *shape = &combining->shape;
    int result = shape_find(call->type, &combining->shape);
    if (result == MPI_SUCCESS)
        result = shape_check_committed(call->type);
    if (result == MPI_SUCCESS && shape->size == 0)
        return LEFT;
    if (result == MPI_SUCCESS)
        result = pmpi()->Op_commutative(call->op, &commutes);
    if (result != MPI_SUCCESS)
        return result;
    combining->operation.loop = NULL;
    combining->is_folded = count * shape->size > SHORT_MAX;
    if (combining->is_folded)
        return MPI_SUCCESS;
    result = get_rooms(combining);
    if (result == MPI_SUCCESS)
        result =
            scratch_new(&combining->scratch, combining->rooms, call->type, shape, count, count);
    combining->is_moved = shape->form != NULL;
    combining->moved = (struct shape){shape->size, (ptrdiff_t)shape->size, NULL};
    combining->operation = (struct engine_operation){.combine = combine,
                                                     .context = combining,
                                                     .element = count * shape->size,
                                                     .commutes = commutes};
    return result;
}

/* Pairs may have gaps, which the loops want: short data is copied for the engine with them, since
 * those of the program's buffers are nobody's to read or write. */
static int find_predefined(struct combining *combining, const struct predefined_type *basic,
                           reduce_function *loop, size_t count)
{
    combining->is_moved = !predefined_type_is_dense(basic);
    combining->is_folded = combining->is_moved && count * basic->extent > SHORT_MAX;
    combining->shape.size = basic->size;
    combining->shape.extent = (ptrdiff_t)basic->extent;
    combining->shape.form = combining->is_moved ? &basic->layout->bytes : NULL;
    combining->moved = combining->shape;
    combining->operation =
        (struct engine_operation){.loop = loop, .element = basic->extent, .commutes = 1};
    return combining->is_moved && !combining->is_folded ? get_rooms(combining) : MPI_SUCCESS;
}

/* Of `count` items in all. MPI_SUCCESS: the layer combines them; LEFT, which depends on the number
 * of items alone; or the class of what is wrong with this rank's arguments. */
static int find_operation(struct combining *combining, MPI_Count count)
{
    const struct reduction *call = combining->call;
    if (count <= 0)
        return count == 0 ? LEFT : MPI_ERR_COUNT;
    if (call->op == MPI_OP_NULL)
        return MPI_ERR_OP;
    if (!reduce_op_is_predefined(call->op))
        return find_function(combining, (size_t)count);
    const struct predefined_type *basic =
        call->type == MPI_DATATYPE_NULL ? NULL : predefined_type_of(call->type);
    if (!basic || !reduce_is_supported(call->op, basic))
        return MPI_ERR_OP;
    reduce_function *loop = reduce_function_find(call->op, basic);
    return loop ? find_predefined(combining, basic, loop, (size_t)count)
                : find_function(combining, (size_t)count);
}

/* ---- What the engine gets in place of the program's buffers ---- */

static const void *given(struct combining *combining, MPI_Count count)
{
    const struct reduction *call = combining->call;
    const void *data = call->send == MPI_IN_PLACE ? call->receive : call->send;
    if (!combining->is_moved)
        return data;
    const struct piece from = {(char *)data, count, combining->shape},
                       to = {combining->rooms->given, count, combining->moved};
    copy(combining, &to, &from);
    return combining->rooms->given;
}

static void *got(struct combining *combining)
{
    return combining->is_moved ? combining->rooms->got : combining->call->receive;
}

/* `done`: of the engine. */
static int put(struct combining *combining, MPI_Count count, int done)
{
    if (!combining->is_moved || done != MPI_SUCCESS)
        return done;
    const struct piece from = {combining->rooms->got, count, combining->moved},
                       to = {combining->call->receive, count, combining->shape};
    copy(combining, &to, &from);
    return done;
}

static size_t bytes_of(const struct combining *combining, MPI_Count count)
{
    return (size_t)count * (size_t)combining->moved.extent;
}

/* ---- The calls ---- */

static struct described described(const char *name, const struct reduction *call, int root)
{
    return (struct described){.name = name,
                              .root = root,
                              .count = call->count,
                              .type = call->type,
                              .op = call->op,
                              .is_reduction = 1};
}

static int begin(struct combining *combining, const struct reduction *call,
                 const struct described *what)
{
    combining->call = call;
    combining->scratch.memory = NULL;
    combining->is_folded = combining->is_moved = 0;
    return exchange_begin(&combining->exchange, call->comm, what);
}

static int end(struct combining *combining, int done, int *result)
{
    note(combining, done);
    scratch_free(&combining->scratch);
    return exchange_end(&combining->exchange, combining->call->comm, result);
}

/* This rank's arguments are wrong. */
static int fail(struct combining *combining, int error, int *result)
{
    exchange_fail(&combining->exchange, error);
    return end(combining, MPI_SUCCESS, result);
}

static struct fold fold_of(const struct combining *combining)
{
    return (struct fold){combining->exchange.communicator, combining->call, combining->shape,
                         combining->operation.loop};
}

int collective_barrier(MPI_Comm comm, int *result)
{
    struct exchange call;
    const struct described what = {.name = "MPI_Barrier",
                                   .root = ENGINE_EVERYBODY,
                                   .count = -1,
                                   .type = MPI_DATATYPE_NULL,
                                   .op = MPI_OP_NULL};
    if (!exchange_begin(&call, comm, &what))
        return call.nodes && nodes_barrier(call.nodes, &call.result) &&
               exchange_end(&call, comm, result);
    if (call.result == MPI_SUCCESS)
        call.result = engine_barrier(call.communicator->engine);
    return exchange_end(&call, comm, result);
}

static int reduce(struct combining *combining, int root, int gets)
{
    const struct fold fold = fold_of(combining);
    MPI_Count count = combining->call->count;
    if (combining->is_folded)
        return fold_reduce(&fold, root);
    int done = engine_reduce(combining->exchange.communicator->engine, given(combining, count),
                             gets ? got(combining) : NULL, bytes_of(combining, count),
                             &combining->operation, root);
    return gets ? put(combining, count, done) : done;
}

/* MPI_SUCCESS, an error of this rank, or LEFT: the operation is the library's, on all ranks. */
static int check_arguments(struct combining *combining, MPI_Count items,
                           const struct use_of_buffers *use)
{
    int found = find_operation(combining, items);
    return found == MPI_SUCCESS
               ? exchange_check_buffers(combining->call, use, combining->shape.form != NULL)
               : found;
}

int collective_reduce(const struct reduction *call, int root, int *result)
{
    struct combining combining;
    int done = MPI_SUCCESS;
    const struct described what =
        described(root == ENGINE_EVERYBODY ? "MPI_Allreduce" : "MPI_Reduce", call, root);
    int is_ours = begin(&combining, call, &what);
    struct exchange *exchange = &combining.exchange;
    if (!is_ours)
        return exchange->nodes && nodes_reduce(exchange->nodes, call, root, &exchange->result) &&
               exchange_end(exchange, call->comm, result);
    if (exchange->result == MPI_SUCCESS) {
        const struct use_of_buffers use = exchange_use_of_reduce(root, exchange->rank);
        int found = check_arguments(&combining, call->count, &use);
        if (found == LEFT)
            return 0;
        if (found != MPI_SUCCESS)
            return fail(&combining, found, result);
        done = reduce(&combining, root, use.gets);
    }
    return end(&combining, done, result);
}

static int scan(struct combining *combining, int is_exclusive, int gets)
{
    const struct fold fold = fold_of(combining);
    MPI_Count count = combining->call->count;
    if (combining->is_folded)
        return fold_scan(&fold, is_exclusive);
    int done = engine_scan(combining->exchange.communicator->engine, given(combining, count),
                           got(combining), bytes_of(combining, count), &combining->operation,
                           is_exclusive);
    return gets ? put(combining, count, done) : done;
}

int collective_scan(const struct reduction *call, int is_exclusive, int *result)
{
    struct combining combining;
    struct exchange *exchange = &combining.exchange;
    const struct described what =
        described(is_exclusive ? "MPI_Exscan" : "MPI_Scan", call, ENGINE_EVERYBODY);
    int done = MPI_SUCCESS;
    if (!begin(&combining, call, &what))
        return exchange->nodes &&
               nodes_scan(exchange->nodes, call, is_exclusive, &exchange->result) &&
               exchange_end(exchange, call->comm, result);
    if (exchange->result == MPI_SUCCESS) {
        /* Rank 0 gets nothing of MPI_Exscan, and need not have a buffer for it. */
        int gets = !is_exclusive || exchange->rank > 0;
        const struct use_of_buffers use = exchange_use_without_root(call, gets);
        int found = check_arguments(&combining, call->count, &use);
        if (found == LEFT)
            return 0;
        if (found != MPI_SUCCESS)
            return fail(&combining, found, result);
        done = scan(&combining, is_exclusive, gets);
    }
    return end(&combining, done, result);
}

/* In place the result lies in memory that the others read meanwhile. */
static int scatter_in_place(struct combining *combining, size_t all, size_t begin, size_t end)
{
    void *receive = combining->call->receive, *out = malloc(end - begin + 1);
    if (!out) {
        exchange_fail(&combining->exchange, MPI_ERR_NO_MEM);
        return MPI_ERR_NO_MEM;
    }
    int result = engine_reduce_scatter(combining->exchange.communicator->engine, receive, all, out,
                                       begin, end, &combining->operation);
    if (result == MPI_SUCCESS)
        memcpy(receive, out, end - begin);
    free(out);
    return result;
}

static int reduce_scatter(struct combining *combining, MPI_Count all, MPI_Count first,
                          MPI_Count mine)
{
    const struct fold fold = fold_of(combining);
    const struct reduction *call = combining->call;
    size_t begin = bytes_of(combining, first), end = bytes_of(combining, first + mine);
    if (combining->is_folded)
        return fold_reduce_scatter(&fold, (size_t)all, (size_t)first, (size_t)mine);
    if (!combining->is_moved && (call->send == MPI_IN_PLACE || call->send == call->receive))
        return scatter_in_place(combining, bytes_of(combining, all), begin, end);
    int done = engine_reduce_scatter(combining->exchange.communicator->engine,
                                     given(combining, all), bytes_of(combining, all),
                                     got(combining), begin, end, &combining->operation);
    return put(combining, mine, done);
}

int collective_reduce_scatter(const struct reduction *call, const struct places *places,
                              int *result)
{
    struct combining combining;
    struct exchange *exchange = &combining.exchange;
    struct described what = described(
        places->vary ? "MPI_Reduce_scatter" : "MPI_Reduce_scatter_block", call, ENGINE_EVERYBODY);
    what.count = places->count;
    what.places = places->vary ? places : NULL;
    int done = MPI_SUCCESS;
    if (!begin(&combining, call, &what))
        return 0;
    if (exchange->result == MPI_SUCCESS) {
        if (!places_are_valid(places, exchange->ranks))
            return fail(&combining, MPI_ERR_COUNT, result);
        MPI_Count before = 0, all = 0, mine = places_count(places, exchange->rank);
        for (int i = 0; i < exchange->ranks; i++) {
            before += i < exchange->rank ? places_count(places, i) : 0;
            all += places_count(places, i);
        }
        const struct use_of_buffers use = exchange_use_without_root(call, mine != 0);
        int found = check_arguments(&combining, all, &use);
        if (found == LEFT)
            return 0;
        if (found != MPI_SUCCESS)
            return fail(&combining, found, result);
        done = reduce_scatter(&combining, all, before, mine);
    }
    return end(&combining, done, result);
}
