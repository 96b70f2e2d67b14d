/* src/mpi/wrap/rma.c: wraps MPI's functions that communicate through windows. */
#include "mpi/wrap/wrap.h"

#include <limits.h>

#define ORIGIN                                                                                     \
    {                                                                                              \
        (void *)origin, origin_count, origin_type                                                  \
    }
#define RESULT                                                                                     \
    {                                                                                              \
        result, result_count, result_type                                                          \
    }

/* The window, when loads and stores do this put or get, or (wrap_update) this accumulating call. */
static inline struct window *wrap_copy(MPI_Win handle, int rank, enum rma_kind way)
{
    struct window *window = window_find(handle);
    int is_ours = window && (window->rma_shared ||
                             (window->intra_node && intra_node_can_access(window, rank, way)));
    return is_ours ? window : NULL;
}

static inline struct window *wrap_update(MPI_Win handle, int rank)
{
    struct window *window = window_find(handle);
    if (window && window->intra_node)
        intra_node_mark_untracked(window, rank);
    return window && window->rma_shared ? window : NULL;
}

#define FITS(a, b) ((a) <= INT_MAX && (b) <= INT_MAX)

static int refuse_count(MPI_Win win)
{
    pmpi()->Win_call_errhandler(win, MPI_ERR_COUNT);
    return MPI_ERR_COUNT;
}

int wrap_request(struct window *window, int result, MPI_Request *request)
{
    if (result == MPI_SUCCESS)
        result = progress_grequest_start(request);
    if (result == MPI_SUCCESS)
        result = pmpi()->Grequest_complete(*request);
    return window_result(window, result);
}

/* Defines MPI_NAME and MPI_RNAME, which returns a request, each of them also with large counts.
 * These differ in the type of their counts and in what is called on windows that are not ours. */
#define WITH_REQUEST(define, name, r_name)                                                         \
    WITH_LARGE(define, name, PLAIN) WITH_LARGE(define, r_name, REQUEST)
#define WITH_LARGE(define, base, WAY)                                                              \
    define(base, base, int, PASS_SMALL, WAY) define(base, base##_c, MPI_Count, PASS_LARGE, WAY)

/* The last parameter and argument, and how the call ends. */
#define PLAIN_PARAMETER
#define PLAIN_ARGUMENT
#define PLAIN_END(window, result)   window_result(window, result)
#define REQUEST_PARAMETER           , MPI_Request *request
#define REQUEST_ARGUMENT            , request
#define REQUEST_END(window, result) wrap_request(window, result, request)

/* The library's function with large counts; without it the one with int counts, if they fit. */
#define PASS_LARGE(name, fits, ...)                                                                \
    (pmpi()->name##_c ? pmpi()->name##_c(__VA_ARGS__)                                              \
     : (fits)         ? pmpi()->name(__VA_ARGS__)                                                  \
                      : refuse_count(win))
#define PASS_SMALL(name, fits, ...) pmpi()->name(__VA_ARGS__)

#define PUT(base, name, count_type, PASS, WAY)                                                     \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *origin, count_type origin_count, MPI_Datatype origin_type,          \
                   int rank, MPI_Aint displacement, count_type count, MPI_Datatype type,           \
                   MPI_Win win WAY##_PARAMETER)                                                    \
    {                                                                                              \
        struct window *window = wrap_copy(win, rank, RMA_PUT);                                     \
        struct buf_desc source = ORIGIN;                                                           \
        if (!window)                                                                               \
            return PASS(base, FITS(origin_count, count), origin, origin_count, origin_type, rank,  \
                        displacement, count, type, win WAY##_ARGUMENT);                            \
        return WAY##_END(window, rma_put(window, &source, rank, displacement, count, type));       \
    }
WITH_REQUEST(PUT, Put, Rput)

#define GET(base, name, count_type, PASS, WAY)                                                     \
    WRAP(name)                                                                                     \
    int MPI_##name(void *origin, count_type origin_count, MPI_Datatype origin_type, int rank,      \
                   MPI_Aint displacement, count_type count, MPI_Datatype type,                     \
                   MPI_Win win WAY##_PARAMETER)                                                    \
    {                                                                                              \
        struct window *window = wrap_copy(win, rank, RMA_GET);                                     \
        struct buf_desc sink = ORIGIN;                                                             \
        if (!window)                                                                               \
            return PASS(base, FITS(origin_count, count), origin, origin_count, origin_type, rank,  \
                        displacement, count, type, win WAY##_ARGUMENT);                            \
        return WAY##_END(window, rma_get(window, &sink, rank, displacement, count, type));         \
    }
WITH_REQUEST(GET, Get, Rget)

#define ACCUMULATE(base, name, count_type, PASS, WAY)                                              \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *origin, count_type origin_count, MPI_Datatype origin_type,          \
                   int rank, MPI_Aint displacement, count_type count, MPI_Datatype type,           \
                   MPI_Op op, MPI_Win win WAY##_PARAMETER)                                         \
    {                                                                                              \
        struct window *window = wrap_update(win, rank);                                            \
        struct buf_desc source = ORIGIN;                                                           \
        if (!window)                                                                               \
            return PASS(base, FITS(origin_count, count), origin, origin_count, origin_type, rank,  \
                        displacement, count, type, op, win WAY##_ARGUMENT);                        \
        return WAY##_END(                                                                          \
            window, rma_accumulate(window, &source, NULL, rank, displacement, count, type, op));   \
    }
WITH_REQUEST(ACCUMULATE, Accumulate, Raccumulate)

#define GET_ACCUMULATE(base, name, count_type, PASS, WAY)                                          \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *origin, count_type origin_count, MPI_Datatype origin_type,          \
                   void *result, count_type result_count, MPI_Datatype result_type, int rank,      \
                   MPI_Aint displacement, count_type count, MPI_Datatype type, MPI_Op op,          \
                   MPI_Win win WAY##_PARAMETER)                                                    \
    {                                                                                              \
        struct window *window = wrap_update(win, rank);                                            \
        struct buf_desc source = ORIGIN, sink = RESULT;                                            \
        if (!window)                                                                               \
            return PASS(base, FITS(origin_count, count) && FITS(result_count, 0), origin,          \
                        origin_count, origin_type, result, result_count, result_type, rank,        \
                        displacement, count, type, op, win WAY##_ARGUMENT);                        \
        return WAY##_END(                                                                          \
            window, rma_accumulate(window, &source, &sink, rank, displacement, count, type, op));  \
    }
WITH_REQUEST(GET_ACCUMULATE, Get_accumulate, Rget_accumulate)

WRAP(Fetch_and_op)
int MPI_Fetch_and_op(const void *origin, void *result, MPI_Datatype type, int rank,
                     MPI_Aint displacement, MPI_Op op, MPI_Win win)
{
    struct window *window = wrap_update(win, rank);
    struct buf_desc source = {(void *)origin, 1, type}, sink = {result, 1, type};
    if (!window)
        return pmpi()->Fetch_and_op(origin, result, type, rank, displacement, op, win);
    return window_result(window,
                         rma_accumulate(window, &source, &sink, rank, displacement, 1, type, op));
}

WRAP(Compare_and_swap)
int MPI_Compare_and_swap(const void *origin, const void *compare, void *result, MPI_Datatype type,
                         int rank, MPI_Aint displacement, MPI_Win win)
{
    struct window *window = wrap_update(win, rank);
    if (!window)
        return pmpi()->Compare_and_swap(origin, compare, result, type, rank, displacement, win);
    return window_result(
        window, rma_compare_and_swap(window, origin, compare, result, type, rank, displacement));
}
