/* src/mpi/rma/count.h: counts loads and stores on a window on storage: which parts were written to,
 * and how much. Inline: a small put takes 20 ns, of which this may be a tenth. */
#ifndef ONESPACE_MPI_RMA_COUNT_H
#define ONESPACE_MPI_RMA_COUNT_H

#include "mpi/rma/direct.h"

enum direct_use { DIRECT_PUT, DIRECT_GET, DIRECT_ACCUMULATE, DIRECT_USES };

/* Use of one target's part, by any thread of this process. The numbers are relaxed: nothing depends
 * on them.
 *
 * is_written: set before a store (direct_count) and cleared by MPI_Win_sync, which then flushes
 * (storage/provider.c). A thread that sees it set does not set it, and another thread may clear it
 * and flush before the store is made. So with several threads it is looked at once more after the
 * store (direct_count_end): either the flush sees the store, or the next one sees the mark. Each
 * side writes, has a sequentially consistent fence, and reads what the other has written. */
struct window_use {
    _Atomic int is_written; /* since the last synchronisation */
    /* Stores into it are not noticed: the program has its address, or MPI makes them at a time of
     * its own. Set before that, never cleared; release, so that await_stores has been called. */
    _Atomic int stays_written;
    _Atomic uint64_t calls[DIRECT_USES], bytes[DIRECT_USES];
    const struct basic
        *_Atomic last_type; /* release by the thread that finds it, acquire by those that use it */
};

/* Notes that this process stores into the part, before it does. */
static inline void direct_begin_to_write(struct window *window, int rank)
{
    if (window->provider->await_stores)
        window->provider->await_stores(window, rank);
    atomic_store_explicit(&window->use[rank].is_written, 1, memory_order_release);
}

/* Notes that stores into the part are not noticed from now on. */
static inline void direct_lend(struct window *window, int rank)
{
    if (!window->use ||
        atomic_load_explicit(&window->use[rank].stays_written, memory_order_acquire))
        return;
    if (window->provider->await_stores)
        window->provider->await_stores(window, rank);
    atomic_store_explicit(&window->use[rank].stays_written, 1, memory_order_release);
}

/* Whether this process may have stored into the part since the last call, which a flush follows. */
static inline int direct_was_written(struct window *window, int rank)
{
    struct window_use *use = &window->use[rank];
    int is_written = atomic_exchange_explicit(&use->is_written, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return is_written || atomic_load_explicit(&use->stays_written, memory_order_acquire);
}

/* Looks the type up and keeps it for the next call; NULL: a derived type. */
const struct basic *direct_count_type(struct window_use *use, MPI_Datatype type);

static inline void direct_add(_Atomic uint64_t *sum, uint64_t more, int is_threaded)
{
    if (is_threaded)
        atomic_fetch_add_explicit(sum, more, memory_order_relaxed);
    else /* a locked addition costs as much as a small put */
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + more,
                              memory_order_relaxed);
}

/* Call before the memory is accessed. */
static inline void direct_count(struct window *window, int rank, enum direct_use kind,
                                const struct transfer *origin)
{
    if (!window->use)
        return;
    struct window_use *use = &window->use[rank];
    const struct basic *basic = atomic_load_explicit(&use->last_type, memory_order_acquire);
    int size = 0;
    if (!basic || basic->type != origin->type)
        basic = direct_count_type(use, origin->type);
    if (basic)
        size = (int)basic->size;
    else if (real()->Type_size(origin->type, &size) != MPI_SUCCESS)
        size = 0;
    if (kind != DIRECT_GET && !atomic_load_explicit(&use->is_written, memory_order_relaxed))
        direct_begin_to_write(window, rank);
    direct_add(&use->calls[kind], 1, window->is_threaded);
    direct_add(&use->bytes[kind], (uint64_t)origin->count * (uint64_t)size, window->is_threaded);
}

/* Call after the memory was stored into. */
static inline void direct_count_end(struct window *window, int rank)
{
    if (!window->use || !window->is_threaded)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&window->use[rank].is_written, memory_order_relaxed))
        atomic_store_explicit(&window->use[rank].is_written, 1, memory_order_relaxed);
}

#endif
