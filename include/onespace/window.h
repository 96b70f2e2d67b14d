/* onespace/window.h: operations on MPI windows on storage beyond MPI's own calls.
 *
 * A window is on storage when it is allocated with the hint alloc_type=storage (docs/storage.md
 * has all hints): MPI_Win_allocate, MPI_Win_allocate_shared or MPI_Alloc_mem map a file, and
 * MPI_Win_sync makes stored data durable ("MPI windows on storage", section 2.1.1). The calls below
 * make a part of it durable, do so in the background or on all nodes, provide statistics, and
 * commit versions.
 *
 * All but the first are in the MPI layer only, libonespace-mpi-mpich.so and
 * libonespace-mpi-openmpi.so. Programs link the one for their MPI before the MPI library, or look
 * the names up with dlsym(RTLD_DEFAULT, ...), which finds them under `onespace run` and where the
 * layer is preloaded.
 *
 * Conventions are MPI's: the calls return MPI_SUCCESS or an MPI error class, after calling the
 * window's error handler; a message on standard error says what was wrong and how to fix it. A
 * window that is not on storage is MPI_ERR_WIN. Offsets and lengths are bytes in the calling rank's
 * own part. Thread-safe if MPI was initialised with MPI_THREAD_MULTIPLE, except that all ranks must
 * make collective calls on one window in the same order. Since 0.1.0. */
#ifndef ONESPACE_WINDOW_H
#define ONESPACE_WINDOW_H

#include <mpi.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ONESPACE_WINDOW_API __attribute__((visibility("default")))
#else
#define ONESPACE_WINDOW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Whether the layer is there ---- */

/* 1: the calling rank's part of the window is on storage. 0: it is in memory, and is not saved: the
 * rank did not ask for storage, or the MPI library made the window and has ignored the hints,
 * because the program was started without the layer. Local; calls MPI only, so it works in programs
 * that neither link the layer nor run with it: call it before the others of this header. Programs
 * in other languages ask MPI_Win_get_info for the key storage_layer. */
static inline int onespace_window_is_on_storage(MPI_Win win)
{
    MPI_Info info;
    char value[16];
    int is_found = 0;
    if (MPI_Win_get_info(win, &info) != MPI_SUCCESS)
        return 0;
#if MPI_VERSION >= 4
    int size = (int)sizeof(value);
    MPI_Info_get_string(info, "storage_layer", &size, value, &is_found);
#else
    MPI_Info_get(info, (char *)"storage_layer", (int)sizeof(value) - 1, value, &is_found);
#endif
    MPI_Info_free(&info);
    return is_found;
}

/* ---- Durability ---- */

/* Makes everything that any rank stored or put before the call durable on all nodes: as
 * MPI_Win_sync on every rank, with one outcome. Collective over the window's ranks. RMA operations
 * that MPI carries between nodes must be complete at their targets (MPI_Win_flush_all,
 * MPI_Win_fence). (The paper, section 2.1.1: synchronisation "on remote processes as well".) */
ONESPACE_WINDOW_API int onespace_window_sync_all(MPI_Win win);

/* Makes `length` bytes from `offset` of the calling rank's part durable. MPI_ERR_ARG: the range is
 * not within the part. */
ONESPACE_WINDOW_API int onespace_window_sync_range(MPI_Win win, MPI_Aint offset, MPI_Aint length);

/* A synchronisation in the background, started by onespace_window_sync_start. */
struct onespace_window_request;

/* Starts onespace_window_sync_range in the background. Data stored into the range before the
 * request is complete may or may not be included. *request is the caller's until
 * onespace_window_wait, or _test with *flag set, sets it to NULL. Complete it before the window is
 * freed: MPI_Win_free waits for the remaining ones, and requests not waited for are lost. */
ONESPACE_WINDOW_API int onespace_window_sync_start(MPI_Win win, MPI_Aint offset, MPI_Aint length,
                                                   struct onespace_window_request **request);

/* Waits for the request, frees it, sets *request to NULL and returns the synchronisation's outcome.
 * *request NULL: MPI_SUCCESS. */
ONESPACE_WINDOW_API int onespace_window_wait(struct onespace_window_request **request);

/* If the request is complete, sets *flag to 1 and acts as onespace_window_wait; else sets *flag to
 * 0. */
ONESPACE_WINDOW_API int onespace_window_test(struct onespace_window_request **request, int *flag);

/* ---- Statistics ---- */

/* Statistics of one kind of call by this rank on this window. */
struct onespace_window_calls {
    uint64_t calls;
    uint64_t bytes;       /* covered, changed or not; for puts and gets: transferred */
    uint64_t nanoseconds; /* spent in them; 0 for put, get and accumulate, which are not timed */
    uint64_t failures;
};

struct onespace_window_statistics {
    uint32_t size;          /* of this structure in the caller's version: set before the call */
    uint32_t is_intra_node; /* 1: other ranks' parts on this node are reached by loads and stores */
    uint64_t storage_bytes, memory_bytes; /* of this rank's part */
    struct onespace_window_calls sync;    /* MPI_Win_sync, onespace_window_sync_all */
    struct onespace_window_calls sync_range;
    struct onespace_window_calls sync_start;           /* in the background */
    struct onespace_window_calls put, get, accumulate; /* done by loads and stores */
    struct onespace_window_calls commit;               /* onespace_window_commit */
};

/* Fills *statistics, up to statistics->size bytes of it. Local. */
ONESPACE_WINDOW_API int onespace_window_statistics(MPI_Win win,
                                                   struct onespace_window_statistics *statistics);

/* ---- Versions (docs/checkpoints.md) ---- */

/* Commits the state of all ranks as one durable version, atomically: after a crash at any time the
 * window reopens with this version or, if the call had not returned on any rank, possibly with the
 * previous one. For windows with the hint storage_alloc_versions. Collective; stores and RMA
 * operations must be complete before the call, and may resume when it has returned. *version (may
 * be NULL) gets the version's number, the same on all ranks; untouched on failure, after which the
 * window stays usable and keeps its last version (docs/checkpoints.md says when the new one may
 * exist). Ranks that asked for memory call it as well; their own parts are not in the version. */
ONESPACE_WINDOW_API int onespace_window_commit(MPI_Win win, uint64_t *version);

/* The number of the newest version, either the one the window was opened from or one committed
 * since; 0: none. Local. */
ONESPACE_WINDOW_API int onespace_window_version(MPI_Win win, uint64_t *version);

#ifdef __cplusplus
}
#endif

#endif
