/* src/mpi/lifetime/finalize.c: see finalize.h.
 *
 * MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF, in every language, while all of
 * MPI still works. Programs that use sessions have no such moment: they have to free their windows.
 */
#include "mpi/lifetime/finalize.h"

#include <stdatomic.h>

#include "mpi/group/progress.h"
#include "mpi/lifetime/free.h"
#include "mpi/real/private.h"
#include "mpi/storage/memory.h"

static int leave(struct window *window)
{
    window_leave(window);
    return MPI_SUCCESS;
}

static int close_left(struct window *window)
{
    window_close(window);
    return MPI_SUCCESS;
}

static int destroy(struct window *window)
{
    window_remove(window);
    return window_destroy(window);
}

/* As MPI_Win_free, but each step for all windows: ranks with several threads may have created them
 * in different orders. */
static int free_left(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    int result = windows_each(leave);
    if (result == MPI_SUCCESS)
        result = windows_each(window_await_others);
    if (result == MPI_SUCCESS)
        result = windows_each(close_left);
    if (result == MPI_SUCCESS)
        result = windows_each(destroy);
    int freed = storage_memory_end();
    progress_end();
    private_communicator_end();
    return result == MPI_SUCCESS ? freed : result;
}

void finalize_watch(void)
{
    static atomic_flag watched = ATOMIC_FLAG_INIT; /* relaxed would do: it guards no other data */
    int keyval, has_world = 0;
    if (atomic_flag_test_and_set(&watched) || real()->Initialized(&has_world) != MPI_SUCCESS)
        return;
    if (!has_world)
        atomic_flag_clear(&watched); /* MPI_Init may come later */
    else if (real()->Comm_create_keyval(real_no_copy, free_left, &keyval, NULL) == MPI_SUCCESS)
        real()->Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
}
