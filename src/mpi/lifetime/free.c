/* src/mpi/lifetime/free.c: frees windows, by MPI_Win_free or MPI_Finalize. */
#include "mpi/lifetime/lifetime.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi/rma/rma.h"
#include "mpi/storage/storage_window.h"

void window_discard(struct window *window)
{
    if (!window)
        return;
    if (window->mpi_group != MPI_GROUP_NULL)
        pmpi()->Group_free(&window->mpi_group);
    if (window->owns_self)
        pmpi()->Comm_free(&window->self);
    if (window->rma_shared_mapped)
        munmap(window->rma_shared, window->rma_shared_mapped);
    else if (window->rma_shared && window->group->rank == 0)
        shared_block_retire(window->rma_shared);
    else if (window->rma_shared) {
        shared_block_leave(window->rma_shared);
        task_hold_release(window->group->members[0]);
    }
    intra_node_free(window->intra_node);
    progress_disable();
    group_unref(window->group);
    free(window->access.ranks);
    free(window->exposure.ranks);
    free(window->bases);
    free(window->usage);
    free(window->locked);
    free(window->starts);
    free((void *)window->started);
    free(window);
}

/* Network libraries cache registrations of memory that they have sent from. A hook in the task's
 * madvise() drops them when the pages go. The hook runs before the system call, which fails here
 * because the address is not a multiple of a page: the other ranks may still use the memory. */
static void drop_registrations(const char *base, size_t size)
{
    size_t before = (uintptr_t)base % (uintptr_t)sysconf(_SC_PAGESIZE) == 0;
    if (size)
        (void)madvise((void *)(base - before), size + before, MADV_DONTNEED);
}

/* Another task unmaps the parts, and this task's hooks do not see that. One call serves parts with
 * less than a page between them. */
static void drop_all_registrations(const struct window *window)
{
    enum { GAP = 4096 };
    const char *base = NULL, *end = NULL;
    for (int i = 0; (window->rma_shared || window->intra_node) && i < window->group->ranks; i++) {
        const char *part = group_in_space(window->group, i) ? rma_part_base(window, i) : NULL;
        size_t size = part ? rma_part_of(window, i)->size : 0;
        if (!size)
            continue;
        if (base && part >= end && part - end < GAP) {
            end = part + size;
            continue;
        }
        drop_registrations(base, (size_t)(end - base));
        base = part;
        end = part + size;
    }
    drop_registrations(base, (size_t)(end - base));
}

/* This rank no longer uses the window. The memory stays until all ranks have left it. */
void window_leave(struct window *window)
{
    drop_all_registrations(window);
    if (window->rma_shared)
        window->ticket = barrier_arrive(&window->rma_shared->barrier, window->group->ranks);
}

int window_await_others(struct window *window)
{
    struct wait wait = window_wait(window);
    wait.is_for_io =
        window->provider->close != NULL; /* a provider with close may flush to a device */
    if (!window->rma_shared)
        return MPI_SUCCESS;
    int result = barrier_await(&window->rma_shared->barrier, window->ticket, &wait);
    if (result == MPI_SUCCESS)
        (void)window_progress(window); /* an error of this rank must not keep it from the others */
    return result;
}

/* A provider with `close` agrees with the others before it frees anything. */
static int has_second_barrier(const struct window *window)
{
    return window->rma_shared && !window->provider->close;
}

void window_close(struct window *window)
{
    MPI_Win handle = window->handle;
    window->closed = pmpi()->Win_get_errhandler(handle, &window->handler);
    if (window->closed == MPI_SUCCESS)
        window->closed =
            pmpi()->Win_free(&handle); /* for MPI's own windows this waits for the others */
    if (window->provider->close)
        window->provider->close(window);
    if (has_second_barrier(window))
        window->ticket = barrier_arrive(&window->rma_shared->barrier, window->group->ranks);
}

/* Calls the handler on a window created for that, because an error handler needs one. */
static void call_handler(const struct window *window, int error)
{
    MPI_Win handle;
    if (handle_create_empty(MPI_INFO_NULL, window->self, &handle) != MPI_SUCCESS)
        return;
    if (pmpi()->Win_set_errhandler(handle, window->handler) == MPI_SUCCESS)
        pmpi()->Win_call_errhandler(handle, error);
    pmpi()->Win_free(&handle);
}

/* Waits until every rank has called its functions that delete attributes, which may use the memory
 * of all ranks. */
static int await_closed(struct window *window)
{
    struct wait wait = window_wait(window);
    return has_second_barrier(window)
               ? barrier_await(&window->rma_shared->barrier, window->ticket, &wait)
               : MPI_SUCCESS;
}

int window_destroy(struct window *window)
{
    int result = await_closed(window);
    if (result == MPI_SUCCESS)
        result = window->provider->free(window);
    if (result == MPI_SUCCESS)
        result = window->closed;
    if (window->handler != MPI_ERRHANDLER_NULL) {
        if (result != MPI_SUCCESS)
            call_handler(window, result);
        pmpi()->Errhandler_free(&window->handler);
    }
    window_discard(window);
    return result;
}

/* ---- MPI_Finalize ---- */

/* MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF, in every language, while all of
 * MPI still works. Programs that use sessions have no such moment: they must free their windows.
 */

static int leave_step(struct window *window)
{
    window_leave(window);
    return MPI_SUCCESS;
}

static int close_step(struct window *window)
{
    window_close(window);
    return MPI_SUCCESS;
}

static int destroy_step(struct window *window)
{
    window_remove(window);
    return window_destroy(window);
}

/* Each step of MPI_Win_free for all windows, because ranks with several threads may have created
 * them in different orders. */
static int free_all_windows(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    int result = windows_each(leave_step);
    if (result == MPI_SUCCESS)
        result = windows_each(window_await_others);
    if (result == MPI_SUCCESS)
        result = windows_each(close_step);
    if (result == MPI_SUCCESS)
        result = windows_each(destroy_step);
    int freed = storage_memory_free_all();
    progress_finalize();
    pmpi_self_comm_free();
    return result == MPI_SUCCESS ? freed : result;
}

void finalize_hook_install(void)
{
    static _Atomic int watched; /* by any thread; relaxed would do: it guards no other data */
    int keyval;
    if (atomic_load_explicit(&watched, memory_order_relaxed) || atomic_exchange(&watched, 1))
        return;
    if (!pmpi_has_world())
        atomic_store(&watched, 0); /* MPI_Init may come later */
    else if (pmpi()->Comm_create_keyval(pmpi_no_copy, free_all_windows, &keyval, NULL) ==
                 MPI_SUCCESS &&
             pmpi()->Comm_set_attr(MPI_COMM_SELF, keyval, NULL) == MPI_SUCCESS)
        progress_thread_start();
}
