/* src/mpi/storage/storage_window.h: windows and MPI_Alloc_mem memory on storage. */
#ifndef ONESPACE_MPI_STORAGE_STORAGE_WINDOW_H
#define ONESPACE_MPI_STORAGE_STORAGE_WINDOW_H

#include <pthread.h>
#include <stddef.h>

#include "mpi/rma/window.h"
#include "onespace/window.h"
#include "storage/region/region.h"

/* a window on storage, window->memory of the provider "on storage".
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

struct versions;
struct storage_descriptor; /* bulk.c */

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
    struct agreement_comm all;   /* of the window */
    int is_closing;              /* close has sent its outcome to all ranks */
    int closed;                  /* outcome of close, when it could not be sent */
    pthread_mutex_t mutex;       /* guards `requests` and tracking; never held across MPI */
    struct onespace_window_request *requests;
    struct storage_counts *counts;
    /* versions.c: how many are kept, 0: none; the newest. The ranks that asked for storage have
     * them: `versioned`, if others have not, else `all`. */
    int kept;
    uint64_t newest;
    struct agreement_comm versioned;
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

/* ---- Synchronisation in the background ---- */

/* synchronisation in the background. */

struct onespace_window_request {
    struct storage_window *storage;
    MPI_Win handle;
    uint64_t offset, length;
    pthread_t thread;
    _Atomic int
        is_done; /* set last by the thread (release); read by onespace_window_test (acquire) */
    int result;  /* 0 or -errno; these two are the thread's until is_done */
    struct storage_error error;
    struct onespace_window_request *next; /* of the window's */
};

int storage_request_start(struct storage_window *storage, MPI_Win handle, uint64_t offset,
                          uint64_t length, struct onespace_window_request **made);
/* Waits for the request and removes it from the window's list; the caller frees it. */
void storage_request_end(struct onespace_window_request *request);

/* ---- Dirty pages ---- */

/* which pages of the parts of a window with versions were stored into,
 * by any process of the node. */

/* Bytes of the maps of all parts; `sizes` by rank. */
size_t storage_written_size(const uint64_t *sizes, int ranks);
/* The maps: memory that the processes of the node share, of zeroes. 0 or -ENOMEM. */
int storage_written_place(struct storage_window *storage, const uint64_t *sizes, void *maps);

/* Begins to notice stores, of a window whose ranks do not use it yet. */
void storage_written_begin(struct window *window);
/* Before this process first stores into another rank's part, or gives its address to the program.
 * Any thread. */
void storage_written_await(struct window *window, int rank);

/* In a commit, while no rank stores: tells the other ranks of the node what this process has stored
 * into. */
void storage_written_tell(struct window *window);
/* After all ranks have told: replaces *ranges by what was stored into the storage part of this rank
 * since the last time, counted from the part's first byte. 0; 1: not known, so that the only range
 * is all of it; or -ENOMEM. */
int storage_written_take(struct window *window, struct storage_ranges *ranges);

/* ---- Versions ---- */

/* versions of a window on storage. */

/* The last step of creating a window: when its ranks on storage want versions (all or none), their
 * bytes become those of the newest one. An error class, the same on all ranks. */
int storage_versions_open(struct window *window, const char *call);
/* onespace_window_commit. Collective. An error class, after a message. */
int storage_versions_commit(struct window *window, const char *call);
/* Local; 0: none. */
uint64_t storage_versions_newest(const struct storage_window *storage);
/* Local, before the part is unmapped. */
void storage_versions_close(struct storage_window *storage);

/* ---- MPI_Alloc_mem ---- */

/* MPI_Alloc_mem on storage, and windows that MPI makes on such memory. */

/* MPI_Alloc_mem: *base NULL: info does not ask for storage. MPI_Free_mem: *is_ours 0: the memory is
 * MPI's. An error class, after a message. */
int storage_memory_allocate(size_t size, MPI_Info info, void **base);
int storage_memory_free(void *base, int *is_ours);
/* Whether there is such memory; the handle of a window of MPI's may have some. */
int storage_memory_is_used(void);
/* MPI_Win_sync: makes such memory of the window durable. *is_ours: there was some. */
int storage_memory_sync(MPI_Win handle, int *is_ours);
/* MPI_Win_attach and MPI_Win_detach of such memory; base NULL: all of the window's, which is freed.
 */
void storage_memory_attach(MPI_Win handle, void *base);
void storage_memory_detach(MPI_Win handle, const void *base);
/* MPI_Finalize: frees all. */
int storage_memory_end(void);

#endif
