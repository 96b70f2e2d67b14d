/* src/mpi/wrap/window.c: wraps MPI's functions that allocate memory, and that create, describe,
 * synchronise and free windows. */
#include "mpi/wrap/wrap.h"

#include <limits.h>

#include "mpi/lifetime/lifetime.h"
#include "mpi/storage/storage_window.h"

/* ---- Memory ---- */

WRAP(Alloc_mem)
int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *base)
{
    void *found = NULL;
    if (info == MPI_INFO_NULL || size <= 0 || task_mpi_layer_is_off())
        return pmpi()->Alloc_mem(size, info, base);
    int class = storage_memory_allocate((size_t)size, info, &found);
    if (class != MPI_SUCCESS) {
        pmpi()->Comm_call_errhandler(MPI_COMM_WORLD, class);
        return class;
    }
    if (!found)
        return pmpi()->Alloc_mem(size, info, base);
    finalize_hook_install();
    *(void **)base = found;
    return MPI_SUCCESS;
}

WRAP(Free_mem)
int MPI_Free_mem(void *base)
{
    int is_ours, class = storage_memory_free(base, &is_ours);
    if (!is_ours)
        return pmpi()->Free_mem(base);
    if (class != MPI_SUCCESS)
        pmpi()->Comm_call_errhandler(MPI_COMM_WORLD, class);
    return class;
}

WRAP(Win_attach)
int MPI_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
    int result = pmpi()->Win_attach(win, base, size);
    if (result == MPI_SUCCESS)
        storage_memory_attach(win, base);
    return result;
}

WRAP(Win_detach)
int MPI_Win_detach(MPI_Win win, const void *base)
{
    if (base)
        storage_memory_detach(win, base);
    return pmpi()->Win_detach(win, base);
}

/* ---- Windows ---- */

/* For a library without large counts. A unit that does not fit becomes 0, which the library
 * rejects.
 */
static int disp_unit_to_int(MPI_Aint unit)
{
    return unit > INT_MAX ? 0 : (int)unit;
}

WRAP(Win_allocate)
int MPI_Win_allocate(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr,
                     MPI_Win *win)
{
    int is_ours, result = window_create("MPI_Win_allocate", size, disp_unit, info, comm, 0, baseptr,
                                        win, &is_ours);
    return is_ours ? result : pmpi()->Win_allocate(size, disp_unit, info, comm, baseptr, win);
}

WRAP(Win_allocate_shared)
int MPI_Win_allocate_shared(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
                            void *baseptr, MPI_Win *win)
{
    int is_ours, result = window_create("MPI_Win_allocate_shared", size, disp_unit, info, comm, 1,
                                        baseptr, win, &is_ours);
    return is_ours ? result
                   : pmpi()->Win_allocate_shared(size, disp_unit, info, comm, baseptr, win);
}

WRAP(Win_free)
int MPI_Win_free(MPI_Win *win)
{
    struct window *window = window_find(*win);
    if (!window) {
        storage_memory_detach(*win, NULL);
        return pmpi()->Win_free(win);
    }
    window_leave(window);
    int result = window_await_others(window);
    if (result != MPI_SUCCESS)
        return window_result(window, result);
    window_remove(window);
    window_close(window);
    result = window_destroy(window);
    *win = MPI_WIN_NULL;
    return result;
}

/* The part of a rank; MPI_PROC_NULL means the first rank with memory. NULL: no rank has any. */
static const struct rma_part *find_part(const struct window *window, int *rank)
{
    const struct rma_part *parts = window->rma_shared->rank;
    if (*rank != MPI_PROC_NULL)
        return &parts[*rank];
    for (*rank = 0; *rank < window->group->ranks; (*rank)++)
        if (parts[*rank].size > 0)
            return &parts[*rank];
    return NULL;
}

WRAP(Win_shared_query)
int MPI_Win_shared_query(MPI_Win win, int rank, MPI_Aint *size, int *disp_unit, void *baseptr)
{
    struct window *window = wrap_find_shared(win);
    if (!window)
        return pmpi()->Win_shared_query(win, rank, size, disp_unit, baseptr);
    if (rank != MPI_PROC_NULL && (rank < 0 || rank >= window->group->ranks))
        return window_result(window, MPI_ERR_RANK);
    const struct rma_part *part = find_part(window, &rank);
    if (part)
        rma_mark_untracked(window, rank);
    *size = part ? (MPI_Aint)part->size : 0;
    *disp_unit = part ? part->disp_unit : 1;
    *(void **)baseptr = !part ? NULL : window->bases ? window->bases[rank] : part->base;
    return MPI_SUCCESS;
}

/* The predefined attributes of a window of the layer. The handle's own are those of an empty
 * window.
 */
static int find_attribute(struct window *window, int keyval, void **value)
{
    if (keyval == MPI_WIN_BASE)
        *value = window->base;
    else if (keyval == MPI_WIN_SIZE)
        *value = &window->size_attribute;
    else if (keyval == MPI_WIN_DISP_UNIT)
        *value = &window->disp_unit;
    else if (keyval == MPI_WIN_CREATE_FLAVOR)
        *value = &window->flavor;
    else if (keyval == MPI_WIN_MODEL)
        *value = &window->model;
    else
        return 0;
    return 1;
}

