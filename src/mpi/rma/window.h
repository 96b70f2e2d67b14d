/* src/mpi/rma/window.h: a window of the layer, and where its memory comes from. */
#ifndef ONESPACE_MPI_RMA_WINDOW_H
#define ONESPACE_MPI_RMA_WINDOW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/group/group.h"

/* ---- Providers ---- */

/* where the memory of a window comes from.
 *
 * MPI_Win_allocate and MPI_Win_allocate_shared ask each provider in turn whether it wants the call;
 * the first that does, on any rank, allocates the memory of all. A provider that accepts one rank's
 * request must serve the others', too, although it did not accept them. What no provider wants on
 * any rank goes to the MPI library unchanged.
 *
 *   lifetime/create.c  all ranks agree on the provider, call allocate, and agree on its outcome
 *   provider           allocates memory, and nothing else
 *   lifetime/create.c  creates the window's handle
 *
 * Communication and synchronisation are loads and stores (rma/direct.h) when all ranks share one
 * address space, or when the provider has made all parts reachable from every process
 * (window->rma_shared, window->bases). Otherwise MPI serves the window, created by MPI_Win_create
 * on the memory, except for puts and gets to parts that the provider has made reachable on this
 * node (rma/intra_node.h).
 *
 * To add a provider: fill a struct window_provider in a directory of its own and put it into the
 * table in lifetime/providers.c, before those that it takes precedence over. Its functions are
 * called
 *
 *   accepts     by each rank alone, without communication: reads the request, changes nothing
 *   allocate    by all ranks of request->agreement at the same time. It may call
 *               agreement_allgather, the same number of times on every rank, including a rank that
 *               has failed
 *   sync        by one rank alone, at any time (MPI_Win_sync)
 *   close       by all ranks, after all have stopped using the window. It must not wait for
 *               other ranks, which may close several windows in another order
 *   free        by all ranks, after close; may wait for the others' outcome of close. Also
 *               without close, on the ranks whose allocate succeeded when it failed on another:
 *               then it must not communicate
 *
 * on threads of the program that are inside an MPI call. Several windows may be worked on at once
 * (MPI_THREAD_MULTIPLE), and one window by several threads in sync. They return
 * MPI_SUCCESS or an MPI error class, after layer_message() on the rank that found the error has
 * said what was wrong and how to fix it; the layer then fails the call on all ranks, through the
 * communicator's error handler. MPI functions are called as pmpi()->NAME (real/real.h), and never
 * with a lock held. */

struct window;
struct rma_shared;

/* Of a part that is memory as far as there is room beside all others' memory. */
#define WINDOW_MEMORY_FITS UINT64_MAX

/* A rank's proposal to the others: what it would create. */
struct window_proposal {
    int32_t provider; /* its index in the table, -1: none */
    int32_t error;
    int32_t
        unfit; /* an error class: size or displacement unit, if any provider serves the window */
    uint64_t size;
    uint64_t memory;               /* how much of it is memory, or WINDOW_MEMORY_FITS */
    struct rma_shared *rma_shared; /* rank 0's, in one address space */
};

/* What one rank asked for. The ranks may differ in size, disp_unit and info. */
struct window_request {
    const char *call; /* the MPI function, for messages */
    size_t size;      /* bytes on this rank */
    MPI_Aint disp_unit;
    MPI_Info info; /* the caller's; MPI_INFO_NULL is possible */
    MPI_Comm comm;
    int is_shared;               /* MPI_Win_allocate_shared */
    struct agreement *agreement; /* of the ranks of comm */
    /* Of all ranks, until the next gather; NULL in accepts. */
    const struct window_proposal *proposals;
};

struct window_provider {
    const char *name;
    /* Sets *is_ours to 1 when the provider wants this rank's request, and *memory when not all of
     * it will be memory. An error class: it would, but the request is invalid. */
    int (*accepts)(const struct window_request *request, uint64_t *memory, int *is_ours);
    /* Sets window->base, and window->memory for its own use. In one address space this is enough
     * for the others to reach the memory. */
    int (*allocate)(struct window *window, const struct window_request *request);
    /* Copies many bytes to (is_put) or from the part of `rank` at `part`, an address of this
     * process, for MPI_Put and MPI_Get. NULL: memmove does, as for few bytes always. */
    void (*copy)(struct window *window, int rank, int is_put, char *part, char *own, size_t size);
    /* This process is going to store into the part of `rank`: before the first time since
     * MPI_Win_sync, and before its address is given to the program. Any thread. NULL: nothing. */
    void (*prepare_stores)(struct window *window, int rank);
    /* Makes stores so far as durable as the provider promises. NULL: nothing to do. */
    int (*sync)(struct window *window);
    /* MPI_Win_get_info: adds the hints that are in force. NULL: none. */
    int (*describe)(struct window *window, MPI_Info info);
    /* MPI_Win_free: what the content needs before its memory goes. NULL: nothing. */
    void (*close)(struct window *window);
    /* Frees window->memory; once for each successful allocate. An error, of close as well, is
     * reported by MPI_Win_free; the memory is freed all the same. */
    int (*free)(struct window *window);
};

