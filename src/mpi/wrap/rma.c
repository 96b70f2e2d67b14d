/* src/mpi/wrap/rma.c: wraps MPI's functions that communicate through windows. */
#include "mpi/wrap/wrap.h"

#include <limits.h>

#define ORIGIN                                                                                     \
    {                                                                                              \
        (void *)origin_addr, origin_count, origin_datatype                                         \
    }
#define RESULT                                                                                     \
    {                                                                                              \
        result, result_count, result_datatype                                                      \
    }

/* The window if loads and stores do this put or get; NULL: MPI does it. */
static inline struct window *find_copy_window(MPI_Win handle, int target_rank, enum rma_kind kind)
{
    struct window *window = window_find(handle);
    int is_ours =
        window && (window->rma_shared ||
                   (window->intra_node && intra_node_can_access(window, target_rank, kind)));
    return is_ours ? window : NULL;
}

/* The same for an accumulating call. */
static inline struct window *find_update_window(MPI_Win handle, int target_rank)
{
    struct window *window = window_find(handle);
    if (window && window->intra_node)
        intra_node_mark_untracked(window, target_rank);
    return window && window->rma_shared ? window : NULL;
}

#define FITS(a, b) ((a) <= INT_MAX && (b) <= INT_MAX)

static int fail_count(MPI_Win win)
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

/* Defines MPI_NAME and MPI_RNAME, which returns a request, each also with large counts. These
 * differ in the type of the counts and in the call that serves windows of the MPI library. */
#define WITH_REQUEST(define, name, r_name)                                                         \
    WITH_LARGE(define, name, PLAIN) WITH_LARGE(define, r_name, REQUEST)
#define WITH_LARGE(define, base, FORM)                                                             \
    define(base, base, int, PASS_SMALL, FORM) define(base, base##_c, MPI_Count, PASS_LARGE, FORM)

/* The last parameter and argument, and the end of the call. */
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
                      : fail_count(win))
#define PASS_SMALL(name, fits, ...) pmpi()->name(__VA_ARGS__)

#define PUT(base, name, count_type, PASS, FORM)                                                    \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *origin_addr, count_type origin_count, MPI_Datatype origin_datatype, \
                   int target_rank, MPI_Aint target_disp, count_type target_count,                 \
                   MPI_Datatype target_datatype, MPI_Win win FORM##_PARAMETER)                     \
    {                                                                                              \
        struct window *window = find_copy_window(win, target_rank, RMA_PUT);                       \
        struct buf_desc source = ORIGIN;                                                           \
        if (!window)                                                                               \
            return PASS(base, FITS(origin_count, target_count), origin_addr, origin_count,         \
                        origin_datatype, target_rank, target_disp, target_count, target_datatype,  \
                        win FORM##_ARGUMENT);                                                      \
        return FORM##_END(window, rma_put(window, &source, target_rank, target_disp, target_count, \
                                          target_datatype));                                       \
    }
WITH_REQUEST(PUT, Put, Rput)

#define GET(base, name, count_type, PASS, FORM)                                                    \
    WRAP(name)                                                                                     \
    int MPI_##name(void *origin_addr, count_type origin_count, MPI_Datatype origin_datatype,       \
                   int target_rank, MPI_Aint target_disp, count_type target_count,                 \
                   MPI_Datatype target_datatype, MPI_Win win FORM##_PARAMETER)                     \
    {                                                                                              \
        struct window *window = find_copy_window(win, target_rank, RMA_GET);                       \
        struct buf_desc sink = ORIGIN;                                                             \
        if (!window)                                                                               \
            return PASS(base, FITS(origin_count, target_count), origin_addr, origin_count,         \
                        origin_datatype, target_rank, target_disp, target_count, target_datatype,  \
                        win FORM##_ARGUMENT);                                                      \
        return FORM##_END(window, rma_get(window, &sink, target_rank, target_disp, target_count,   \
                                          target_datatype));                                       \
    }
WITH_REQUEST(GET, Get, Rget)

#define ACCUMULATE(base, name, count_type, PASS, FORM)                                             \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *origin_addr, count_type origin_count, MPI_Datatype origin_datatype, \
                   int target_rank, MPI_Aint target_disp, count_type target_count,                 \
                   MPI_Datatype target_datatype, MPI_Op op, MPI_Win win FORM##_PARAMETER)          \
    {                                                                                              \
        struct window *window = find_update_window(win, target_rank);                              \
        struct buf_desc source = ORIGIN;                                                           \
        if (!window)                                                                               \
            return PASS(base, FITS(origin_count, target_count), origin_addr, origin_count,         \
                        origin_datatype, target_rank, target_disp, target_count, target_datatype,  \
                        op, win FORM##_ARGUMENT);                                                  \
        return FORM##_END(window, rma_accumulate(window, &source, NULL, target_rank, target_disp,  \
                                                 target_count, target_datatype, op));              \
    }
WITH_REQUEST(ACCUMULATE, Accumulate, Raccumulate)

#define GET_ACCUMULATE(base, name, count_type, PASS, FORM)                                         \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *origin_addr, count_type origin_count, MPI_Datatype origin_datatype, \
                   void *result, count_type result_count, MPI_Datatype result_datatype,            \
                   int target_rank, MPI_Aint target_disp, count_type target_count,                 \
                   MPI_Datatype target_datatype, MPI_Op op, MPI_Win win FORM##_PARAMETER)          \
    {                                                                                              \
        struct window *window = find_update_window(win, target_rank);                              \
        struct buf_desc source = ORIGIN, sink = RESULT;                                            \
        if (!window)                                                                               \
            return PASS(base, FITS(origin_count, target_count) && FITS(result_count, 0),           \
                        origin_addr, origin_count, origin_datatype, result, result_count,          \
                        result_datatype, target_rank, target_disp, target_count, target_datatype,  \
                        op, win FORM##_ARGUMENT);                                                  \
        return FORM##_END(window, rma_accumulate(window, &source, &sink, target_rank, target_disp, \
                                                 target_count, target_datatype, op));              \
    }
WITH_REQUEST(GET_ACCUMULATE, Get_accumulate, Rget_accumulate)

WRAP(Fetch_and_op)
int MPI_Fetch_and_op(const void *origin_addr, void *result, MPI_Datatype target_datatype,
                     int target_rank, MPI_Aint target_disp, MPI_Op op, MPI_Win win)
{
    struct window *window = find_update_window(win, target_rank);
    struct buf_desc source = {(void *)origin_addr, 1, target_datatype},
                    sink = {result, 1, target_datatype};
    if (!window)
        return pmpi()->Fetch_and_op(origin_addr, result, target_datatype, target_rank, target_disp,
                                    op, win);
    return window_result(window,
                         rma_fetch_and_op(window, &source, &sink, target_rank, target_disp, op));
}

WRAP(Compare_and_swap)
int MPI_Compare_and_swap(const void *origin_addr, const void *compare, void *result,
                         MPI_Datatype target_datatype, int target_rank, MPI_Aint target_disp,
                         MPI_Win win)
{
    struct window *window = find_update_window(win, target_rank);
    if (!window)
        return pmpi()->Compare_and_swap(origin_addr, compare, result, target_datatype, target_rank,
                                        target_disp, win);
    return window_result(window, rma_compare_and_swap(window, origin_addr, compare, result,
                                                      target_datatype, target_rank, target_disp));
}
