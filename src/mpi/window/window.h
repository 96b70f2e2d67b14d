/* src/mpi/window/window.h: a window that the layer made, as one process knows it. */
#ifndef ONESPACE_MPI_WINDOW_WINDOW_H
#define ONESPACE_MPI_WINDOW_WINDOW_H

#include <stdatomic.h>
#include <stdint.h>

#include "mpi/window/provider.h"

struct direct;
struct near;
struct window_use;

/* Where this process is between MPI_Win_start or _post and their ends. */
struct window_epoch {
    int *ranks; /* ranks of the window, or NULL outside an epoch */
    int count;
};

struct window {
    MPI_Win handle;
    const struct window_provider *provider;
    void *memory; /* the provider's own */
    struct party *party;
    void *base; /* this rank's part */
    size_t size;
    int disp_unit;
    int flavor, model; /* attributes, as the call that made the window has them */
    MPI_Aint size_attribute;
    /* In one address space only: */
    struct direct *direct; /* what all ranks share (direct.h), or NULL */
    size_t direct_mapped;  /* bytes: this process has mapped it (mpi/storage/reach.c) */
    struct near *near; /* of several nodes: what this one's ranks share (intra_node.h), or NULL */
    char **bases;      /* by rank, where parts have addresses of this process; or NULL */
    struct window_use *use; /* by rank, of windows whose use is counted; or NULL */
    int is_threaded;        /* MPI_THREAD_MULTIPLE */
    int overlaps;           /* parts share bytes */
    uint32_t ticket;        /* of the barrier in MPI_Win_free */
    MPI_Group group;        /* the window's; its handle's own is that of one rank */
    MPI_Comm self;          /* the handle's communicator, of this rank alone */
    int owns_self;          /* it was made for this window */
    unsigned char *locked;  /* by rank: which lock this process holds (lock.c) */
    int locked_all;         /* how MPI_Win_lock_all was taken */
    uint32_t *starts;       /* by rank: exposure epochs of it that were waited for */
    uint32_t completes;     /* of this rank's exposure epochs, waited for so far */
    struct window_epoch access, exposure;
    _Atomic uint32_t flushes; /* any thread of this process; relaxed: how often to let MPI work */
    MPI_Errhandler handler;   /* while it is freed, and its handle is MPI's again */
    int closed;               /* what MPI said to that */
    struct window *next;      /* list of all (table.c) */
};

/* The window behind a handle, or NULL when the layer did not make it. Lock-free. */
struct window *window_find(MPI_Win handle);
/* 0 or an error class. */
int window_add(struct window *window);
/* Before the handle is given back to MPI, which may use it again at once. */
void window_remove(struct window *window);
/* Calls function for each window of this process, oldest first; the first error. */
int windows_each(int (*function)(struct window *window));

/* What a call on a window of ours returns: errors go through the window's handler. */
static inline int window_result(struct window *window, int result)
{
    if (result != MPI_SUCCESS)
        real()->Win_call_errhandler(window->handle, result);
    return result;
}

#endif
