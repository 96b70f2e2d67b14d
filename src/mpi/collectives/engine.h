/* src/mpi/collectives/engine.h: the collective algorithms of onespace/sync, for the ranks of a
 * communicator that are all in one space.
 *
 * engine.cpp instantiates include/onespace/sync/engine.hpp behind this interface in C. It needs
 * neither MPI nor a C++ library. An engine is used by one thread at a time, as a communicator is.
 */
#ifndef ONESPACE_MPI_COLLECTIVES_ENGINE_H
#define ONESPACE_MPI_COLLECTIVES_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "mpi/types/reduce_loops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct engine;

/* The algorithms of onespace/sync's `algorithm`. The same on all ranks. */
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
    int is_guarded; /* other ranks must not write to this rank's memory */
    /* Waits until *word, which another rank raises, has reached `value` (acquire). 0; or an error,
     * after which the engine is lost: every later call returns it. */
    int (*await)(void *context, const uint64_t *word, uint64_t value);
    /* Return the error for this rank: `rank` is in another call, or passed another size or root;
     * `rank` has failed in this call, or passed on a failure. */
    int (*mismatch)(void *context, int rank);
    int (*peer_failed)(void *context, int rank);
    void *context;
};

enum { ENGINE_ALL_RANKS = -1 }; /* in place of a root */

/* Long operands that cannot be combined where they lie, because their items have gaps, or because a
 * function of the program combines them, which must not get another rank's memory. They are loaded
 * into two operands of this rank's, block by block. Offsets and sizes count data without gaps, in
 * multiples of engine_operation.element. */
enum engine_operand { ENGINE_SUM, ENGINE_NEXT };
struct engine_blocks {
    size_t max_bytes;       /* of a block; ranks may differ */
    const void *layout;     /* of this rank's `in` and `out` */
    const void *out_layout; /* of `out` of engine_reduce_scatter */
    void (*load)(void *context, enum engine_operand operand, const void *data, const void *layout,
                 size_t offset, size_t bytes);
    void (*combine)(void *context, size_t bytes); /* sum = sum OP next */
    void (*store)(void *context, void *data, const void *layout, size_t offset,
                  size_t bytes); /* the sum */
};

/* How to combine data: by `loop`, element by element; or, if that is NULL, by `combine`, all of it
 * at once: `from` into `into`, whose operand is the second if from_is_first. */
struct engine_operation {
    reduce_function *loop;
    void (*combine)(void *context, void *into, const void *from, size_t bytes, int from_is_first);
    const struct engine_blocks *blocks; /* NULL; else used in place of both */
    void *context;                      /* of combine and blocks */
    size_t element;                     /* bytes; for `combine` all of the data */
    int commutes;
};

/* Data that one rank receives from another. */
struct engine_part {
    const void *data;
    size_t bytes;
    const void *layout; /* how the bytes lie in the sender's memory; NULL: contiguous */
};
/* Data that a rank sends: parts[i] to rank i; or, without `parts`, `bytes` bytes from base + i *
 * stride.
 */
struct engine_offer {
    const void *base;
    size_t bytes, stride;
    const void *layout;
    const struct engine_part *parts;
};
/* Called with this rank itself and an empty part, too, while other ranks read what it offers. */
typedef void engine_receive(void *context, int source, const struct engine_part *part);
enum engine_kind { ENGINE_GATHER, ENGINE_SCATTER, ENGINE_ALLTOALL };

/* Bytes of zeroed memory that each of `ranks` ranks needs, a multiple of 128. */
size_t engine_memory(int ranks, int is_oversubscribed);
/* `memory`: all ranks', rank i's at i * engine_memory. It must stay as long as any rank uses its
 * engine. NULL: out of memory. */
struct engine *engine_new(const struct engine_ranks *ranks, void *memory);
void engine_free(struct engine *engine);
/* Within a call: whether `rank` has returned from it, so that no other rank needs it any more. */
int engine_has_finished(const struct engine *engine, int rank);

/* Whether the caller has read, since the last call of this function, what another rank wrote. A
 * rank that only sends has not, except that it reads every few calls how far the others are. */
int engine_take_has_read(struct engine *engine);

/* All calls return 0 or the error of a callback. After a call without an error no other rank
 * accesses the caller's buffers. */
int engine_barrier(struct engine *engine);
/* In place of any call but engine_barrier, whichever the other ranks make: the caller's arguments
 * are wrong. The others do not wait for it; those that need its data get the error of peer_failed.
 * The engine stays usable. */
int engine_fail(struct engine *engine);
/* `in` may be `out`. */
int engine_reduce(struct engine *engine, const void *in, void *out, size_t bytes,
                  const struct engine_operation *operation, int root);
/* The bytes from `begin` to `end` of the result. `out` is not part of `in`. */
int engine_reduce_scatter(struct engine *engine, const void *in, size_t bytes, void *out,
                          size_t begin, size_t end, const struct engine_operation *operation);
/* `in` may be `out`. */
int engine_scan(struct engine *engine, const void *in, void *out, size_t bytes,
                const struct engine_operation *operation, int is_exclusive);
/* Each rank that is `from`, a rank or ENGINE_ALL_RANKS, sends what it offers; each rank that is
 * `to` receives its part of every other rank's offer. Their sizes may differ. */
int engine_exchange(struct engine *engine, enum engine_kind kind, int from, int to,
                    const struct engine_offer *offer, engine_receive *receive, void *context);
/* From the root to all. `offer`: what the caller has after `receive`, because ranks pass it on. */
int engine_broadcast(struct engine *engine, int root, const struct engine_offer *offer,
                     engine_receive *receive, void *context);

#ifdef __cplusplus
}
#endif
#endif
