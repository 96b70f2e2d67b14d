/* src/mpi/window/provider.h: where the memory of a window comes from.
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
 * (window->direct, window->bases). Otherwise MPI serves the window, created by MPI_Win_create on
 * the memory, except for puts and gets to parts that the provider has made reachable on this node
 * (rma/intra_node.h).
 *
 * To add a provider: fill a struct window_provider in a directory of its own and put it into the
 * table in lifetime/providers.c, before those that it takes precedence over. Its functions are
 * called
 *
 *   accepts     by each rank alone, without communication: reads the request, changes nothing
 *   allocate    by all ranks of request->agreement at the same time. It may call
 *               agreement_gather, the same number of times on every rank, including a rank that
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
 * communicator's error handler. MPI functions are called as real()->NAME (real/real.h), and never
 * with a lock held. */
#ifndef ONESPACE_MPI_WINDOW_PROVIDER_H
#define ONESPACE_MPI_WINDOW_PROVIDER_H

#include <stddef.h>

#include "mpi/group/agreement.h"
#include "mpi/real/real.h"

struct window;
struct direct;

/* Of a part that is memory as far as there is room beside all others' memory. */
#define WINDOW_MEMORY_FITS UINT64_MAX

/* A rank's proposal to the others: what it would create. */
struct window_proposal {
    int32_t provider; /* its index in the table, -1: none */
    int32_t error;
    int32_t
        unfit; /* an error class: size or displacement unit, if any provider serves the window */
    uint64_t size;
    uint64_t memory;       /* how much of it is memory, or WINDOW_MEMORY_FITS */
    struct direct *direct; /* rank 0's, in one address space */
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
    void (*await_stores)(struct window *window, int rank);
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

#endif
