/* src/mpi/wrap/window.c: wraps MPI's functions that create, free and describe windows. */
#include <limits.h>

#include "mpi/lifetime/create.h"
#include "mpi/lifetime/free.h"
#include "mpi/rma/count.h"
#include "mpi/storage/memory.h"
#include "mpi/wrap/wrap.h"

/* For a library without large counts. What does not fit becomes 0, which the library refuses. */
static int small_unit(MPI_Aint unit)
{
    return unit > INT_MAX ? 0 : (int)unit;
}

WRAP(Win_allocate)
int MPI_Win_allocate(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr,
                     MPI_Win *win)
{
    int is_ours, result = create_window("MPI_Win_allocate", size, disp_unit, info, comm, 0, baseptr,
                                        win, &is_ours);
    return is_ours ? result : real()->Win_allocate(size, disp_unit, info, comm, baseptr, win);
}

WRAP(Win_allocate_shared)
int MPI_Win_allocate_shared(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
                            void *baseptr, MPI_Win *win)
{
    int is_ours, result = create_window("MPI_Win_allocate_shared", size, disp_unit, info, comm, 1,
                                        baseptr, win, &is_ours);
    return is_ours ? result
                   : real()->Win_allocate_shared(size, disp_unit, info, comm, baseptr, win);
}

WRAP(Win_free)
int MPI_Win_free(MPI_Win *win)
{
    struct window *window = window_find(*win);
    if (!window) {
        storage_memory_detach(*win, NULL);
        return real()->Win_free(win);
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

/* The part of a rank; MPI_PROC_NULL means the first rank that has any memory. NULL: no rank has. */
static const struct direct_rank *find_part(const struct window *window, int *rank)
{
    const struct direct_rank *parts = window->direct->rank;
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
    struct window *window = wrap_direct(win);
    if (!window)
        return real()->Win_shared_query(win, rank, size, disp_unit, baseptr);
    if (rank != MPI_PROC_NULL && (rank < 0 || rank >= window->group->ranks))
        return window_result(window, MPI_ERR_RANK);
    const struct direct_rank *part = find_part(window, &rank);
    if (part)
        direct_lend(window, rank);
    *size = part ? (MPI_Aint)part->size : 0;
    *disp_unit = part ? part->disp_unit : 1;
    *(void **)baseptr = !part ? NULL : window->bases ? window->bases[rank] : part->base;
    return MPI_SUCCESS;
}

/* The predefined attributes of the layer's windows; those of the handle are an empty window's. */
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
        return real()->Win_get_attr(win, keyval, value, flag);
    *flag = 1;
    return MPI_SUCCESS;
}

/* Fortran gets the value where C gets a pointer to it. */
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
        static fortran_get_attr *_Atomic mpi_own; /* all threads store the same */                 \
        if (find_value(real()->Win_f2c(*win), *keyval, value)) {                                   \
            *flag = 1;                                                                             \
            if (error)                                                                             \
                *error = MPI_SUCCESS;                                                              \
            return;                                                                                \
        }                                                                                          \
        if (!mpi_own)                                                                              \
            mpi_own = (fortran_get_attr *)real_symbol(#name);                                      \
        mpi_own(win, keyval, value, flag, error);                                                  \
    }
WRAP_FORTRAN(mpi_win_get_attr_)
WRAP_FORTRAN(pmpi_win_get_attr_)
#else
/* MPICH's bindings call this function; kind is an enum: the form in which they want the value. */
__attribute__((visibility("default"))) int MPII_Win_get_attr(MPI_Win win, int keyval, void *value,
                                                             int *flag, int kind);
int MPII_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag, int kind)
{
    static int (*_Atomic mpi_own)(MPI_Win, int, void *, int *, int);
    /* Fortran's predefined keys follow C's. */
    if (find_value(win, keyval, value) || find_value(win, keyval - 1, value)) {
        *flag = 1;
        return MPI_SUCCESS;
    }
    if (!mpi_own)
        mpi_own = (int (*)(MPI_Win, int, void *, int *, int))real_symbol("MPII_Win_get_attr");
    return mpi_own(win, keyval, value, flag, kind);
}
#endif

WRAP(Win_get_group)
int MPI_Win_get_group(MPI_Win win, MPI_Group *group)
{
    struct window *window = wrap_direct(win);
    if (!window)
        return real()->Win_get_group(win, group);
    return window_result(window, real()->Group_union(window->mpi_group, MPI_GROUP_EMPTY, group));
}

WRAP(Win_get_info)
int MPI_Win_get_info(MPI_Win win, MPI_Info *info)
{
    struct window *window = window_find(win);
    int result = real()->Win_get_info(win, info);
    if (window && result == MPI_SUCCESS && window->provider->describe)
        result = window_result(window, window->provider->describe(window, *info));
    return result;
}

WRAP(Win_allocate_c)
int MPI_Win_allocate_c(MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                       void *baseptr, MPI_Win *win)
{
    int is_ours, result = create_window("MPI_Win_allocate_c", size, disp_unit, info, comm, 0,
                                        baseptr, win, &is_ours);
    if (is_ours)
        return result;
    if (real()->Win_allocate_c)
        return real()->Win_allocate_c(size, disp_unit, info, comm, baseptr, win);
    return real()->Win_allocate(size, small_unit(disp_unit), info, comm, baseptr, win);
}

WRAP(Win_allocate_shared_c)
int MPI_Win_allocate_shared_c(MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                              void *baseptr, MPI_Win *win)
{
    int is_ours, result = create_window("MPI_Win_allocate_shared_c", size, disp_unit, info, comm, 1,
                                        baseptr, win, &is_ours);
    if (is_ours)
        return result;
    if (real()->Win_allocate_shared_c)
        return real()->Win_allocate_shared_c(size, disp_unit, info, comm, baseptr, win);
    return real()->Win_allocate_shared(size, small_unit(disp_unit), info, comm, baseptr, win);
}

WRAP(Win_shared_query_c)
int MPI_Win_shared_query_c(MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *disp_unit,
                           void *baseptr)
{
    int unit = 0;
    if (!window_find(win) && real()->Win_shared_query_c)
        return real()->Win_shared_query_c(win, rank, size, disp_unit, baseptr);
    int result = MPI_Win_shared_query(win, rank, size, &unit, baseptr);
    if (result == MPI_SUCCESS)
        *disp_unit = unit;
    return result;
}