/* ---- Windows ---- */

/* a window that the layer created, as one process sees it. */

struct rma_shared;
struct intra_node;
struct rma_usage;

/* An access or exposure epoch of this process: from MPI_Win_start or _post to its end. */
struct window_epoch {
    int *ranks; /* ranks of the window, or NULL outside an epoch */
    int count;
};

/* The access epochs of this process that are open: how many locks it holds, in the low bits, and
 * these. UNCHECKED: the library would not check either. */
#define WINDOW_EPOCH_FENCE     (1u << 31)
#define WINDOW_EPOCH_START     (1u << 30)
#define WINDOW_EPOCH_UNCHECKED (1u << 29)
#define WINDOW_EPOCH_LOCKS     (WINDOW_EPOCH_UNCHECKED - 1)

struct window {
    MPI_Win handle;
    const struct window_provider *provider;
    void *memory; /* the provider's own */
    struct group *group;
    void *base; /* this rank's part */
    size_t size;
    int disp_unit;
    int flavor, model; /* attributes, as of the call that created the window */
    MPI_Aint size_attribute;
    /* In one address space only: */
    struct rma_shared *rma_shared; /* what all ranks share (direct.h), or NULL */
    size_t rma_shared_mapped;      /* bytes, when this process mapped `direct` itself; else 0 */
    struct intra_node *intra_node; /* of a window that spans nodes (intra_node.h), or NULL */
    char **bases;                  /* by rank: the part's address in this process; or NULL */
    struct rma_usage *usage;       /* by rank, when use is counted (rma/count.h); or NULL */
    int is_threaded;               /* MPI_THREAD_MULTIPLE */
    int overlaps;                  /* parts share bytes */
    uint32_t ticket;               /* of the barrier in MPI_Win_free */
    MPI_Group mpi_group;           /* of all ranks; to MPI the handle is a window of one rank */
    MPI_Comm self;                 /* the handle's communicator, of this rank alone */
    int owns_self;                 /* `self` was created for this window */
    unsigned char *locked;         /* by rank: which lock this process holds (lock.c) */
    int locked_all;                /* how MPI_Win_lock_all was taken */
    uint32_t *starts;              /* by rank: its exposure epochs that MPI_Win_start has used */
    uint32_t completes; /* completed access epochs to this rank that MPI_Win_wait has used */
    struct window_epoch access, exposure;
    /* Synchronisation calls write both, puts and gets of any thread read them. Relaxed: the program
     * orders such calls. */
    _Atomic uint32_t epochs;        /* WINDOW_EPOCH_... */
    _Atomic unsigned char *started; /* by rank: whether it is in `access` */
    _Atomic uint32_t flushes;       /* any thread of this process, relaxed: paces progress_step */
    /* A get since the last flush may have told the program that another rank has sent a message.
     * Any thread of this process, relaxed: the program orders gets and the flush that completes
     * them. */
    _Atomic int has_read;
    MPI_Errhandler handler; /* kept while the window is freed, when its handle is gone */
    int closed;             /* result of freeing the handle */
    struct window *next;    /* list of all (table.c) */
};

/* The window behind a handle; NULL: the layer did not create it. Lock-free. */
struct window *window_find(MPI_Win handle);
/* 0 or an error class. */
int window_add(struct window *window);
/* To be called before the handle is freed: MPI may reuse it at once. */
void window_remove(struct window *window);
/* Calls function for each window of this process, oldest first; the first error. */
int windows_each(int (*function)(struct window *window));

/* What a call on a window of ours returns: errors go through the window's handler. */
static inline int window_result(struct window *window, int result)
{
    if (result != MPI_SUCCESS)
        pmpi()->Win_call_errhandler(window->handle, result);
    return result;
}

/* The providers, in lifetime/space_memory.c and storage/provider.c. */
extern const struct window_provider provider_space, provider_storage;

#endif
