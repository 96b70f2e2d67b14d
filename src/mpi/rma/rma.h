/* src/mpi/rma/rma.h: one-sided communication by loads and stores.
 *
 *   window.c      the table of windows; the parts of the ranks
 *   put_get.c     MPI_Put, MPI_Get
 *   accumulate.c  the accumulating functions
 *   sync.c        fence, locks, post and start, flush
 *   gpu.c         origin buffers in a GPU's memory
 *   intra_node.c  puts and gets within a node, on a window that spans nodes */
#ifndef ONESPACE_MPI_RMA_RMA_H
#define ONESPACE_MPI_RMA_RMA_H

#include "mpi/rma/window.h"
#include "mpi/types/types.h"

/* ---- Memory that the ranks of a window share ----
 *
 * All ranks can address the parts of such a window: communication is loads and stores, and
 * synchronisation is words in shared memory. The MPI library only provides the handle. Its own
 * window would serve the memory through messages or the kernel, and costs more to create. */

/* Excludes concurrent updates of elements (accumulate.c). Any thread of any rank changes the word
 * from 0 to its rank + 1 and back. */
enum { CACHE_LINE_BYTES = 64, STRIPE_COUNT = 16 };

struct update_lock {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t owner; /* rank + 1; 0: none */
};

/* One rank's part, as all ranks see it. */
struct rma_part {
    /* sync.c: holders of shared and exclusive locks on this part, and who waits. Any rank changes
     * it: acquire to lock, release to unlock. */
    _Alignas(128) _Atomic uint64_t lock;
    /* sync.c: access epochs to this part that are complete: origins add (release), the part's rank
     * reads (acquire). */
    _Atomic uint32_t completed;
    /* For windows on storage: `failed` of struct storage_region, shared by all ranks. */
    _Atomic int failed;
    /* For windows with versions: some process cannot tell which pages of this part it has dirtied
     * (storage/dirty_pages.c). Set once, by any rank. Relaxed: the ranks agree before the part's
     * rank reads it. */
    _Atomic int has_untracked_stores;
    struct update_lock all, stripes[STRIPE_COUNT];
    int disp_unit;
    char *base; /* these three: written by the rank itself before any rank uses the window */
    size_t size;
};

struct rma_shared {
    struct barrier barrier; /* MPI_Win_fence, MPI_Win_free */
    /* sync.c: like `lock`; its shared holders are those of MPI_Win_lock_all. */
    _Alignas(128) _Atomic uint64_t lock_all_word;
    int ranks;
    struct rma_part rank[];
    /* followed by _Atomic uint32_t posted[target][origin]; see rma_posted() */
};

/* Exposure epochs that `target` has opened for `origin`: the target adds (release), the origin
 * reads (acquire). */
static inline _Atomic uint32_t *rma_posted(struct rma_shared *shared, int target, int origin)
{
    _Atomic uint32_t *table = (_Atomic uint32_t *)&shared->rank[shared->ranks];
    return &table[(size_t)target * (size_t)shared->ranks + (size_t)origin];
}

size_t rma_shared_size(int ranks);
/* In a shared block of rank 0; NULL: out of memory. */
struct rma_shared *rma_shared_alloc(int ranks);
/* Publishes this rank's part; the others may read it after a gather. */
void rma_publish_part(struct window *window);
/* A rank's part of the window, and its address in this process. Only for ranks that loads and
 * stores reach. */
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
/* Makes progress at the end of a call after which the program may know what another rank has done.
 * One MPI_Iprobe then finds what that rank had sent, as after the library's own call. */
int window_progress(struct window *window);

/* The MPI functions MPI_Win_fence and so on, in sync.c. MPI_SUCCESS or an error class. */
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
int win_flush(struct window *window, int rank);
int win_flush_all(struct window *window);
/* MPI_Win_sync: a flush that is allowed outside of epochs, too. */
int win_sync(struct window *window);

