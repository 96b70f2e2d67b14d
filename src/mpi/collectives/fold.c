/* src/mpi/collectives/fold.c: see fold.h.
 *
 * Each rank publishes where its data is and in which form. The items are divided among the ranks. A
 * rank copies a block of its items from one rank after the other into memory of its own, combines
 * them there, and writes the result to those that get it. So a function of the program never sees
 * another rank's memory, is called for parts of the items, as MPI allows, and for whole ones only.
 *
 * A rank without memory says so when it publishes, and the call fails on all. */
#include "mpi/collectives/fold.h"

#include <stdlib.h>

#include "mpi/collectives/scratch.h"
#include "space/interposition.h"
#include "space/registry.h"

enum what { REDUCE, REDUCE_SCATTER, SCAN, EXSCAN };

/* What ranks see of one another. Written before engine_share, which publishes it. */
struct published {
    const char *in;
    char *out;
    const struct loop_nest *form; /* of both; NULL: dense */
    uint64_t call;                /* equal on all ranks, or NO_MEMORY */
};
#define NO_MEMORY UINT64_MAX
_Static_assert(sizeof(struct published) <= ENGINE_SHARE_MAX, "");

struct folding {
    const struct fold *fold;
    const struct published *peers; /* by rank, until the call's end */
    int rank, ranks;
    size_t count;  /* of items */
    uint64_t call; /* which of all calls, as peers publish it */
    int result;    /* MPI_SUCCESS or the first error of this rank */
    struct scratch scratch;
};

static void note(struct folding *folding, int result)
{
    if (folding->result == MPI_SUCCESS)
        folding->result = result;
}

static uint64_t call_of(enum what what, int root, size_t count, size_t size)
{
    uint64_t call = (uint64_t)(count * size) << 2 | what;
    return (call ^ (uint64_t)size << 24 ^ (uint64_t)(root + 1) << 40) & (NO_MEMORY >> 1);
}

/* ---- Operands and results ---- */

/* Items of a rank, or in this rank's own memory. */
static struct piece items_at(const void *address, size_t first, size_t items, size_t size,
                             const struct loop_nest *form)
{
    ptrdiff_t extent = form ? (ptrdiff_t)form->extent : (ptrdiff_t)size;
    return (struct piece){
        (char *)address + (ptrdiff_t)first * extent, (MPI_Count)items, {size, extent, form}};
}

static struct piece own(const struct folding *folding, char *address, size_t items)
{
    const struct shape *shape = &folding->fold->shape;
    return items_at(address, 0, items, shape->size, shape->form);
}

static void copy(struct folding *folding, const struct piece *to, const struct piece *from)
{
    note(folding, piece_copy(to, from));
}

static struct piece given_by(const struct folding *folding, int rank, size_t first, size_t items)
{
    const struct published *peer = &folding->peers[rank];
    return items_at(peer->in, first, items, folding->fold->shape.size, peer->form);
}

static struct piece got_by(const struct folding *folding, int rank, size_t first, size_t items)
{
    const struct published *peer = &folding->peers[rank];
    return items_at(peer->out, first, items, folding->fold->shape.size, peer->form);
}

static void load(struct folding *folding, char *to, int rank, size_t first, size_t items)
{
    struct piece from = given_by(folding, rank, first, items), piece = own(folding, to, items);
    copy(folding, &piece, &from);
}

/* The sum to where a rank gets it. Of guarded tasks that is memory of their own, which they gave
 * for this. */
static void store(struct folding *folding, int rank, size_t first, size_t items)
{
    const struct space_guard *guard = &space_registry()->guard;
    struct piece to = got_by(folding, rank, first, items),
                 sum = own(folding, folding->scratch.sum, items);
    uint32_t rights = guard_open(guard);
    copy(folding, &to, &sum);
    guard_close(guard, rights);
}

/* The sum with the next operand, which the ranks after those of the sum have given. */
static void combine(struct folding *folding, size_t items)
{
    struct scratch *scratch = &folding->scratch;
    const struct reduction *call = folding->fold->call;
    if (folding->fold->loop) {
        folding->fold->loop(scratch->sum, scratch->next, items);
        return;
    }
    note(folding,
         pmpi()->Reduce_local(scratch->sum, scratch->next, (int)items, call->type, call->op));
    char *sum = scratch->next;
    scratch->next = scratch->sum;
    scratch->sum = sum;
}

static void fold_block(struct folding *folding, size_t first, size_t items)
{
    load(folding, folding->scratch.sum, 0, first, items);
    for (int rank = 1; rank < folding->ranks; rank++) {
        load(folding, folding->scratch.next, rank, first, items);
        combine(folding, items);
    }
}

/* ---- What all calls have in common ---- */

/* The error of one of the ranks, the same on all that have none of their own: nobody has read
 * anything yet. */
static int agree(struct folding *folding)
{
    for (int i = 0; i < folding->ranks; i++)
        if (folding->peers[i].call == NO_MEMORY)
            return MPI_ERR_NO_MEM;
    for (int i = 0; i < folding->ranks; i++)
        if (folding->peers[i].call != folding->call)
            return engine_disagree(folding->fold->communicator->engine, i);
    return MPI_SUCCESS;
}

