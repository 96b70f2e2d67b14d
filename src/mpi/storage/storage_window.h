/* src/mpi/storage/storage_window.h: windows and MPI_Alloc_mem memory on storage.
 *
 *   provider.c      what MPI's calls on the window do; hints; flushes in the background
 *   create.c        all ranks together: open, claim, map
 *   remote_parts.c  the other ranks' parts at addresses of this process; large puts and gets
 *   dirty_pages.c   which pages of a window with versions are dirty
 *   versions.c      connects storage/versions with MPI and with the window
 *   alloc_mem.c     MPI_Alloc_mem, and windows that MPI creates on such memory */
#ifndef ONESPACE_MPI_STORAGE_STORAGE_WINDOW_H
#define ONESPACE_MPI_STORAGE_STORAGE_WINDOW_H

#include <pthread.h>
#include <stddef.h>

#include "mpi/rma/window.h"
#include "onespace/window.h"
#include "storage/region/region.h"

struct versions;
struct remote_file; /* remote_parts.c */

/* window->provider_data of the provider "on storage". Some ranks of such a window may have asked
 * for memory: they have a part without a file. */
struct storage_window {
    struct storage_hints hints; /* of this rank; not is_storage: a part in memory */
    struct storage_part own;    /* own.region.file is this rank's descriptor of its file */
    const struct group *group;  /* the window's */
    int memory;                 /* descriptor of the shared memory part; -1: none */
    int rank, ranks;
    /* Parts of the ranks of this node, without descriptors; NULL: MPI reaches them. The entries of
     * this rank and of ranks on other nodes are empty. */
    struct storage_part *remote_parts;
    struct remote_file *remote_files;   /* by rank, with `remote_parts` */
    int hold_count;                     /* in one space: ranks below it are held */
    struct storage_region whole_region; /* of a contiguous shared window, if mapped here */
    int is_contiguous;                  /* MPI_Win_allocate_shared without alloc_shared_noncontig */
    int lead_rank;                      /* the lowest rank with a file, which `whole_region` maps */
    int is_node_leader;                 /* this is the lowest rank of the node with its file */
    int overlaps;                       /* parts of the window share bytes of a file */
    int has_memory_ranks;               /* some rank has asked for memory */
    int has_device_writes; /* an RDMA device may write into this rank's part, unseen by the kernel:
                            * its writes mark no page dirty. If the window spans nodes, own.region
                            * is a copy, unless it cannot be (create.c) */
    struct agreement_comm all_ranks; /* of the window */
    int is_closing;                  /* close has sent its outcome to all ranks */
    int close_result;                /* outcome of close, if it could not be sent */
    pthread_mutex_t mutex;           /* guards `requests` and tracking; never held across MPI */
    pthread_mutex_t flushing;        /* one MPI_Win_sync at a time, likewise */
    struct onespace_window_request *requests;
    struct storage_counters *counts;
    int versions_kept;       /* 0: the window has no versions */
    uint64_t newest_version; /* 0: none */
    /* The ranks that asked for storage, if others did not. They have versions. */
    struct agreement_comm versioned_ranks;
    struct versions *versions;     /* NULL: none, or this rank has a part in memory */
    _Atomic uint64_t **dirty_maps; /* by rank, in memory of the node; NULL: not needed */
    uint32_t fork_count;           /* forks of this process before the window was created */
    /* The commit in progress: when it began and when its progress was last reported. The commit
     * before: its duration and bytes. Nanoseconds. */
    struct {
        uint64_t began, reported, bytes, last_took, last_bytes;
    } progress;
};

/* The window on storage behind a handle, or NULL. */
struct storage_window *storage_window_of(MPI_Win handle);

static inline uint64_t storage_part_size(const struct storage_part *part)
{
    return part->layout.storage_length + part->layout.memory_length;
}

/* ---- Hints and errors (provider.c) ---- */

/* Reads the hints of an MPI_Info, as storage_hints_read does. */
int storage_info_read(struct storage_hints *hints, MPI_Info info, struct storage_error *error);
/* Sets the hints in force, for MPI_Win_get_info. Returns MPI's result. */
int storage_info_write(const struct storage_window *storage, MPI_Info info);
/* The MPI error class for -errno. */
int storage_error_class(int result);
/* Prints the error and returns its class; MPI_SUCCESS for 0. */
int storage_report(int rank, const char *call, int result, const struct storage_error *error);

/* ---- Creation ---- */

/* create.c: window_provider.allocate. */
int storage_create(struct window *window, const struct window_request *request);
/* Unmaps, closes, and frees window->provider_data; leaves the file as it is. */
void storage_destroy(struct window *window);

/* remote_parts.c: makes all parts of this node addressable. Collective, as allocate is. error: this
 * rank's error class so far. Returns the first error of all ranks. */
int storage_map_remote_parts(struct window *window, const struct window_request *request,
                             const uint64_t *sizes, int error);
/* remote_parts.c: window_provider.copy. */
void storage_bulk_copy(struct window *window, int rank, int is_put, char *part, char *own,
                       size_t size);
