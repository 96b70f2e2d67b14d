/* src/mpi/wrap/memory.c: wraps MPI's functions that allocate memory and attach it to windows. */
#include "mpi/group/space.h"
#include "mpi/lifetime/finalize.h"
#include "mpi/storage/memory.h"
#include "mpi/wrap/wrap.h"

WRAP(Alloc_mem)
int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *base)
{
    void *found = NULL;
    if (info == MPI_INFO_NULL || size <= 0 || space_layer_is_off())
        return real()->Alloc_mem(size, info, base);
    int class = storage_memory_allocate((size_t)size, info, &found);
    if (class != MPI_SUCCESS) {
        real()->Comm_call_errhandler(MPI_COMM_WORLD, class);
        return class;
    }
    if (!found)
        return real()->Alloc_mem(size, info, base);
    finalize_watch();
    *(void **)base = found;
    return MPI_SUCCESS;
}

WRAP(Free_mem)
int MPI_Free_mem(void *base)
{
    int is_ours, class = storage_memory_free(base, &is_ours);
    if (!is_ours)
        return real()->Free_mem(base);
    if (class != MPI_SUCCESS)
        real()->Comm_call_errhandler(MPI_COMM_WORLD, class);
    return class;
}

WRAP(Win_attach)
int MPI_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
    int result = real()->Win_attach(win, base, size);
    if (result == MPI_SUCCESS)
        storage_memory_attach(win, base);
    return result;
}

WRAP(Win_detach)
int MPI_Win_detach(MPI_Win win, const void *base)
{
    if (base)
        storage_memory_detach(win, base);
    return real()->Win_detach(win, base);
}
