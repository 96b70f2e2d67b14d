/* src/mpi/lifetime/free.c: see free.h. */
#include "mpi/lifetime/free.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "mpi/group/hold.h"
#include "mpi/group/progress.h"
#include "mpi/group/shared.h"
#include "mpi/lifetime/handle.h"
#include "mpi/rma/intra_node.h"

void window_discard(struct window *window)
{
    if (!window)
        return;
    if (window->mpi_group != MPI_GROUP_NULL)
        real()->Group_free(&window->mpi_group);
    if (window->owns_self)
        real()->Comm_free(&window->self);
    if (window->direct_mapped)
        munmap(window->direct, window->direct_mapped);
    else if (window->direct && window->group->rank == 0)
        shared_retire(window->direct);
    else if (window->direct) {
        shared_leave(window->direct);
        hold_release(window->group->members[0]);
    }
    intra_node_free(window->intra_node);
    progress_release();
    group_release(window->group);
    free(window->access.ranks);
    free(window->exposure.ranks);
    free(window->bases);
    free(window->use);
    free(window->locked);
    free(window->starts);
    free(window);
}

void window_leave(struct window *window)
{
    if (window->direct)
        window->ticket = barrier_arrive(&window->direct->barrier, window->group->ranks);
}

int window_await_others(struct window *window)
{
    struct wait wait = direct_wait(window);
    wait.is_for_io =
        window->provider->close != NULL; /* a provider with close may flush to a device */
    return window->direct ? barrier_await(&window->direct->barrier, window->ticket, &wait)
                          : MPI_SUCCESS;
}

void window_close(struct window *window)
{
    MPI_Win handle = window->handle;
    window->closed = real()->Win_get_errhandler(handle, &window->handler);
    if (window->closed == MPI_SUCCESS)
        window->closed =
            real()->Win_free(&handle); /* for MPI's own windows this waits for the others */
    if (window->provider->close)
        window->provider->close(window);
}

/* On a window made for it: an error handler cannot be called without one. */
static void call_handler(const struct window *window, int error)
{
    MPI_Win handle;
    if (handle_make_empty(MPI_INFO_NULL, window->self, &handle) != MPI_SUCCESS)
        return;
    if (real()->Win_set_errhandler(handle, window->handler) == MPI_SUCCESS)
        real()->Win_call_errhandler(handle, error);
    real()->Win_free(&handle);
}

int window_destroy(struct window *window)
{
    int result = window->provider->free(window);
    if (result == MPI_SUCCESS)
        result = window->closed;
    if (window->handler != MPI_ERRHANDLER_NULL) {
        if (result != MPI_SUCCESS)
            call_handler(window, result);
        real()->Errhandler_free(&window->handler);
    }
    window_discard(window);
    return result;
}