/* remote_parts.c: a descriptor of the rank's file in this process, until remote_files_close; -1
 * with errno: none. There is one if the part is a copy. */
int remote_file_descriptor(const struct window *window, int rank);
/* Whether another rank's file has been cut below the end of its part; 0 if that cannot be seen. */
int remote_file_is_short(const struct window *window, int rank);
void remote_files_close(struct storage_window *storage);

/* ---- Flushing (provider.c) ---- */

/* Flushes a range of this rank's own part. 0 or -errno. */
int storage_flush_own(struct storage_window *storage, uint64_t offset, uint64_t length,
                      struct storage_error *error);

/* A flush in the background. */
struct onespace_window_request {
    struct storage_window *storage;
    MPI_Win handle;
    uint64_t offset, length;
    pthread_t thread;
    _Atomic int is_done; /* set last by the thread (release); read with acquire */
    int result;          /* 0 or -errno. The thread owns these two until is_done. */
    struct storage_error error;
    struct onespace_window_request *next; /* in the window's list */
};

int storage_request_start(struct storage_window *storage, MPI_Win handle, uint64_t offset,
                          uint64_t length, struct onespace_window_request **made);
/* Waits for the request and removes it from the window's list; the caller frees it. */
void storage_request_wait(struct onespace_window_request *request);
/* Waits for all requests of the window and frees them. */
void storage_requests_wait_all(struct storage_window *storage);

/* Counters of one kind of call: any thread adds (relaxed), onespace_window_statistics reads. */
struct storage_counter {
    _Atomic uint64_t calls, bytes, nanoseconds, failures;
};
struct storage_counters {
    struct storage_counter sync, sync_range, sync_start, commit;
};
/* since: futex_now_ns() at the start of the call. */
void storage_counter_add(struct storage_counter *count, uint64_t bytes, uint64_t since, int result);

/* ---- Dirty pages (dirty_pages.c) ---- */

/* Whether this process has opened an RDMA device, which MPI libraries do in MPI_Init. */
int process_uses_rdma(void);
/* Whether an RDMA device may write into this rank's part: storage_window.has_device_writes. */
int device_writes_are_possible(const struct storage_window *storage);
/* Whether an RDMA device may write into the pages of this rank's file: it is in memory. `unknown`
 * if that cannot be found out. */
int file_can_be_pinned(const struct storage_window *storage, int unknown);
/* Whether Linux lets no device pin pages of files on disk, so as to write into them. */
int kernel_refuses_pinned_files(void);
/* Marks as dirty the pages in memory of a range of this rank's region, if a device may have written
 * to them. */
void device_writes_mark_dirty(const struct storage_region *region, struct storage_range range);

/* Bytes of the maps of all parts; `sizes` by rank. */
size_t dirty_maps_size(const uint64_t *sizes, int ranks);
/* maps: zeroed memory that the processes of the node share. 0 or -ENOMEM. */
int dirty_maps_init(struct storage_window *storage, const uint64_t *sizes, void *maps);

/* Starts tracking stores. No rank uses the window yet. */
void dirty_tracking_begin(struct window *window);
/* window_provider.prepare_stores: starts tracking this process's stores into another rank's part.
 * Any thread. */
void dirty_tracking_before_store(struct window *window, int rank);

/* In a commit, while no rank stores: publishes the pages that this process has dirtied to the other
 * ranks of the node. */
void dirty_pages_publish(struct window *window);
/* After all ranks have published: replaces *ranges by the dirty ranges of this rank's storage part
 * since the last call, counted from the part's first byte. 0; 1: unknown, so the only range is all
 * of it; or -ENOMEM. */
int dirty_pages_take(struct window *window, struct storage_ranges *ranges);

/* ---- Versions (versions.c) ---- */

/* The last step of creating a window: if its ranks on storage want versions (all or none), restores
 * the newest version. An error class, the same on all ranks. */
int storage_versions_open(struct window *window, const char *call);
/* onespace_window_commit. Collective. An error class, after a message. */
int storage_versions_commit(struct window *window, const char *call);
/* Local; 0: none. */
uint64_t storage_versions_newest(const struct storage_window *storage);
/* Local, before the part is unmapped. */
void storage_versions_close(struct storage_window *storage);

/* ---- MPI_Alloc_mem (alloc_mem.c) ---- */

/* MPI_Alloc_mem. *base NULL: info does not ask for storage. An error class, after a message. */
int storage_memory_allocate(size_t size, MPI_Info info, void **base);
/* MPI_Free_mem. *is_ours 0: the memory is the MPI library's. */
int storage_memory_free(void *base, int *is_ours);
/* Whether any such memory exists, so that windows of the MPI library may have some. */
int storage_memory_is_used(void);
/* MPI_Win_sync: flushes such memory of the window. *is_ours: it had some. */
int storage_memory_sync(MPI_Win handle, int *is_ours);
/* MPI_Win_attach and MPI_Win_detach of such memory. base NULL: all of the window's, which is freed.
 */
void storage_memory_attach(MPI_Win handle, void *base);
void storage_memory_detach(MPI_Win handle, const void *base);
/* MPI_Finalize. */
int storage_memory_free_all(void);

#endif