/* lacks_memory: the caller has tried to get some. */
static int begin(struct folding *folding, const struct fold *fold, size_t count, uint64_t call,
                 int lacks_memory)
{
    const struct reduction *of = fold->call;
    const struct group *group = fold->communicator->group;
    const void *all;
    folding->fold = fold;
    folding->rank = group->rank;
    folding->ranks = group->ranks;
    folding->count = count;
    folding->call = call;
    folding->result = scratch_new(&folding->scratch, communicator_rooms(fold->communicator),
                                  of->type, &fold->shape, count, 1);
    int fails = folding->result != MPI_SUCCESS || lacks_memory;
    const struct published mine = {of->send == MPI_IN_PLACE ? of->receive : of->send, of->receive,
                                   fold->shape.form, fails ? NO_MEMORY : call};
    int result = engine_share(fold->communicator->engine, &mine, sizeof(mine), &all);
    folding->peers = all;
    return result == MPI_SUCCESS ? agree(folding) : result;
}

/* All ranks have done what comes before. */
static int meet(const struct folding *folding)
{
    return engine_barrier(folding->fold->communicator->engine);
}

static int end(struct folding *folding, int result)
{
    note(folding, result);
    scratch_free(&folding->scratch);
    return folding->result;
}

/* The first item of a rank's part of the work. */
static size_t share_of(const struct folding *folding, int rank)
{
    size_t ranks = (size_t)folding->ranks, i = (size_t)rank, more = folding->count % ranks;
    return folding->count / ranks * i + (i < more ? i : more);
}

static size_t block_at(const struct folding *folding, size_t at, size_t end)
{
    return end - at < folding->scratch.items ? end - at : folding->scratch.items;
}

/* ---- The operations ---- */

/* To all that get it: what others copy from here instead is a barrier and a pass more. */
static void deliver(struct folding *folding, int root, size_t first, size_t items)
{
    if (root != ENGINE_EVERYBODY)
        store(folding, root, first, items);
    for (int i = 0; root == ENGINE_EVERYBODY && i < folding->ranks; i++)
        store(folding, (folding->rank + i) % folding->ranks, first, items);
}

int fold_reduce(const struct fold *fold, int root)
{
    struct folding folding;
    size_t count = (size_t)fold->call->count;
    int result = begin(&folding, fold, count, call_of(REDUCE, root, count, fold->shape.size), 0);
    if (result != MPI_SUCCESS)
        return end(&folding, result);
    size_t last = share_of(&folding, folding.rank + 1);
    for (size_t at = share_of(&folding, folding.rank), items; at < last; at += items) {
        items = block_at(&folding, at, last);
        fold_block(&folding, at, items);
        deliver(&folding, root, at, items);
    }
    return end(&folding, meet(&folding));
}

/* A rank reads an item of each before it writes there, so all may reduce in place. */
int fold_scan(const struct fold *fold, int is_exclusive)
{
    struct folding folding;
    size_t count = (size_t)fold->call->count;
    enum what what = is_exclusive ? EXSCAN : SCAN;
    int result =
        begin(&folding, fold, count, call_of(what, ENGINE_EVERYBODY, count, fold->shape.size), 0);
    if (result != MPI_SUCCESS)
        return end(&folding, result);
    size_t last = share_of(&folding, folding.rank + 1);
    for (size_t at = share_of(&folding, folding.rank), items; at < last; at += items) {
        items = block_at(&folding, at, last);
        load(&folding, folding.scratch.sum, 0, at, items);
        if (!is_exclusive)
            store(&folding, 0, at, items);
        for (int rank = 1; rank < folding.ranks; rank++) {
            load(&folding, folding.scratch.next, rank, at, items);
            if (is_exclusive)
                store(&folding, rank, at, items);
            if (is_exclusive && rank == folding.ranks - 1)
                break; /* no rank gets what that has given */
            combine(&folding, items);
            if (!is_exclusive)
                store(&folding, rank, at, items);
        }
    }
    return end(&folding, meet(&folding));
}

/* In place the result lies in memory that the others read meanwhile. */
int fold_reduce_scatter(const struct fold *fold, size_t count, size_t first, size_t items)
{
    struct folding folding;
    const struct reduction *call = fold->call;
    size_t size = fold->shape.size;
    int in_place = call->send == MPI_IN_PLACE || call->send == call->receive;
    char *kept = in_place && items ? malloc(items * size) : NULL;
    int result =
        begin(&folding, fold, count, call_of(REDUCE_SCATTER, ENGINE_EVERYBODY, count, size),
              in_place && items && !kept);
    if (result == MPI_SUCCESS) {
        for (size_t at = 0, some; at < items; at += some) {
            some = block_at(&folding, at, items);
            fold_block(&folding, first + at, some);
            struct piece sum = own(&folding, folding.scratch.sum, some);
            struct piece to = kept ? items_at(kept, at, some, size, NULL)
                                   : items_at(call->receive, at, some, size, fold->shape.form);
            copy(&folding, &to, &sum);
        }
        result = meet(&folding);
    }
    if (result == MPI_SUCCESS && kept) {
        struct piece from = items_at(kept, 0, items, size, NULL),
                     to = own(&folding, call->receive, items);
        copy(&folding, &to, &from);
    }
    free(kept);
    return end(&folding, result);
}
