/* src/mpi/storage/window.h: a window on storage, behind window->memory of the provider "storage".
 *
 *   provider.c  the provider: what MPI's calls on the window do
 *   build.c     all ranks together: open, lock, reserve, map
 *   reach.c     the other ranks' parts at addresses of this rank
 *   bulk.c      large puts and gets
 *   versions.c  versions, and their calls in onespace/window.h
 *   request.c   synchronisation in the background
 *   memory.c    MPI_Alloc_mem, and windows that MPI makes on such memory
 *   take_storage.c      onespace/window.h */
#ifndef ONESPACE_MPI_STORAGE_WINDOW_H
#define ONESPACE_MPI_STORAGE_WINDOW_H

#include <pthread.h>

#include "mpi/window/window.h"
#include "onespace/window.h"
#include "storage/region/region.h"

struct versions;
struct party;
struct storage_door; /* bulk.c */

struct storage_window {
    struct storage_hints hints; /* as asked for */
    struct storage_part own;    /* own.region.file is this rank's descriptor of its file */
    const struct party *party;  /* the window's */
    int memory;                 /* shared memory of the memory part for other processes; -1: none */
    int rank, ranks;
    /* Of the ranks of this node, without their descriptors, or NULL when MPI reaches them
     * (reach.c). The rank's own place is empty, as are those of other nodes. */
    struct storage_part *others;
    struct storage_door *doors;  /* by rank, with `others` */
    int holds;                   /* in one space: of so many ranks the memory is held */
    struct storage_region whole; /* of a contiguous shared window: all parts, if mapped here */
    int is_contiguous;           /* MPI_Win_allocate_shared without alloc_shared_noncontig */
    int is_leader;               /* the lowest rank of the node that has this file */
    int overlaps;                /* parts of the window lie on the same bytes of a file */
    MPI_Comm comm;               /* of the window's ranks, for collective calls */
    struct storage_word *words;  /* agree.c; NULL after a rank was not heard */
    MPI_Request agreement;       /* agree.c: on its way */
    int is_closing;              /* all ranks are about to hear how that went on each */
    int closed;                  /* how it went on this one, where they will not hear it */
    pthread_mutex_t mutex;       /* over `requests`; never held across MPI */
    struct onespace_window_request *requests;
    struct storage_counts *counts;
    struct versions *versions; /* NULL: none (versions.h) */
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
/* Says the error and returns its class; MPI_SUCCESS for 0. */
int storage_report(int rank, const char *call, int result, const struct storage_error *error);

/* build.c, reach.c: collective, as window_provider.allocate is. */
int storage_build(struct window *window, const struct window_request *request);
int storage_reach(struct window *window, const struct window_request *request, int error);
/* Opens the file, or shared memory, behind a descriptor of that rank's process; -1: it cannot. */
int storage_open_of(const struct party *party, int rank, int descriptor);
/* Unmaps, closes, and frees *storage; leaves the file as it is. */
void storage_dismantle(struct window *window);

/* bulk.c: window_provider.copy, and what it needs of the other ranks. */
void storage_copy(struct window *window, int rank, int is_put, char *part, char *own, size_t size);
int storage_doors_make(struct storage_window *storage); /* 0, or -1: no memory */
void storage_door_name(struct storage_window *storage, int rank, int theirs);
void storage_doors_close(struct storage_window *storage);

/* provider.c: makes a range of this rank's own part durable: -errno. */
int storage_flush_own(struct storage_window *storage, uint64_t offset, uint64_t length,
                      struct storage_error *error);
/* agree.c: the least value of all ranks; collective. 0, or -EIO when a rank's was not
 * heard. Also in two steps, the first of which waits for nobody; the second follows when it gave 0.
 */
int storage_least(struct storage_window *storage, int64_t mine, int64_t *least);
int storage_least_begin(struct storage_window *storage, int64_t mine);
int storage_least_end(struct storage_window *storage, int64_t *least);
struct storage_word *storage_words_new(int ranks); /* NULL: no memory; to be freed by free() */
/* request.c: waits for all that are in the background and frees them. */
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

uint64_t storage_now(void);
void storage_count(struct storage_count *count, uint64_t bytes, uint64_t since, int result);

#endif
