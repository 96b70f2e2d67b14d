/* src/mpi/rma/window.h: a window of the layer, and where its memory comes from. */
#ifndef ONESPACE_MPI_RMA_WINDOW_H
#define ONESPACE_MPI_RMA_WINDOW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/group/group.h"

/* ---- Providers ----
 *
 * A provider allocates the memory of a window. MPI_Win_allocate and MPI_Win_allocate_shared ask
 * each provider in turn whether it accepts the call; the first that accepts it on any rank
 * allocates the memory of all ranks, also of those on which it did not accept. If no provider
 * accepts the call on any rank, it goes to the MPI library unchanged.
 *
 *   lifetime/create.c  all ranks agree on the provider, call allocate, and agree on its outcome
 *   provider           only allocates memory
 *   lifetime/create.c  creates the window's handle
 *
 * Communication and synchronisation are loads and stores (rma.h) when all ranks share one
 * address space, or when the provider has made all parts reachable from every process
 * (window->rma_shared, window->bases). Otherwise MPI serves the window, created by MPI_Win_create
 * on the memory, except for puts and gets to parts that the provider has made reachable on this
 * node (intra_node.c).
 *
 * To add a provider: define a struct window_provider and add it to the table in lifetime/create.c,
 * before those over which it takes precedence. The layer calls its functions as follows, on threads
 * of the program that are inside an MPI call:
 *
 *   accepts     by each rank alone: it reads the request, and neither changes nor communicates
 *               anything
 *   allocate    by all ranks of request->agreement at the same time. It may call
 *               agreement_allgather, the same number of times on every rank, including a rank that
 *               has failed
 *   sync        by one rank alone, at any time (MPI_Win_sync)
 *   close       by all ranks, after all have stopped using the window. It must not wait for
 *               other ranks, which may close several windows in another order
 *   free        by all ranks, after close; it may wait for the other ranks' outcome of close. Also
 *               without close, where allocate succeeded but failed on another rank: then it must
 *               not communicate
 *
 * Calls for several windows may run concurrently (MPI_THREAD_MULTIPLE), and calls of sync for one
 * window. The functions return MPI_SUCCESS or an MPI error class. On the rank that finds the error
 * they first print a message (layer_message) with the cause and the remedy; the layer then fails
 * the call on all ranks through the communicator's error handler. They call MPI functions as
 * pmpi()->NAME, never with a lock held. */

struct window;
struct rma_shared;

/* window_proposal.memory of a part that uses as much memory as the other parts leave. */
#define WINDOW_MEMORY_FITS UINT64_MAX

/* A rank's proposal to the other ranks. */
struct window_proposal {
    int32_t provider; /* index in the table; -1: none */
    int32_t error;
    int32_t unfit; /* error class of size or disp_unit; counts if a provider serves the window */
    uint64_t size;
    uint64_t memory;               /* bytes of `size` that are memory, or WINDOW_MEMORY_FITS */
    struct rma_shared *rma_shared; /* rank 0's, in one address space */
};

/* One rank's request. The ranks may differ in size, disp_unit and info. */
struct window_request {
    const char *call; /* name of the MPI function, for messages */
    size_t size;      /* bytes on this rank */
    MPI_Aint disp_unit;
    MPI_Info info; /* the caller's; MPI_INFO_NULL is possible */
    MPI_Comm comm;
    int is_shared;               /* MPI_Win_allocate_shared */
    struct agreement *agreement; /* of the ranks of comm */
    /* All ranks' proposals, until the next allgather; NULL in accepts. */
    const struct window_proposal *proposals;
};

struct window_provider {
    const char *name;
    /* Sets *is_ours to 1 when the provider accepts this rank's request, and *memory when not all of
     * it will be memory. An error class: the request is for this provider, but invalid. */
    int (*accepts)(const struct window_request *request, uint64_t *memory, int *is_ours);
    /* Sets window->base, and window->provider_data for its own use. In one address space this is
     * enough for the others to reach the memory. */
    int (*allocate)(struct window *window, const struct window_request *request);
    /* A large copy to (is_put) or from the part of `rank`, for MPI_Put and MPI_Get. `part` is an
     * address of this process. NULL: the layer copies by loads and stores, as it does small data.
     */
    void (*copy)(struct window *window, int rank, int is_put, char *part, char *own, size_t size);
    /* Called before this process stores into the part of `rank` for the first time since
     * MPI_Win_sync, and before the program gets its address. Any thread. May be NULL. */
    void (*prepare_stores)(struct window *window, int rank);
    /* Flushes preceding stores. NULL: nothing to do. */
    int (*sync)(struct window *window);
    /* MPI_Win_get_info: adds the hints that are in force. NULL: none. */
    int (*describe)(struct window *window, MPI_Info info);
    /* MPI_Win_free: flushes or removes the content. NULL: nothing to do. */
    void (*close)(struct window *window);
    /* Frees window->provider_data, once for each successful allocate. The memory is freed even if
     * it returns an error (its own, or that of close), which MPI_Win_free reports. */
    int (*free)(struct window *window);
};

