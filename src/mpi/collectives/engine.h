/* src/mpi/collectives/engine.h: onespace/sync's collective operations for the ranks of a
 * communicator that are all in one space.
 *
 * engine.cpp instantiates include/onespace/sync/engine.hpp; this is its face in C. It needs neither
 * MPI nor a C++ library. An engine is used by one thread at a time, as a communicator is. */
#ifndef ONESPACE_MPI_COLLECTIVES_ENGINE_H
#define ONESPACE_MPI_COLLECTIVES_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "mpi/types/reduce_loops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct engine;

/* How an engine waits: until *word, which another rank raises, has reached `value` (acquire). 0, or
 * an error after which the engine is lost: every later call returns it. */
typedef int engine_await(void *context, const uint64_t *word, uint64_t value);
/* Rank `rank` is in another call, or gave another size or root: the error to return. */
typedef int engine_disagrees(void *context, int rank);
/* Rank `rank` has failed in this call, or has passed on a failure: the error to return. */
typedef int engine_peer_failed(void *context, int rank);

/* Which algorithms; those of onespace/sync's `algorithm`. The same on all ranks. */
enum engine_algorithm {
    ENGINE_AUTOMATIC,
    ENGINE_FLAT,
    ENGINE_DOUBLING,
    ENGINE_TREE,
    ENGINE_LARGE,
};

struct engine_ranks {
    int rank, size;
    enum engine_algorithm algorithm;
    int is_oversubscribed;
    int is_guarded; /* the caller: others may not write to its own memory */
    engine_await *await;
    engine_disagrees *disagrees;
    engine_peer_failed *peer_failed;
    void *context; /* of all three */
};

enum { ENGINE_EVERYBODY = -1 }; /* in place of a root */
enum { ENGINE_SHARE_MAX = 32 };

/* What an operation combines data by: `loop` on elements one by one, or, if that is NULL, `combine`
 * on all of it: `from` into `into`, whose operand is the second if from_is_first. */
struct engine_operation {
    reduce_function *loop;
    void (*combine)(void *context, void *into, const void *from, size_t bytes, int from_is_first);
    void *context;
    size_t element; /* bytes; all of the data for `combine` */
    int commutes;
};

/* What one rank gets from another. */
struct engine_part {
    const void *data;
    size_t bytes;
    const void *form; /* as the giver says; NULL: the bytes lie in one piece */
};
/* What a rank gives: parts[i] to rank i or, without `parts`, `bytes` bytes from base + i * stride
 * on. */
struct engine_offer {
    const void *base;
    size_t bytes, stride;
    const void *form;
    const struct engine_part *parts;
};
/* Called with the caller's own rank and an empty part, too, while others read what it offers. */
typedef void engine_take(void *context, int from, const struct engine_part *part);
enum engine_call { ENGINE_GATHER, ENGINE_SCATTER, ENGINE_ALLTOALL };

/* Bytes of zeroed memory that each rank must give for `ranks` of them, a multiple of 128. */
size_t engine_memory(int ranks, int is_oversubscribed);
/* `memory`: of rank 0; rank i's follows after i times engine_memory. It must stay while any rank
 * uses its engine. NULL: out of memory. */
struct engine *engine_new(const struct engine_ranks *ranks, void *memory);
void engine_free(struct engine *engine);

/* 0, or the error of an await or a disagreement. What other ranks read or write of the caller's
 * memory they have read or written when a call returns without an error. */
int engine_barrier(struct engine *engine);
/* What each rank gives to all, at most ENGINE_SHARE_MAX bytes: *all, in rank order, valid until the
 * next call but engine_barrier. */
int engine_share(struct engine *engine, const void *mine, size_t bytes, const void **all);
/* In place of any call but engine_barrier, whichever the other ranks make: the caller's arguments
 * are wrong. The others do not wait for it; those that need anything of the caller get the error of
 * engine_peer_failed, and the engine stays usable. 0, or the error of an await. */
int engine_fail(struct engine *engine);
/* `rank` has shared what no rank can in the caller's call. The error, which every later call
 * returns, too. */
int engine_disagree(struct engine *engine, int rank);
/* `in` may be `out`. */
int engine_reduce(struct engine *engine, const void *in, void *out, size_t bytes,
                  const struct engine_operation *operation, int root);
/* The bytes from `begin` to `end` of what all combine. `out` is no part of `in`. */
int engine_reduce_scatter(struct engine *engine, const void *in, size_t bytes, void *out,
                          size_t begin, size_t end, const struct engine_operation *operation);
/* `in` may be `out`. */
int engine_scan(struct engine *engine, const void *in, void *out, size_t bytes,
                const struct engine_operation *operation, int is_exclusive);
/* Each rank that is `from`, one or everybody, gives what it offers; `take` gets, on each rank that
 * is `to`, its part of every other rank's. Giver and taker need not agree on a size. */
int engine_exchange(struct engine *engine, enum engine_call call, int from, int to,
                    const struct engine_offer *mine, engine_take *take, void *context);
/* From the root to all. `mine`: what the caller has after `take`, since ranks pass it on. */
int engine_broadcast(struct engine *engine, int root, const struct engine_offer *mine,
                     engine_take *take, void *context);

#ifdef __cplusplus
}
#endif
#endif
