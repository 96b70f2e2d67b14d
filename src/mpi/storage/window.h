/* src/mpi/storage/window.h: a window on storage, window->memory of the provider "on storage".
 *
 * Of its ranks some may have asked for memory. Their parts are like those of combined windows
 * without storage; they have no file.
 *
 *   provider.c  the provider: what MPI's calls on the window do
 *   info.c      hints of an MPI_Info
 *   build.c     all ranks together: open, claim, reach
 *   claim.c     locks, space and mappings of the parts
 *   reach.c     the other ranks' parts at addresses of this rank
 *   bulk.c      large puts and gets
 *   agree.c     the least value of all ranks
 *   versions.c  versions
 *   written.c   of a window with versions: what was stored into
 *   request.c   synchronisation in the background
 *   memory.c    MPI_Alloc_mem, and windows that MPI creates on such memory */
#ifndef ONESPACE_MPI_STORAGE_WINDOW_H
#define ONESPACE_MPI_STORAGE_WINDOW_H

#include <pthread.h>

#include "mpi/window/window.h"
#include "onespace/window.h"
#include "storage/region/region.h"

struct versions;
struct storage_descriptor; /* bulk.c */

/* agree.c: ranks that agree with one another on values. */
struct storage_ranks {
    MPI_Comm comm;              /* of these ranks, for collective calls */
    const struct group *group;  /* the window's, whose ranks have to be alive; NULL: not begun */
    int rank, count;            /* in comm */
    struct storage_word *words; /* NULL after a rank did not answer */
    MPI_Request pending;        /* of the words */
};

struct storage_window {
    struct storage_hints hints; /* as given by the caller; not is_storage: a part in memory */
    struct storage_part own;    /* own.region.file is this rank's descriptor of its file */
    const struct group *group;  /* the window's */
    int memory;                 /* memory part, shared with other processes; -1: none */
    int rank, ranks;
    /* Parts of the ranks of this node, without descriptors (reach.c); NULL: MPI reaches them. The
     * entries of this rank and of ranks on other nodes are empty. */
    struct storage_part *others;
    struct storage_descriptor *descriptors; /* by rank, with `others` */
    int holds;                              /* in one space: the memory of so many ranks is held */
    struct storage_region whole; /* of a contiguous shared window: all parts, if mapped here */
    int is_contiguous;           /* MPI_Win_allocate_shared without alloc_shared_noncontig */
    int lead;                    /* the lowest rank with a file: whose file `whole` is of */
    int is_leader;               /* the lowest rank of the node with this file */
    int overlaps;                /* parts of the window share bytes of a file */
    int has_memory_ranks;        /* some rank has asked for memory */
    struct storage_ranks all;    /* of the window */
    int is_closing;              /* close has sent its outcome to all ranks */
    int closed;                  /* outcome of close, when it could not be sent */
    pthread_mutex_t mutex;       /* guards `requests` and tracking; never held across MPI */
    struct onespace_window_request *requests;
    struct storage_counts *counts;
    /* versions.c: how many are kept, 0: none; the newest. The ranks that asked for storage have
     * them: `versioned`, if others have not, else `all`. */
    int kept;
    uint64_t newest;
    struct storage_ranks versioned;
    struct versions *versions; /* NULL: none, or this rank has not asked for storage */
    /* written.c: the map of each rank's part, in memory of the node; NULL: one space, or nothing is
     * shared. How often this process had forked when the window was made. */
    _Atomic uint64_t **written;
    uint32_t forks;
    /* versions.c, of the commit under way: when it began, and when its progress was told last; of
     * the one before: how long it took, for so many bytes. Nanoseconds. */
    struct {
        uint64_t began, told, bytes, last_took, last_bytes;
    } progress;
};

extern const struct window_provider provider_storage;

/* The window on storage behind a handle, or NULL. */
struct storage_window *storage_window_of(MPI_Win handle);

/* info.c: reads the hints of an MPI_Info (storage_hints_read). */
int storage_info_read(struct storage_hints *hints, MPI_Info info, struct storage_error *error);
/* Sets the hints that are in force, for MPI_Win_get_info; what MPI returns. */
int storage_info_write(const struct storage_window *storage, MPI_Info info);
/* An MPI error class for -errno. */
int storage_class(int result);
/* Prints the error and returns its class; MPI_SUCCESS for 0. */
int storage_report(int rank, const char *call, int result, const struct storage_error *error);

/* build.c, reach.c: collective, as window_provider.allocate is. */
int storage_build(struct window *window, const struct window_request *request);
int storage_reach(struct window *window, const struct window_request *request,
                  const uint64_t *sizes, int error);
/* Opens the file or shared memory behind a descriptor of the rank's process; -1: not possible. */
int storage_open_of(const struct group *group, int rank, int descriptor);
/* Unmaps, closes, and frees *storage; leaves the file as it is. */
void storage_dismantle(struct window *window);

/* bulk.c: window_provider.copy, and descriptors of the other ranks' files. */
void storage_copy(struct window *window, int rank, int is_put, char *part, char *own, size_t size);
int storage_descriptors_new(struct storage_window *storage); /* 0, or -1: no memory */
void storage_descriptor_set(struct storage_window *storage, int rank, int theirs);
void storage_descriptors_close(struct storage_window *storage);

/* provider.c: makes a range of this rank's own part durable. 0 or -errno. */
int storage_flush_own(struct storage_window *storage, uint64_t offset, uint64_t length,
                      struct storage_error *error);
/* agree.c: local; the caller sets `comm`, which storage_ranks_end frees. 0 or -ENOMEM. */
int storage_ranks_begin(struct storage_ranks *ranks, const struct group *group, int rank,
                        int count);
void storage_ranks_end(struct storage_ranks *ranks);
/* The least value of these ranks. Collective; 0, or -EIO when a rank did not answer. Also in two
 * steps: the first waits for no rank, and the second follows when it returned 0. */
int storage_least(struct storage_ranks *ranks, int64_t mine, int64_t *least);
int storage_least_begin(struct storage_ranks *ranks, int64_t mine);
int storage_least_end(struct storage_ranks *ranks, int64_t *least);
/* Sends up to 256 bytes of rank 0 to all. Collective; 0, or -EIO when a rank did not answer. A rank
 * that rank 0 did not reach may have other bytes: the ranks agree afterwards. */
int storage_send(struct storage_ranks *ranks, void *data, size_t size);
/* request.c: waits for all requests in the background and frees them. */
void storage_requests_end(struct storage_window *storage);

/* Counters of one kind of call: any thread adds (relaxed), onespace_window_statistics reads. */
struct storage_count {
    _Atomic uint64_t calls, bytes, nanoseconds, failures;
};
struct storage_counts {
    struct storage_count sync, sync_range, sync_start, commit;
};

static inline uint64_t storage_part_size(const struct storage_part *part)
{
    return part->layout.storage_length + part->layout.memory_length;
}

void storage_count(struct storage_count *count, uint64_t bytes, uint64_t since, int result);

#endif