WRAP(Win_get_attr)
int MPI_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag)
{
    struct window *window = window_find(win);
    if (!window || !find_attribute(window, keyval, value))
        return pmpi()->Win_get_attr(win, keyval, value, flag);
    *flag = 1;
    return MPI_SUCCESS;
}

/* Fortran gets values; C gets pointers to them. */
static int find_value(MPI_Win win, int keyval, MPI_Aint *value)
{
    void *found;
    struct window *window = window_find(win);
    if (!window || !find_attribute(window, keyval, &found))
        return 0;
    if (keyval == MPI_WIN_BASE)
        *value = (MPI_Aint)found;
    else
        *value = keyval == MPI_WIN_SIZE ? *(MPI_Aint *)found : *(int *)found;
    return 1;
}

#ifdef OPEN_MPI
typedef void fortran_get_attr(MPI_Fint *, MPI_Fint *, MPI_Aint *, MPI_Fint *, MPI_Fint *);

/* Open MPI's bindings do not call the C function. */
#define WRAP_FORTRAN(name)                                                                         \
    __attribute__((visibility("default"))) fortran_get_attr name;                                  \
    void name(MPI_Fint *win, MPI_Fint *keyval, MPI_Aint *value, MPI_Fint *flag, MPI_Fint *error)   \
    {                                                                                              \
        static fortran_get_attr *_Atomic library_function; /* the same for all threads */          \
        if (find_value(pmpi()->Win_f2c(*win), *keyval, value)) {                                   \
            *flag = 1;                                                                             \
            if (error)                                                                             \
                *error = MPI_SUCCESS;                                                              \
            return;                                                                                \
        }                                                                                          \
        if (!library_function)                                                                     \
            library_function = (fortran_get_attr *)pmpi_symbol(#name);                             \
        library_function(win, keyval, value, flag, error);                                         \
    }
WRAP_FORTRAN(mpi_win_get_attr_)
WRAP_FORTRAN(pmpi_win_get_attr_)
#else
/* MPICH's bindings call this function. kind is an enum: the form of the value. */
__attribute__((visibility("default"))) int MPII_Win_get_attr(MPI_Win win, int keyval, void *value,
                                                             int *flag, int kind);
int MPII_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag, int kind)
{
    static int (*_Atomic library_function)(MPI_Win, int, void *, int *, int);
    /* Fortran's predefined keys follow C's. */
    if (find_value(win, keyval, value) || find_value(win, keyval - 1, value)) {
        *flag = 1;
        return MPI_SUCCESS;
    }
    if (!library_function)
        library_function =
            (int (*)(MPI_Win, int, void *, int *, int))pmpi_symbol("MPII_Win_get_attr");
    return library_function(win, keyval, value, flag, kind);
}
#endif

WRAP(Win_get_group)
int MPI_Win_get_group(MPI_Win win, MPI_Group *group)
{
    struct window *window = wrap_find_shared(win);
    if (!window)
        return pmpi()->Win_get_group(win, group);
    return window_result(window, pmpi()->Group_union(window->mpi_group, MPI_GROUP_EMPTY, group));
}

WRAP(Win_get_info)
int MPI_Win_get_info(MPI_Win win, MPI_Info *info)
{
    struct window *window = window_find(win);
    int result = pmpi()->Win_get_info(win, info);
    if (window && result == MPI_SUCCESS && window->provider->describe)
        result = window_result(window, window->provider->describe(window, *info));
    return result;
}

WRAP(Win_allocate_c)
int MPI_Win_allocate_c(MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                       void *baseptr, MPI_Win *win)
{
    int is_ours, result = window_create("MPI_Win_allocate_c", size, disp_unit, info, comm, 0,
                                        baseptr, win, &is_ours);
    if (is_ours)
        return result;
    if (pmpi()->Win_allocate_c)
        return pmpi()->Win_allocate_c(size, disp_unit, info, comm, baseptr, win);
    return pmpi()->Win_allocate(size, disp_unit_to_int(disp_unit), info, comm, baseptr, win);
}

WRAP(Win_allocate_shared_c)
int MPI_Win_allocate_shared_c(MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                              void *baseptr, MPI_Win *win)
{
    int is_ours, result = window_create("MPI_Win_allocate_shared_c", size, disp_unit, info, comm, 1,
                                        baseptr, win, &is_ours);
    if (is_ours)
        return result;
    if (pmpi()->Win_allocate_shared_c)
        return pmpi()->Win_allocate_shared_c(size, disp_unit, info, comm, baseptr, win);
    return pmpi()->Win_allocate_shared(size, disp_unit_to_int(disp_unit), info, comm, baseptr, win);
}

WRAP(Win_shared_query_c)
int MPI_Win_shared_query_c(MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *disp_unit,
                           void *baseptr)
{
    int unit = 0;
    if (!window_find(win) && pmpi()->Win_shared_query_c)
        return pmpi()->Win_shared_query_c(win, rank, size, disp_unit, baseptr);
    int result = MPI_Win_shared_query(win, rank, size, &unit, baseptr);
    if (result == MPI_SUCCESS)
        *disp_unit = unit;
    return result;
}

