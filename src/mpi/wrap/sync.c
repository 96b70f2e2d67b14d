/* src/mpi/wrap/sync.c: wraps MPI's functions that synchronise windows. */
#include "mpi/rma/intra_node.h"
#include "mpi/storage/memory.h"
#include "mpi/wrap/wrap.h"

/* MPI_NAME(arguments) evaluates `ours` on a window of the layer. Otherwise it calls MPI's function;
 * a window that spans nodes does `before` and, if that call succeeded, `after`. */
#define SYNC_INTRA_NODE(name, parameters, arguments, ours, before, after)                          \
    WRAP(name)                                                                                     \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        struct window *window = window_find(win);                                                  \
        struct intra_node *node = window ? window->intra_node : NULL;                              \
        if (window && window->direct)                                                              \
            return window_result(window, ours);                                                    \
        if (node)                                                                                  \
            before;                                                                                \
        int result = real()->name arguments;                                                       \
        if (node && result == MPI_SUCCESS)                                                         \
            after;                                                                                 \
        return result;                                                                             \
    }
#define NOTHING (void)node
#define ORDER   atomic_thread_fence(memory_order_seq_cst)
#define SYNC(name, parameters, arguments, ours)                                                    \
    SYNC_INTRA_NODE(name, parameters, arguments, ours, ORDER, NOTHING)

SYNC_INTRA_NODE(Win_lock, (int type, int rank, int assertion, MPI_Win win),
                (type, rank, assertion, win), direct_lock(window, type, rank, assertion), NOTHING,
                intra_node_lock(node, rank, assertion))
SYNC_INTRA_NODE(Win_unlock, (int rank, MPI_Win win), (rank, win), direct_unlock(window, rank),
                intra_node_unlock(node, rank, window->group->ranks), NOTHING)
SYNC_INTRA_NODE(Win_lock_all, (int assertion, MPI_Win win), (assertion, win),
                direct_lock_all(window, assertion), NOTHING, intra_node_lock_all(node, assertion))
SYNC_INTRA_NODE(Win_unlock_all, (MPI_Win win), (win), direct_unlock_all(window),
                intra_node_unlock_all(node, window->group->ranks), NOTHING)
SYNC(Win_flush, (int rank, MPI_Win win), (rank, win), direct_flush(window))
SYNC(Win_flush_all, (MPI_Win win), (win), direct_flush(window))
SYNC(Win_flush_local, (int rank, MPI_Win win), (rank, win), direct_flush(window))
SYNC(Win_flush_local_all, (MPI_Win win), (win), direct_flush(window))
SYNC(Win_complete, (MPI_Win win), (win), direct_complete(window))
SYNC(Win_wait, (MPI_Win win), (win), direct_await(window))
SYNC(Win_test, (MPI_Win win, int *flag), (win, flag), direct_test(window, flag))

WRAP(Win_fence)
int MPI_Win_fence(int assertion, MPI_Win win)
{
    struct window *window = window_find(win);
    if (window && window->direct)
        return window_result(window, direct_fence(window, assertion));
    return window && window->intra_node ? intra_node_fence(window, assertion)
                                        : real()->Win_fence(assertion, win);
}

WRAP(Win_post)
int MPI_Win_post(MPI_Group group, int assertion, MPI_Win win)
{
    struct window *window = wrap_direct(win);
    return window ? window_result(window, direct_post(window, group))
                  : real()->Win_post(group, assertion, win);
}

WRAP(Win_start)
int MPI_Win_start(MPI_Group group, int assertion, MPI_Win win)
{
    struct window *window = window_find(win);
    if (window && window->direct)
        return window_result(window, direct_start(window, group));
    if (window && window->intra_node)
        intra_node_start(window->intra_node);
    return real()->Win_start(group, assertion, win);
}

/* A window of MPI's, perhaps with memory that is on storage. */
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

WRAP(Win_sync)
int MPI_Win_sync(MPI_Win win)
{
    struct window *window = window_find(win);
    if (!window)
        return sync_other(win);
    int result = MPI_SUCCESS;
    if (window->direct)
        result = direct_sync(window);
    else if (window->provider->sync)
        atomic_thread_fence(
            memory_order_seq_cst); /* MPICH's MPI_Win_sync fails outside of an epoch */
    else
        result = real()->Win_sync(win);
    if (result == MPI_SUCCESS && window->provider->sync)
        result = window->provider->sync(window);
    return window_result(window, result);
}
