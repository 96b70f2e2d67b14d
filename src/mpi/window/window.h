/* src/mpi/window/window.h: a window that the layer created, as one process sees it. */
#ifndef ONESPACE_MPI_WINDOW_WINDOW_H
#define ONESPACE_MPI_WINDOW_WINDOW_H

#include <stdatomic.h>
#include <stdint.h>

#include "mpi/window/provider.h"

struct direct;
struct intra_node;
struct window_use;

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
    struct direct *direct;         /* what all ranks share (direct.h), or NULL */
    size_t direct_mapped;          /* bytes, when this process mapped `direct` itself; else 0 */
    struct intra_node *intra_node; /* of a window that spans nodes (intra_node.h), or NULL */
    char **bases;                  /* by rank: the part's address in this process; or NULL */
    struct window_use *use;        /* by rank, when use is counted (rma/count.h); or NULL */
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
    _Atomic uint32_t flushes;       /* any thread of this process, relaxed: paces progress_make */
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
        real()->Win_call_errhandler(window->handle, result);
    return result;
}

#endif
