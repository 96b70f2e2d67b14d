/* src/mpi/rma/rma.h: one-sided communication by loads and stores. */
#ifndef ONESPACE_MPI_RMA_RMA_H
#define ONESPACE_MPI_RMA_RMA_H

#include "mpi/rma/window.h"
#include "mpi/types/types.h"

/* a window whose parts all ranks can address: communication is loads and
 * stores, synchronisation is words in shared memory.
 *
 * The MPI library does not know of it: its own window would serve such memory through messages or
 * the kernel, and creating one costs more than all of this. It provides the handle only. */

/* update.c: who updates elements. Any thread of any rank changes the word from 0 to itself and
 * back. */
enum { CACHE_LINE_BYTES = 64, STRIPE_COUNT = 16 };

struct update_lock {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t by; /* rank + 1, 0: nobody */
};

/* One rank's part, as all ranks see it. */
struct rma_part {
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
    struct update_lock all, stripes[STRIPE_COUNT];
    int disp_unit;
    char *base; /* these three: written by the rank itself before any rank uses the window */
    size_t size;
};

struct rma_shared {
    struct barrier barrier; /* MPI_Win_fence, MPI_Win_free */
    /* lock.c: holders of MPI_Win_lock_all in the low half, of exclusive locks in the high half; at
     * most one half is non-zero. Changed by compare-and-swap, like `lock`. */
    _Alignas(128) _Atomic uint64_t lock_all_word;
    int ranks;
    struct rma_part rank[];
    /* behind them: _Atomic uint32_t posted[target][origin]; see rma_posted() */
};

/* Exposure epochs that `target` has opened for `origin`: the target adds (release), the origin
 * reads (acquire). */
static inline _Atomic uint32_t *rma_posted(struct rma_shared *shared, int target, int origin)
{
    _Atomic uint32_t *table = (_Atomic uint32_t *)&shared->rank[shared->ranks];
    return &table[(size_t)target * (size_t)shared->ranks + (size_t)origin];
}

size_t rma_shared_size(int ranks);
/* In rank 0's memory (group/shared.h); NULL: out of memory. */
struct rma_shared *rma_shared_alloc(int ranks);
/* Publishes this rank's part; the others may read it after a gather. */
void rma_publish_part(struct window *window);
/* The part of a rank of the window, as all ranks of the node see it, and its address in this
 * process. Only where loads and stores reach the rank. */
const struct rma_part *rma_part_of(const struct window *window, int rank);
char *rma_part_base(const struct window *window, int rank);

static inline struct wait window_wait(const struct window *window)
{
    return (struct wait)WAIT_INIT(window->group);
}

static inline void epoch_open(struct window *window, uint32_t epoch)
{
    if (atomic_load_explicit(&window->epochs, memory_order_relaxed) & WINDOW_EPOCH_FENCE)
        atomic_fetch_and_explicit(&window->epochs, ~WINDOW_EPOCH_FENCE, memory_order_relaxed);
    atomic_fetch_add_explicit(&window->epochs, epoch, memory_order_relaxed);
}
static inline void epoch_close(struct window *window, uint32_t epoch)
{
    atomic_fetch_sub_explicit(&window->epochs, epoch, memory_order_relaxed);
}

/* Notes a get, whose value may tell the program what another rank has done. */
static inline void rma_note_get(struct window *window)
{
    if (!atomic_load_explicit(&window->has_read, memory_order_relaxed))
        atomic_store_explicit(&window->has_read, 1, memory_order_relaxed);
}
/* Ends a call after which the program may know what another rank did before: one MPI_Iprobe then
 * finds what that rank had sent, as after the library's own call. */
int window_progress(struct window *window);

/* direct.c, lock.c, post.c: the MPI functions of these names. */
int win_fence(struct window *window, int assertion);
int win_lock(struct window *window, int type, int rank, int assertion);
int win_unlock(struct window *window, int rank);
int win_lock_all(struct window *window, int assertion);
int win_unlock_all(struct window *window);
int win_post(struct window *window, MPI_Group group);
int win_start(struct window *window, MPI_Group group);
int win_complete(struct window *window);
int win_wait(struct window *window);
int win_test(struct window *window, int *flag);
/* MPI_Win_flush and its variants: every operation is complete when its call returns, so only order
 * remains. */
int win_flush(struct window *window);
/* MPI_Win_sync: as a flush, outside of epochs, too. */
int win_sync(struct window *window);

/* copy.c: MPI_Put and MPI_Get. `displacement` is in units of the target. */
int rma_put(struct window *window, const struct buf_desc *origin, int rank, MPI_Aint displacement,
            MPI_Count count, MPI_Datatype type);
