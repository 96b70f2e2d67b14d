/* src/mpi/window/provider.h: where the memory of a window comes from.
 *
 * The layer takes MPI_Win_allocate and MPI_Win_allocate_shared. For each call it asks its providers
 * in turn whether they want it; the first that does gives the memory. What no provider wants goes
 * to the MPI library as it was.
 *
 *   create.c     all ranks agree on the provider, call allocate, and agree on its outcome
 *   provider     makes memory, and nothing else
 *   create.c     makes the window's handle; when all ranks share one address space (agreement.h)
 *                communication and synchronisation are done by direct_*.c with loads and stores,
 *                whoever gave the memory, and also when the provider has made the parts reachable
 *                among processes (window->direct, ->bases); else by the MPI library, with
 *                MPI_Win_create on it, but for puts and gets to parts that the provider has made
 *                reachable on this node (intra_node.h)
 *
 * To add a provider: fill a struct window_provider in a file of its own and put it into the table
 * in providers.c, before those it shall win over. Its functions are called
 *
 *   accepts     by each rank alone, without communication: looks at the request, changes nothing
 *   allocate    by all ranks of request->meeting at the same time: it may use meeting_gather, the
 *               same number of times on every rank, also on one that has failed
 *   query       by one rank alone
 *   sync        by one rank alone, at any time (MPI_Win_sync)
 *   close       by all ranks, after all have stopped using the window; it waits for no other rank,
 *               since several windows may be closed in another order there
 *   free        by all ranks, after close, for whose outcome on the others it may wait; also, at
 *               once and without close, on the ranks whose allocate succeeded when it failed on
 *               another: then without communication
 *
 * on threads of the program that are inside an MPI call; several windows may be worked on at once
 * (MPI_THREAD_MULTIPLE), one window by several threads in query and sync. They return MPI_SUCCESS
 * or an MPI error class, after layer_message() has said what was wrong and how to mend it, on the
 * rank that found it. The layer then fails the call on all ranks, through the communicator's error
 * handler. MPI functions are called as real()->NAME (real.h), and never with a lock held. */
#ifndef ONESPACE_MPI_WINDOW_PROVIDER_H
#define ONESPACE_MPI_WINDOW_PROVIDER_H

#include <stddef.h>

#include "mpi/group/agreement.h"
#include "mpi/real/real.h"

struct window;
struct direct;

/* What one rank tells the others about its request. */
struct window_wish {
    int32_t provider; /* its place in the table, -1: none */
    int32_t error;
    uint64_t size;
    struct direct *direct; /* rank 0's, in one address space */
};

/* What one rank asked for. The ranks may differ in size, disp_unit and info. */
struct window_request {
    const char *call; /* the MPI function, for messages */
    size_t size;      /* bytes on this rank */
    MPI_Aint disp_unit;
    MPI_Info info; /* the caller's; MPI_INFO_NULL is possible */
    MPI_Comm comm;
    int is_shared;                    /* MPI_Win_allocate_shared */
    struct meeting *meeting;          /* of the ranks of comm */
    const struct window_wish *wishes; /* of all ranks, until the next gather; not in accepts */
};

/* One rank's part of a window, at addresses of the asking rank. */
struct window_part {
    void *base;
    size_t size;
    int disp_unit;
};

struct window_provider {
    const char *name;
    /* Sets *is_ours to 1 when the provider wants this rank's request. An error class: it would, but
     * something in the request is wrong. */
    int (*accepts)(const struct window_request *request, int *is_ours);
    /* Sets window->base (and window->memory, for itself). With request->is_shared in one address
     * space nothing more is needed for the others to reach the memory. */
    int (*allocate)(struct window *window, const struct window_request *request);
    /* Where the part of `rank` lies for this process; MPI_Win_shared_query. NULL: only windows in
     * one address space are asked, and the layer knows. */
    int (*query)(struct window *window, int rank, struct window_part *part);
    /* Copies `size` bytes, many, to (is_put) or from the part of `rank` at `part`, an address of
     * this process, for MPI_Put and MPI_Get. NULL: by memmove, as little is always. */
    void (*copy)(struct window *window, int rank, int is_put, char *part, char *own, size_t size);
    /* Makes what was stored so far as durable as the provider promises. NULL: nothing to do. */
    int (*sync)(struct window *window);
    /* Adds the hints that are in force to what MPI_Win_get_info gives. NULL: none. */
    int (*describe)(struct window *window, MPI_Info info);
    /* Takes hints that change while the window lives; MPI_Win_set_info. NULL: none. */
    int (*change)(struct window *window, MPI_Info info);
    /* Does what the content needs before the memory goes; MPI_Win_free. NULL: nothing. */
    void (*close)(struct window *window);
    /* Gives window->memory back. Called once for each successful allocate. An error, also of close,
     * is reported to the caller of MPI_Win_free; the memory is gone all the same. */
    int (*free)(struct window *window);
};

#endif
