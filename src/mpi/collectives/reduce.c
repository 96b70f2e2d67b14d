/* src/mpi/collectives/reduce.c: the barrier, and the operations that combine data; see
 * operations.h.
 *
 * Predefined operations on dense predefined types, element by element, and the program's own on all
 * of the data at once if it is short: a function may expect that. Both in the order of the ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "mpi/collectives/exchange.h"
#include "mpi/types/reduce.h"

enum { OWN_MAX = 4096 }; /* bytes of data for a function of the program */

/* One rank's call. */
struct combining {
    struct exchange exchange;
    const struct reduction *call;
    struct engine_operation operation;
    size_t size; /* bytes of an item */
    char second[OWN_MAX];
};

/* A function of the program computes in = from OP in. */
static void combine(void *context, void *into, const void *from, size_t bytes, int from_is_first)
{
    struct combining *combining = context;
    const struct reduction *call = combining->call;
    void *second = from_is_first ? into : combining->second;
    if (!from_is_first)
        memcpy(second, from, bytes);
    int result = real()->Reduce_local(from_is_first ? from : into, second,
                                      (int)(bytes / combining->size), call->type, call->op);
    if (!from_is_first)
        memcpy(into, second, bytes);
    if (combining->exchange.result == MPI_SUCCESS)
        combining->exchange.result = result;
}

static int find_predefined(struct combining *combining, const struct basic *basic)
{
    if (!types_is_dense(basic))
        return -1;
    combining->size = basic->size;
    combining->operation =
        (struct engine_operation){.loop = reduce_find_standard(combining->call->op, basic),
                                  .element = basic->size,
                                  .commutes = 1};
    return combining->operation.loop ? 0 : -1;
}

static int find_own(struct combining *combining, size_t count)
{
    struct shape shape;
    int commutes;
    const struct reduction *call = combining->call;
    if (shape_find(call->type, &shape) != 0 || shape.form || count * shape.size > OWN_MAX ||
        real()->Op_commutative(call->op, &commutes) != MPI_SUCCESS)
        return -1;
    combining->size = shape.size;
    combining->operation = (struct engine_operation){.combine = combine,
                                                     .context = combining,
                                                     .element = count * shape.size,
                                                     .commutes = commutes};
    return 0;
}

/* 0: the layer combines `count` items in all. The same on all ranks. */
static int find_operation(struct combining *combining, MPI_Count count)
{
    const struct reduction *call = combining->call;
    if (count <= 0 || call->type == MPI_DATATYPE_NULL || call->op == MPI_OP_NULL)
        return -1;
    if (find_predefined(combining, types_basic(call->type)) == 0)
        return 0;
    return reduce_is_predefined(call->op) ? -1 : find_own(combining, (size_t)count);
}

static int begin(struct combining *combining, const char *name, const struct reduction *call,
                 MPI_Count count, int root)
{
    const struct described what = {name, root, count, call->type, call->op};
    combining->call = call;
    return exchange_begin(&combining->exchange, call->comm, &what);
}

static int end(struct combining *combining, int done, int *result)
{
    struct exchange *exchange = &combining->exchange;
    if (exchange->result == MPI_SUCCESS)
        exchange->result = done;
    return exchange_end(exchange, combining->call->comm, result);
}

int collective_barrier(MPI_Comm comm, int *result)
{
    struct exchange call;
    const struct described what = {"MPI_Barrier", ENGINE_EVERYBODY, -1, MPI_DATATYPE_NULL,
                                   MPI_OP_NULL};
    if (!exchange_begin(&call, comm, &what))
        return call.nodes && nodes_barrier(call.nodes, &call.result) &&
               exchange_end(&call, comm, result);
    if (call.result == MPI_SUCCESS)
        call.result = engine_barrier(call.communicator->engine);
    return exchange_end(&call, comm, result);
}

int collective_reduce(const struct reduction *call, int root, int *result)
{
    struct combining combining;
    int done = MPI_SUCCESS;
    const char *name = root == ENGINE_EVERYBODY ? "MPI_Allreduce" : "MPI_Reduce";
    int is_ours = begin(&combining, name, call, call->count, root);
    struct exchange *exchange = &combining.exchange;
    if (!is_ours)
        return exchange->nodes && nodes_reduce(exchange->nodes, call, root, &exchange->result) &&
               exchange_end(exchange, call->comm, result);
    if (exchange->result == MPI_SUCCESS) {
        if (find_operation(&combining, call->count) != 0)
            return 0;
        int gets = root == ENGINE_EVERYBODY || exchange->is_root,
            in_place = call->send == MPI_IN_PLACE;
        if (gets ? !exchange_may_combine(call->send, call->receive) : !call->send || in_place)
            return 0;
        done = engine_reduce(exchange->communicator->engine, in_place ? call->receive : call->send,
                             gets ? call->receive : NULL, (size_t)call->count * combining.size,
                             &combining.operation, root);
    }
    return end(&combining, done, result);
}

int collective_scan(const struct reduction *call, int is_exclusive, int *result)
{
    struct combining combining;
    int done = MPI_SUCCESS;
    if (!begin(&combining, is_exclusive ? "MPI_Exscan" : "MPI_Scan", call, call->count,
               ENGINE_EVERYBODY))
        return 0;
    if (combining.exchange.result == MPI_SUCCESS) {
        int in_place = call->send == MPI_IN_PLACE;
        if (find_operation(&combining, call->count) != 0 ||
            !exchange_may_combine(call->send, call->receive))
            return 0;
        done =
            engine_scan(combining.exchange.communicator->engine,
                        in_place ? call->receive : call->send, call->receive,
                        (size_t)call->count * combining.size, &combining.operation, is_exclusive);
    }
    return end(&combining, done, result);
}

/* In place the result lies in memory that the others read meanwhile. */
static int reduce_scatter(const struct combining *combining, size_t all, size_t begin, size_t end)
{
    const struct reduction *call = combining->call;
    int in_place = call->send == MPI_IN_PLACE;
    void *out = in_place ? malloc(end - begin + 1) : call->receive;
    /* A rank without memory takes part all the same, or the others would wait for it. */
    size_t until = out ? end : begin;
    int result = engine_reduce_scatter(combining->exchange.communicator->engine,
                                       in_place ? call->receive : call->send, all, out, begin,
                                       until, &combining->operation);
    if (in_place && out && result == MPI_SUCCESS)
        memcpy(call->receive, out, end - begin);
    if (in_place)
        free(out);
    return out ? result : MPI_ERR_NO_MEM;
}

int collective_reduce_scatter(const struct reduction *call, const struct places *places,
                              int *result)
{
    struct combining combining;
    const struct exchange *exchange = &combining.exchange;
    int done = MPI_SUCCESS;
    if (!begin(&combining, "MPI_Reduce_scatter", call, -1, ENGINE_EVERYBODY))
        return 0;
    if (exchange->result == MPI_SUCCESS) {
        if (!places_are_valid(places, exchange->ranks))
            return 0;
        MPI_Count before = 0, all = 0, mine = places_count(places, exchange->rank);
        for (int i = 0; i < exchange->ranks; i++) {
            before += i < exchange->rank ? places_count(places, i) : 0;
            all += places_count(places, i);
        }
        /* Functions of the program would be called for parts of the data. */
        if (find_operation(&combining, all) != 0 || !combining.operation.loop ||
            !(mine ? exchange_may_combine(call->send, call->receive) : call->send != NULL))
            return 0;
        size_t first = (size_t)before * combining.size;
        done = reduce_scatter(&combining, (size_t)all * combining.size, first,
                              first + (size_t)mine * combining.size);
    }
    return end(&combining, done, result);
}