int rma_get(struct window *window, const struct buf_desc *origin, int rank, MPI_Aint displacement,
            MPI_Count count, MPI_Datatype type);
/* accumulate.c: all accumulating functions. result NULL: nothing is fetched. */
int rma_accumulate(struct window *window, const struct buf_desc *origin,
                   const struct buf_desc *result, int rank, MPI_Aint displacement, MPI_Count count,
                   MPI_Datatype type, MPI_Op op);
int rma_compare_and_swap(struct window *window, const void *origin, const void *compare,
                         void *result, MPI_Datatype type, int rank, MPI_Aint displacement);

/* The address of a target whose data lies between these bytes from it; NULL: *error says that no
 * epoch is open for the rank, or that the data is not in its part. */
char *rma_target_address(struct window *window, int rank, MPI_Aint displacement, int64_t lower,
                         int64_t upper, int *error);

/* ---- Counting ---- */

/* counts loads and stores on a window on storage: which parts were written to,
 * and how much. Inline: a small put takes 20 ns, of which this may be a tenth. */

enum rma_kind { RMA_PUT, RMA_GET, RMA_ACCUMULATE, RMA_KINDS };

/* Use of one target's part, by any thread of this process. The numbers are relaxed: nothing depends
 * on them.
 *
 * is_dirty: set before a store (rma_begin_access) and cleared by MPI_Win_sync, which then flushes
 * (storage/provider.c). A thread that sees it set does not set it, and another thread may clear it
 * and flush before the store is made. So with several threads it is looked at once more after the
 * store (rma_end_store): either the flush sees the store, or the next one sees the mark. Each
 * side writes, has a sequentially consistent fence, and reads what the other has written. */
struct rma_usage {
    _Atomic int is_dirty; /* since the last synchronisation */
    /* Stores into it are not noticed: the program has its address, or MPI makes them at a time of
     * its own. Set before that, never cleared; release, so that prepare_stores has been called. */
    _Atomic int is_untracked;
    _Atomic uint64_t calls[RMA_KINDS], bytes[RMA_KINDS];
    const struct predefined_type
        *_Atomic last_type; /* release by the thread that finds it, acquire by those that use it */
};

/* Notes that this process stores into the part, before it does. */
static inline void rma_mark_dirty(struct window *window, int rank)
{
    if (window->provider->prepare_stores)
        window->provider->prepare_stores(window, rank);
    atomic_store_explicit(&window->usage[rank].is_dirty, 1, memory_order_release);
}

/* Notes that stores into the part are not noticed from now on. */
static inline void rma_mark_untracked(struct window *window, int rank)
{
    if (!window->usage ||
        atomic_load_explicit(&window->usage[rank].is_untracked, memory_order_acquire))
        return;
    if (window->provider->prepare_stores)
        window->provider->prepare_stores(window, rank);
    atomic_store_explicit(&window->usage[rank].is_untracked, 1, memory_order_release);
}

/* Whether this process may have stored into the part since the last call, which a flush follows. */
static inline int rma_take_dirty(struct window *window, int rank)
{
    struct rma_usage *usage = &window->usage[rank];
    int is_dirty = atomic_exchange_explicit(&usage->is_dirty, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return is_dirty || atomic_load_explicit(&usage->is_untracked, memory_order_acquire);
}

/* Looks the type up and keeps it for the next call; NULL: a derived type. */
const struct predefined_type *rma_usage_find_type(struct rma_usage *usage, MPI_Datatype type);

static inline void counter_add(_Atomic uint64_t *sum, uint64_t more, int is_threaded)
{
    if (is_threaded)
        atomic_fetch_add_explicit(sum, more, memory_order_relaxed);
    else /* a locked addition costs as much as a small put */
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + more,
                              memory_order_relaxed);
}

/* Call before the memory is accessed. */
static inline void rma_begin_access(struct window *window, int rank, enum rma_kind kind,
                                    const struct buf_desc *origin)
{
    if (!window->usage)
        return;
    struct rma_usage *usage = &window->usage[rank];
    const struct predefined_type *predefined =
        atomic_load_explicit(&usage->last_type, memory_order_acquire);
    int size = 0;
    if (!predefined || predefined->type != origin->type)
        predefined = rma_usage_find_type(usage, origin->type);
    if (predefined)
        size = (int)predefined->size;
    else if (pmpi()->Type_size(origin->type, &size) != MPI_SUCCESS)
        size = 0;
    if (kind != RMA_GET && !atomic_load_explicit(&usage->is_dirty, memory_order_relaxed))
        rma_mark_dirty(window, rank);
    counter_add(&usage->calls[kind], 1, window->is_threaded);
    counter_add(&usage->bytes[kind], (uint64_t)origin->count * (uint64_t)size, window->is_threaded);
}

