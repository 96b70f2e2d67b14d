/* src/mpi/lifetime/handle.c: see handle.h. */
#include "mpi/lifetime/handle.h"

/* A communicator of this rank alone: programs that use sessions have no MPI_COMM_SELF. */
static int find_self(struct window *window, const struct window_request *request)
{
    int has_world = 0;
    int result = real()->Initialized(&has_world);
    if (result != MPI_SUCCESS || has_world)
        return result;
    MPI_Group self;
    result = real()->Group_incl(window->mpi_group, 1, &window->group->rank, &self);
    if (result != MPI_SUCCESS)
        return result;
    result = real()->Comm_create_group(request->comm, self, 0, &window->self);
    window->owns_self = result == MPI_SUCCESS;
    real()->Group_free(&self);
    return result;
}

/* Whatever costs least: Intel MPI takes 30 us for a shared window of one rank, a tenth of that for
 * a dynamic one; Open MPI 4 refuses a dynamic one of one rank. */
int handle_make_empty(MPI_Info info, MPI_Comm self, MPI_Win *handle)
{
#ifdef OPEN_MPI
    void *nothing;
    return real()->Win_allocate_shared(0, 1, info, self, &nothing, handle);
#else
    return real()->Win_create_dynamic(info, self, handle);
#endif
}

int handle_find_own(struct window *window, const struct window_request *request)
{
    int result = real()->Comm_group(request->comm, &window->mpi_group);
    return result == MPI_SUCCESS ? find_self(window, request) : result;
}

int handle_make(struct window *window, const struct window_request *request)
{
    int result = handle_make_empty(request->info, window->self, &window->handle);
    return result == MPI_SUCCESS ? window_add(window) : result;
}