/* MPI_Put and MPI_Get. target_disp counts the target's displacement units. */
int rma_put(struct window *window, const struct buf_desc *origin, int rank, MPI_Aint displacement,
            MPI_Count count, MPI_Datatype type);
int rma_get(struct window *window, const struct buf_desc *origin, int rank, MPI_Aint displacement,
            MPI_Count count, MPI_Datatype type);
/* The accumulating functions. result NULL: nothing is fetched. */
int rma_accumulate(struct window *window, const struct buf_desc *origin,
                   const struct buf_desc *result, int rank, MPI_Aint displacement, MPI_Count count,
                   MPI_Datatype type, MPI_Op op);
int rma_fetch_and_op(struct window *window, const struct buf_desc *origin,
                     const struct buf_desc *result, int rank, MPI_Aint displacement, MPI_Op op);
int rma_compare_and_swap(struct window *window, const void *origin, const void *compare,
                         void *result, MPI_Datatype datatype, int target_rank,
                         MPI_Aint target_disp);

/* The address of target data that lies between `lower` and `upper` bytes from it. NULL with *error:
 * no epoch is open for the rank, or the data is outside its part. */
char *rma_target_address(struct window *window, int target_rank, MPI_Aint target_disp,
                         int64_t lower, int64_t upper, int *error);

/* ---- Usage of a window on storage ----
 *
 * Which parts are dirty, and how many bytes were accessed. Inline, because a small put takes only
 * 20 ns. */

enum rma_kind { RMA_PUT, RMA_GET, RMA_ACCUMULATE, RMA_KINDS };

/* Usage of one target's part by this process. Any thread writes. The counters are relaxed: nothing
 * depends on them.
 *
 * is_dirty: set before a store (rma_begin_access) and cleared by MPI_Win_sync, which then flushes
 * (storage/provider.c). A thread that finds it set does not set it, and another thread may clear it
 * and flush before the store happens. So with several threads rma_end_store checks it again after
 * the store: either that flush sees the store, or the next one sees the flag. Each side writes,
 * executes a sequentially consistent fence, and reads what the other has written. */
struct rma_usage {
    _Atomic int is_dirty; /* since the last flush */
    /* The layer does not see all stores: the program has the address, or MPI stores at any time.
     * Set before that, never cleared. Release: prepare_stores has been called. */
    _Atomic int is_untracked;
    _Atomic uint64_t calls[RMA_KINDS], bytes[RMA_KINDS];
    const struct predefined_type
        *_Atomic last_type; /* release by the thread that finds it, acquire by those that use it */
};

/* Call before this process stores into the part. */
static inline void rma_mark_dirty(struct window *window, int rank)
{
    if (window->provider->prepare_stores)
        window->provider->prepare_stores(window, rank);
    atomic_store_explicit(&window->usage[rank].is_dirty, 1, memory_order_release);
}

/* Call before stores into the part that the layer does not see. */
static inline void rma_mark_untracked(struct window *window, int rank)
{
    if (!window->usage ||
        atomic_load_explicit(&window->usage[rank].is_untracked, memory_order_acquire))
        return;
    if (window->provider->prepare_stores)
        window->provider->prepare_stores(window, rank);
    atomic_store_explicit(&window->usage[rank].is_untracked, 1, memory_order_release);
}

/* Whether this process may have stored into the part since the last call. The caller flushes it. */
static inline int rma_take_dirty(struct window *window, int rank)
{
    struct rma_usage *usage = &window->usage[rank];
    int is_dirty = atomic_exchange_explicit(&usage->is_dirty, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return is_dirty || atomic_load_explicit(&usage->is_untracked, memory_order_acquire);
}

/* Looks the type up and remembers it; NULL: a derived type. */
const struct predefined_type *rma_usage_find_type(struct rma_usage *usage, MPI_Datatype type);

static inline void counter_add(_Atomic uint64_t *sum, uint64_t more, int is_threaded)
{
    if (is_threaded)
        atomic_fetch_add_explicit(sum, more, memory_order_relaxed);
    else /* a locked addition costs as much as a small put */
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + more,
                              memory_order_relaxed);
}