/* Call after the memory was stored into. */
static inline void rma_end_store(struct window *window, int rank)
{
    if (!window->usage || !window->is_threaded)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&window->usage[rank].is_dirty, memory_order_relaxed))
        atomic_store_explicit(&window->usage[rank].is_dirty, 1, memory_order_relaxed);
}

/* ---- Windows that span nodes ---- */

/* puts and gets within a node, on a window that spans nodes.
 *
 * MPI serves the window, except that MPI_Put and MPI_Get to parts on this node are loads and
 * stores, as in a window of one node (direct.h). MPI does not know of these, so their order relies
 * on MPI's own synchronisation:
 *
 *   lock, lock_all  MPI may acquire the lock lazily. The first put or get fetches a byte
 *                   through MPI and flushes: after that the lock is held.
 *   fence           MPI's fence, then a barrier of this node's ranks, since MPI's need not be
 *                   one.
 *   start           MPI may return before the target has posted: everything goes through MPI.
 *   flush, unlock   a memory fence orders the stores before what MPI tells others afterwards.
 *
 * All accumulating calls go through MPI: atomics of this node would not be atomic with respect to
 * those of others. */

struct intra_node {
    struct rma_shared *shared; /* what the ranks of this node share */
    size_t mapped;             /* bytes of it */
    int ranks;                 /* of this node */
    /* The state of synchronisation: synchronisation calls of this process write it; puts and gets
     * of any thread read it. Relaxed: the program itself orders such calls. */
    _Atomic int is_fenced;                /* an epoch of MPI_Win_fence is open */
    _Atomic unsigned char lock_all_state; /* MPI_Win_lock_all: enum lock_state */
    /* enum lock_state by rank; also written by a put or get that waits for the lock. */
    _Atomic unsigned char locks[];
};

/* For a window whose parts on this node are at window->bases. Takes ownership of `shared`, which is
 * mapped. NULL: out of memory. */
struct intra_node *intra_node_new(const struct group *group, struct rma_shared *shared,
                                  size_t mapped);
void intra_node_free(struct intra_node *node);

/* Whether a put or get to the rank can be loads and stores now; may wait for the lock. If not, it
 * has to go through MPI. */
int intra_node_can_access(struct window *window, int rank, enum rma_kind way);
/* An operation goes to the rank through MPI: the next MPI_Win_sync must flush that part, too. */
void intra_node_mark_untracked(struct window *window, int rank);

/* To be called after the MPI functions of these names have succeeded. */
void intra_node_lock(struct intra_node *node, int rank, int assertion);
void intra_node_lock_all(struct intra_node *node, int assertion);
void intra_node_start(struct intra_node *node);
/* To be called before them. */
void intra_node_unlock(struct intra_node *node, int rank, int ranks);
void intra_node_unlock_all(struct intra_node *node, int ranks);
/* To be called instead of it. */
int intra_node_fence(struct window *window, int assertion);

/* ---- GPUs ---- */

/* origins of transfers in a GPU's memory, which the CPU cannot read.
 *
 * A program that has loaded CUDA's library may give such addresses to MPI. The layer asks that
 * library, has it copy the origin's data to memory of the host, and there does as always. Memory of
 * windows is the layer's, and never a GPU's. */

/* The word that says that the program has opened CUDA's library: a task's own
 * (space/interposition.h), else one that gpu_detect has set. Written once; relaxed, like the word.
 */
extern const _Atomic uint32_t *_Atomic gpu_flag;
/* Finds the word. To be called when a window is created. Outside of a space, where no loading of
 * libraries is seen, this looks whether the library is loaded. */
void gpu_detect(void);

static inline int gpu_is_possible(void)
{
    const _Atomic uint32_t *word = atomic_load_explicit(&gpu_flag, memory_order_relaxed);
    return word && atomic_load_explicit(word, memory_order_relaxed);
}

/* A transfer's data on the host. Zeroes are one that is not on a device. */
struct gpu_copy {
    char *host; /* the copy, NULL: the data is not on a device */
    uintptr_t device;
    size_t size;
};

/* If the transfer's data is on a device, copies it and has the transfer name the copy. MPI_SUCCESS,
 * or an error class after a message. */
int gpu_copy_in(struct buf_desc *transfer, struct gpu_copy *copy);
/* Copies the data back, if it is_changed, and frees the copy. MPI_SUCCESS or as above. */
int gpu_copy_out(struct gpu_copy *copy, int is_changed);

#endif
