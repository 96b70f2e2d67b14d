/* src/mpi/rma/direct.h: a window whose parts all ranks can address: communication is loads and
 * stores, synchronisation is words in shared memory.
 *
 * The MPI library does not know of it: its own window would serve such memory through messages or
 * the kernel, and creating one costs more than all of this. It provides the handle only. */
#ifndef ONESPACE_MPI_RMA_DIRECT_H
#define ONESPACE_MPI_RMA_DIRECT_H

#include "mpi/group/barrier.h"
#include "mpi/types/types.h"
#include "mpi/window/window.h"

/* update.c: who updates elements. Any thread of any rank changes the word from 0 to itself and
 * back. */
enum { DIRECT_LINE = 64, DIRECT_STRIPES = 16 };

struct direct_updating {
    _Alignas(DIRECT_LINE) _Atomic uint32_t by; /* rank + 1, 0: nobody */
};

/* One rank's part, as all ranks see it. */
struct direct_rank {
    /* lock.c: who may access this part: LOCK_EXCLUSIVE or the number of shared locks. Any rank
     * changes it by compare-and-swap: acquire to lock, release to unlock. */
    _Alignas(128) _Atomic uint32_t lock;
    /* post.c: completed access epochs to this part: the origins add (release), its rank reads
     * (acquire). */
    _Atomic uint32_t completed;
    /* Of windows on storage: struct storage_region's `failed`, shared by all ranks. */
    _Atomic int failed;
    /* Of windows with versions: some process cannot tell where it has stored into this part
     * (storage/written.c). Set once, by any rank (relaxed: an agreement comes before the part's
     * rank reads it). */
    _Atomic int is_unseen;
    struct direct_updating all, stripes[DIRECT_STRIPES];
    int disp_unit;
    char *base; /* these three: written by the rank itself before any rank uses the window */
    size_t size;
};

struct direct {
    struct barrier barrier; /* MPI_Win_fence, MPI_Win_free */
    /* lock.c: holders of MPI_Win_lock_all in the low half, of exclusive locks in the high half; at
     * most one half is non-zero. Changed by compare-and-swap, like `lock`. */
    _Alignas(128) _Atomic uint64_t everybody;
    int ranks;
    struct direct_rank rank[];
    /* behind them: _Atomic uint32_t posted[target][origin]; see direct_posted() */
};

/* Exposure epochs that `target` has opened for `origin`: the target adds (release), the origin
 * reads (acquire). */
static inline _Atomic uint32_t *direct_posted(struct direct *direct, int target, int origin)
{
    _Atomic uint32_t *table = (_Atomic uint32_t *)&direct->rank[direct->ranks];
    return &table[(size_t)target * (size_t)direct->ranks + (size_t)origin];
}

size_t direct_size(int ranks);
/* In rank 0's memory (group/shared.h); NULL: out of memory. */
struct direct *direct_new(int ranks);
/* Publishes this rank's part; the others may read it after a gather. */
void direct_join(struct window *window);
/* The part of a rank of the window, as all ranks of the node see it, and its address in this
 * process. Only where loads and stores reach the rank. */
const struct direct_rank *direct_part(const struct window *window, int rank);
char *direct_base(const struct window *window, int rank);

static inline struct wait direct_wait(const struct window *window)
{
    return (struct wait)WAIT_INIT(window->group);
}

static inline void direct_open(struct window *window, uint32_t epoch)
{
    if (atomic_load_explicit(&window->epochs, memory_order_relaxed) & WINDOW_EPOCH_FENCE)
        atomic_fetch_and_explicit(&window->epochs, ~WINDOW_EPOCH_FENCE, memory_order_relaxed);
    atomic_fetch_add_explicit(&window->epochs, epoch, memory_order_relaxed);
}
static inline void direct_close(struct window *window, uint32_t epoch)
{
    atomic_fetch_sub_explicit(&window->epochs, epoch, memory_order_relaxed);
}

/* Notes a get, whose value may tell the program what another rank has done. */
static inline void direct_note_read(struct window *window)
{
    if (!atomic_load_explicit(&window->has_read, memory_order_relaxed))
        atomic_store_explicit(&window->has_read, 1, memory_order_relaxed);
}
/* Ends a call after which the program may know what another rank did before: one MPI_Iprobe then
 * finds what that rank had sent, as after the library's own call. */
int direct_poll(struct window *window);

/* direct.c, lock.c, post.c: the MPI functions of these names. */
int direct_fence(struct window *window, int assertion);
int direct_lock(struct window *window, int type, int rank, int assertion);
int direct_unlock(struct window *window, int rank);
int direct_lock_all(struct window *window, int assertion);
int direct_unlock_all(struct window *window);
int direct_post(struct window *window, MPI_Group group);
int direct_start(struct window *window, MPI_Group group);
int direct_complete(struct window *window);
int direct_await(struct window *window);
int direct_test(struct window *window, int *flag);
/* MPI_Win_flush and its variants: every operation is complete when its call returns, so only order
 * remains. */
int direct_flush(struct window *window);
/* MPI_Win_sync: as a flush, outside of epochs, too. */
int direct_sync(struct window *window);

/* copy.c: MPI_Put and MPI_Get. `displacement` is in units of the target. */
int direct_put(struct window *window, const struct transfer *origin, int rank,
               MPI_Aint displacement, MPI_Count count, MPI_Datatype type);
int direct_get(struct window *window, const struct transfer *origin, int rank,
               MPI_Aint displacement, MPI_Count count, MPI_Datatype type);
/* accumulate.c: all accumulating functions. result NULL: nothing is fetched. */
int direct_accumulate(struct window *window, const struct transfer *origin,
                      const struct transfer *result, int rank, MPI_Aint displacement,
                      MPI_Count count, MPI_Datatype type, MPI_Op op);
int direct_compare_and_swap(struct window *window, const void *origin, const void *compare,
                            void *result, MPI_Datatype type, int rank, MPI_Aint displacement);

/* The address of a target whose data lies between these bytes from it; NULL: *error says that no
 * epoch is open for the rank, or that the data is not in its part. */
char *direct_target(struct window *window, int rank, MPI_Aint displacement, int64_t lower,
                    int64_t upper, int *error);

#endif