/* ---- Windows ---- */

struct rma_shared;
struct intra_node;
struct rma_usage;

/* An access or exposure epoch of this process: from MPI_Win_start or _post to its end. */
struct window_epoch {
    int *ranks; /* ranks of the window, or NULL outside an epoch */
    int count;
};

/* Open access epochs of this process: the number of locks that it holds in the low bits, and these
 * flags. UNCHECKED: the library would not check epochs either. */
#define WINDOW_EPOCH_FENCE     (1u << 31)
#define WINDOW_EPOCH_START     (1u << 30)
#define WINDOW_EPOCH_UNCHECKED (1u << 29)
#define WINDOW_EPOCH_LOCKS     (WINDOW_EPOCH_UNCHECKED - 1)

struct window {
    MPI_Win handle;
    const struct window_provider *provider;
    void *provider_data; /* state of the provider */
    struct group *group;
    void *base; /* this rank's part */
    size_t size;
    int disp_unit;
    int flavor, model; /* attributes */
    MPI_Aint size_attribute;
    struct rma_shared *rma_shared; /* shared by all ranks; NULL: MPI serves the window */
    size_t rma_shared_mapped;      /* its bytes if this process mapped it; else 0 */
    struct intra_node *intra_node; /* if the window spans nodes; else NULL */
    char **bases;                  /* by rank: the part's address in this process; or NULL */
    struct rma_usage *usage;       /* by rank; NULL: not counted */
    int is_threaded;               /* MPI_THREAD_MULTIPLE */
    int overlaps;                  /* parts share bytes */
    uint32_t ticket;               /* of the last barrier in MPI_Win_free */
    MPI_Group mpi_group;           /* of all ranks; to MPI the handle is a window of one rank */
    MPI_Comm self;                 /* the handle's communicator, of this rank alone */
    int owns_self;                 /* `self` was created for this window */
    unsigned char *locked;         /* by rank: the lock that this process holds (sync.c) */
    int locked_all;                /* the same for MPI_Win_lock_all */
    uint32_t *starts;              /* by rank: exposure epochs that MPI_Win_start has used */
    uint32_t completes; /* completed access epochs to this rank that MPI_Win_wait has used */
    struct window_epoch access, exposure;
    /* Synchronisation calls write both; puts and gets of any thread read them. Relaxed: the program
     * orders these calls. */
    _Atomic uint32_t epochs;        /* WINDOW_EPOCH_... */
    _Atomic unsigned char *started; /* by rank: whether it is in `access` */
    _Atomic uint32_t flushes;       /* any thread of this process, relaxed: paces progress_step */
    /* A get since the last flush may have shown the program that another rank has sent a message.
     * Any thread of this process. Relaxed: the program orders gets and the flush that completes
     * them. */
    _Atomic int has_read;
    MPI_Errhandler handler; /* kept after the handle is freed */
    int closed;             /* result of freeing the handle */
    struct window *next;    /* in the list of all windows */
};

/* The window behind a handle; NULL: the layer did not create it. Lock-free. */
struct window *window_find(MPI_Win handle);
/* 0 or an error class. */
int window_add(struct window *window);
/* Call it before the handle is freed: MPI may reuse it at once. */
void window_remove(struct window *window);
/* Calls function for each window of this process, oldest first; the first error. */
int windows_each(int (*function)(struct window *window));

/* The result of a call on a window of the layer: an error goes through the window's handler. */
static inline int window_result(struct window *window, int result)
{
    if (result != MPI_SUCCESS)
        pmpi()->Win_call_errhandler(window->handle, result);
    return result;
}

/* lifetime/space_memory.c and storage/provider.c. */
extern const struct window_provider provider_space, provider_storage;

#endif
