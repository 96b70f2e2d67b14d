/* src/mpi/rma/count.h: counts loads and stores on a window on storage: which parts were written to,
 * and how much. Inline: a small put takes 20 ns, of which this may be a tenth. */
#ifndef ONESPACE_MPI_RMA_COUNT_H
#define ONESPACE_MPI_RMA_COUNT_H

#include "mpi/rma/direct.h"

enum direct_use { DIRECT_PUT, DIRECT_GET, DIRECT_ACCUMULATE, DIRECT_USES };

/* Use of one target's part. Any thread of this process; relaxed, except last_type: nothing depends
 * on the numbers, and a flush that must see is_written follows it in program order. A thread that
 * sees it set stores only then, so that it need not acquire what the one that set it has done. */
struct window_use {
    _Atomic int is_written; /* since the last synchronisation */
    _Atomic uint64_t calls[DIRECT_USES], bytes[DIRECT_USES];
    const struct basic
        *_Atomic last_type; /* release by the thread that finds it, acquire by those that use it */
};

/* Notes that this process stores into the part, or lets MPI do so; before it does. */
static inline void direct_begin_to_write(struct window *window, int rank)
{
    if (window->provider->await_stores)
        window->provider->await_stores(window, rank);
    atomic_store_explicit(&window->use[rank].is_written, 1, memory_order_release);
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

#endif