/* Call before the part is accessed. */
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

/* Call after the part was stored into. */
static inline void rma_end_store(struct window *window, int rank)
{
    if (!window->usage || !window->is_threaded)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&window->usage[rank].is_dirty, memory_order_relaxed))
        atomic_store_explicit(&window->usage[rank].is_dirty, 1, memory_order_relaxed);
}

/* ---- Windows that span nodes ----
 *
 * MPI serves the window, except that MPI_Put and MPI_Get to parts on this node are loads and
 * stores, as in a window of one node. MPI does not know of these, so their order relies on MPI's
 * own synchronisation:
 *
 *   lock, lock_all  MPI may acquire the lock lazily. The first put or get therefore fetches a byte
 *                   through MPI and flushes; then the lock is held.
 *   fence           MPI's fence, then a barrier of this node's ranks, because MPI's fence need not
 *                   be one.
 *   start           MPI may return before the target has posted: everything goes through MPI.
 *   flush, unlock   a memory fence orders the stores before MPI's later messages.
 *
 * All accumulating calls go through MPI: atomics of this node would not be atomic with respect to
 * those of others. */

struct intra_node {
    struct rma_shared *shared; /* of the ranks of this node */
    size_t mapped;             /* its bytes */
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

/* Whether a put or get to the rank can be loads and stores now; may wait for the lock. Otherwise it
 * must go through MPI. */
int intra_node_can_access(struct window *window, int rank, enum rma_kind kind);
/* Call when an operation goes to the rank through MPI: later calls of MPI_Win_sync flush that part,
 * too. */
void intra_node_mark_untracked(struct window *window, int rank);

/* Call after the MPI functions of these names have succeeded. */
void intra_node_lock(struct intra_node *node, int rank, int assertion);
void intra_node_lock_all(struct intra_node *node, int assertion);
void intra_node_start(struct intra_node *node);
/* Call before them. */
void intra_node_unlock(struct intra_node *node, int rank, int ranks);
void intra_node_unlock_all(struct intra_node *node, int ranks);
/* Call instead of it. */
int intra_node_fence(struct window *window, int assertion);

/* ---- GPUs ----
 *
 * A program that has loaded CUDA's library may pass MPI origin buffers in a GPU's memory, which the
 * CPU cannot read. The layer asks that library, lets it copy the origin data to host memory, and
 * continues with the copy. The memory of windows is never a GPU's. */

/* The word that says that the program has opened CUDA's library: a task's own
 * (space/interposition.h), else one that gpu_detect has set. Written once; relaxed, like the word.
 */
extern const _Atomic uint32_t *_Atomic gpu_flag;
/* Finds the word. Call it when a window is created. Outside of a space, where nothing reports the
 * loading of libraries, it checks whether the library is loaded. */
void gpu_detect(void);

static inline int gpu_is_possible(void)
{
    const _Atomic uint32_t *word = atomic_load_explicit(&gpu_flag, memory_order_relaxed);
    return word && atomic_load_explicit(word, memory_order_relaxed);
}

/* A copy of a buffer in host memory; all zero if the buffer is not in a GPU's memory. */
struct gpu_copy {
    char *host;       /* the copy, or NULL */
    uintptr_t device; /* the original */
    size_t size;
};

/* If the buffer is in a GPU's memory, copies it and redirects *buf to the copy. MPI_SUCCESS, or an
 * error class after a message. */
int gpu_copy_in(struct buf_desc *buf, struct gpu_copy *copy);
/* Copies the data back if it is_changed, and frees the copy. Results as above. */
int gpu_copy_out(struct gpu_copy *copy, int is_changed);

#endif
