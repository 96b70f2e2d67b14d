/* src/mpi/wrap/sync.c: MPI's functions that synchronise windows. */
#include "mpi/rma/intra_node.h"
#include "mpi/storage/memory.h"
#include "mpi/wrap/wrap.h"

/* MPI_NAME(arguments) calls `ours` on a window of one address space, else MPI's own, with what a
 * window of several nodes does before and, if it succeeded, after that. */
#define SYNC_NEAR(name, parameters, arguments, ours, before, after)                                \
    TAKE(name)                                                                                     \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        struct window *window = window_find(win);                                                  \
        struct near *near = window ? window->near : NULL;                                          \
        if (window && window->direct)                                                              \
            return window_result(window, ours);                                                    \
        if (near)                                                                                  \
            before;                                                                                \
        int result = real()->name arguments;                                                       \
        if (near && result == MPI_SUCCESS)                                                         \
            after;                                                                                 \
        return result;                                                                             \
    }
#define NOTHING (void)near
#define ORDER   atomic_thread_fence(memory_order_seq_cst)
#define SYNC(name, parameters, arguments, ours)                                                    \
    SYNC_NEAR(name, parameters, arguments, ours, ORDER, NOTHING)

SYNC_NEAR(Win_lock, (int type, int rank, int assertion, MPI_Win win), (type, rank, assertion, win),
          direct_lock(window, type, rank, assertion), NOTHING, near_lock(near, rank, assertion))
SYNC_NEAR(Win_unlock, (int rank, MPI_Win win), (rank, win), direct_unlock(window, rank),
          near_unlock(near, rank, window->party->ranks), NOTHING)
SYNC_NEAR(Win_lock_all, (int assertion, MPI_Win win), (assertion, win),
          direct_lock_all(window, assertion), NOTHING, near_lock_all(near, assertion))
SYNC_NEAR(Win_unlock_all, (MPI_Win win), (win), direct_unlock_all(window),
          near_unlock_all(near, window->party->ranks), NOTHING)
SYNC(Win_flush, (int rank, MPI_Win win), (rank, win), direct_flush(window))
SYNC(Win_flush_all, (MPI_Win win), (win), direct_flush(window))
SYNC(Win_flush_local, (int rank, MPI_Win win), (rank, win), direct_flush(window))
SYNC(Win_flush_local_all, (MPI_Win win), (win), direct_flush(window))
SYNC(Win_complete, (MPI_Win win), (win), direct_complete(window))
SYNC(Win_wait, (MPI_Win win), (win), direct_await(window))
SYNC(Win_test, (MPI_Win win, int *flag), (win, flag), direct_test(window, flag))

TAKE(Win_fence)
int MPI_Win_fence(int assertion, MPI_Win win)
{
    struct window *window = window_find(win);
    if (window && window->direct)
        return window_result(window, direct_fence(window));
    return window && window->near ? near_fence(window, assertion)
                                  : real()->Win_fence(assertion, win);
}

TAKE(Win_post)
int MPI_Win_post(MPI_Group group, int assertion, MPI_Win win)
{
    struct window *window = take_direct(win);
    return window ? window_result(window, direct_post(window, group))
                  : real()->Win_post(group, assertion, win);
}

TAKE(Win_start)
int MPI_Win_start(MPI_Group group, int assertion, MPI_Win win)
{
    struct window *window = window_find(win);
    if (window && window->direct)
        return window_result(window, direct_start(window, group));
    if (window && window->near)
        near_start(window->near);
    return real()->Win_start(group, assertion, win);
}

/* A window that MPI made, perhaps on memory that is on storage. */
static int sync_other(MPI_Win win)
{
    int is_ours = 0, result = MPI_SUCCESS;
    if (storage_memory_is_used())
        result = storage_memory_sync(win, &is_ours);
    if (!is_ours)
        return real()->Win_sync(win);
    if (result != MPI_SUCCESS)
        real()->Win_call_errhandler(win, result);
    return result;
}

TAKE(Win_sync)
int MPI_Win_sync(MPI_Win win)
{
    struct window *window = window_find(win);
    if (!window)
        return sync_other(win);
    int result = MPI_SUCCESS;
    if (window->direct)
        result = direct_flush(window);
    else if (window->provider->sync)
        atomic_thread_fence(memory_order_seq_cst); /* MPICH's own refuses outside of an epoch */
    else
        result = real()->Win_sync(win);
    if (result == MPI_SUCCESS && window->provider->sync)
        result = window->provider->sync(window);
    return window_result(window, result);
}