/* ---- Synchronisation ---- */

/* Defines MPI_NAME, which evaluates `layer_call` on a window whose memory all ranks share.
 * Otherwise it calls MPI's function; on a window that spans nodes it evaluates `before` first and,
 * if that call succeeded, `after`. */
#define SYNC_INTRA_NODE(name, parameters, arguments, layer_call, before, after)                    \
    WRAP(name)                                                                                     \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        struct window *window = window_find(win);                                                  \
        struct intra_node *node = window ? window->intra_node : NULL;                              \
        if (window && window->rma_shared)                                                          \
            return window_result(window, layer_call);                                              \
        if (node)                                                                                  \
            before;                                                                                \
        int result = pmpi()->name arguments;                                                       \
        if (node && result == MPI_SUCCESS)                                                         \
            after;                                                                                 \
        return result;                                                                             \
    }
#define NO_STEP (void)node
#define FENCE   atomic_thread_fence(memory_order_seq_cst)
#define SYNC(name, parameters, arguments, layer_call)                                              \
    SYNC_INTRA_NODE(name, parameters, arguments, layer_call, FENCE, NO_STEP)

SYNC_INTRA_NODE(Win_lock, (int type, int rank, int assertion, MPI_Win win),
                (type, rank, assertion, win), win_lock(window, type, rank, assertion), NO_STEP,
                intra_node_lock(node, rank, assertion))
SYNC_INTRA_NODE(Win_unlock, (int rank, MPI_Win win), (rank, win), win_unlock(window, rank),
                intra_node_unlock(node, rank, window->group->ranks), NO_STEP)
SYNC_INTRA_NODE(Win_lock_all, (int assertion, MPI_Win win), (assertion, win),
                win_lock_all(window, assertion), NO_STEP, intra_node_lock_all(node, assertion))
SYNC_INTRA_NODE(Win_unlock_all, (MPI_Win win), (win), win_unlock_all(window),
                intra_node_unlock_all(node, window->group->ranks), NO_STEP)
SYNC(Win_flush, (int rank, MPI_Win win), (rank, win), win_flush(window, rank))
SYNC(Win_flush_all, (MPI_Win win), (win), win_flush_all(window))
SYNC(Win_flush_local, (int rank, MPI_Win win), (rank, win), win_flush(window, rank))
SYNC(Win_flush_local_all, (MPI_Win win), (win), win_flush_all(window))
SYNC(Win_complete, (MPI_Win win), (win), win_complete(window))
SYNC(Win_wait, (MPI_Win win), (win), win_wait(window))
SYNC(Win_test, (MPI_Win win, int *flag), (win, flag), win_test(window, flag))

WRAP(Win_fence)
int MPI_Win_fence(int assertion, MPI_Win win)
{
    struct window *window = window_find(win);
    if (window && window->rma_shared)
        return window_result(window, win_fence(window, assertion));
    return window && window->intra_node ? intra_node_fence(window, assertion)
                                        : pmpi()->Win_fence(assertion, win);
}

WRAP(Win_post)
int MPI_Win_post(MPI_Group group, int assertion, MPI_Win win)
{
    struct window *window = wrap_find_shared(win);
    return window ? window_result(window, win_post(window, group))
                  : pmpi()->Win_post(group, assertion, win);
}

WRAP(Win_start)
int MPI_Win_start(MPI_Group group, int assertion, MPI_Win win)
{
    struct window *window = window_find(win);
    if (window && window->rma_shared)
        return window_result(window, win_start(window, group));
    if (window && window->intra_node)
        intra_node_start(window->intra_node);
    return pmpi()->Win_start(group, assertion, win);
}

/* MPI_Win_sync on a window of the MPI library, whose memory may be on storage. */
static int sync_library_window(MPI_Win win)
{
    int is_ours = 0, result = MPI_SUCCESS;
    if (storage_memory_is_used())
        result = storage_memory_sync(win, &is_ours);
    if (!is_ours)
        return pmpi()->Win_sync(win);
    if (result != MPI_SUCCESS)
        pmpi()->Win_call_errhandler(win, result);
    return result;
}

WRAP(Win_sync)
int MPI_Win_sync(MPI_Win win)
{
    struct window *window = window_find(win);
    if (!window)
        return sync_library_window(win);
    int result = MPI_SUCCESS;
    if (window->rma_shared)
        result = win_sync(window);
    else if (window->provider->sync)
        atomic_thread_fence(
            memory_order_seq_cst); /* MPICH's MPI_Win_sync fails outside of an epoch */
    else
        result = pmpi()->Win_sync(win);
    if (result == MPI_SUCCESS && window->provider->sync)
        result = window->provider->sync(window);
    return window_result(window, result);
}

/* ---- Types ---- */

/* Wrapped because the layer caches the layouts of types. */

WRAP(Type_free)
int MPI_Type_free(MPI_Datatype *type)
{
    if (type)
        type_layout_forget(*type);
    return pmpi()->Type_free(type);
}
