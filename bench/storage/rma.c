/* bench/storage/rma.c: one-sided transfers, timed as in the RMA part of the Intel MPI Benchmarks:
 * single (rank 0 to rank 1), both ways, multiple (rank 0 to all) and parallel (every rank to its
 * neighbours); one operation per passive epoch.
 *
 *   rma [options of windows] [-n TIMES] [-o OPERATION[,...]] SIZE...
 *       "OPERATION SIZE SECONDS": the time of one operation
 *
 * The data is verified after each measurement. */
#include "window.h"

#include "../lib/bench.h"

enum { WARM_UP = 5, WINDOW_BYTES_MIN = 4096 };

static long times = 1000;
static const char *wanted;
static struct window_options options;
static struct window window;
static char *origin, *result;

struct operation {
    const char *name;
    void (*once)(int target, long size, int slot);
    int (*is_right)(long size, long done); /* called on the target, or on the origin if is_get */
    enum { SINGLE, BOTH_WAYS, TO_ALL, NEIGHBOURS } shape;
    int is_get;
    int is_word; /* only for a single word of 8 bytes */
};

/* ---- Operations; a target of several ranks has a slot for each ---- */

static void put_once(int target, long size, int slot)
{
    MPI_Put(origin, (int)size, MPI_BYTE, target, slot * size, (int)size, MPI_BYTE, window.handle);
}

static void get_once(int target, long size, int slot)
{
    MPI_Get(result + slot * size, (int)size, MPI_BYTE, target, 0, (int)size, MPI_BYTE,
            window.handle);
}

static void accumulate_once(int target, long size, int slot)
{
    (void)slot;
    MPI_Accumulate(origin, (int)(size / 8), MPI_INT64_T, target, 0, (int)(size / 8), MPI_INT64_T,
                   MPI_SUM, window.handle);
}

static void get_accumulate_once(int target, long size, int slot)
{
    (void)slot;
    MPI_Get_accumulate(origin, (int)(size / 8), MPI_INT64_T, result, (int)(size / 8), MPI_INT64_T,
                       target, 0, (int)(size / 8), MPI_INT64_T, MPI_SUM, window.handle);
}

static void fetch_once(int target, long size, int slot)
{
    (void)size, (void)slot;
    MPI_Fetch_and_op(origin, result, MPI_INT64_T, target, 0, MPI_SUM, window.handle);
}

/* Counts up: each finds the value left by the one before. */
static void swap_once(int target, long size, int slot)
{
    (void)size, (void)slot;
    int64_t old = *(int64_t *)result, new = old + 1;
    MPI_Compare_and_swap(&new, &old, result, MPI_INT64_T, target, 0, window.handle);
    MPI_Win_flush(target, window.handle);
    if (*(int64_t *)result != old)
        fail("compare-and-swap found %lld where the last one had left %lld",
             (long long)*(int64_t *)result, (long long)old);
    *(int64_t *)result = new;
}

/* ---- Verification ---- */

static char pattern(long at)
{
    return (char)(at * 7 + at / 4096 + 1);
}

static int is_pattern(const char *data, long size)
{
    for (long at = 0; at < size; at++)
        if (data[at] != pattern(at))
            return 0;
    return 1;
}

static int put_is_right(long size, long done)
{
    (void)done;
    return is_pattern(window.base, size);
}

static int puts_are_right(long size, long done)
{
    (void)done;
    return is_pattern(window.base, size) && (ranks < 3 || is_pattern(window.base + size, size));
}

static int get_is_right(long size, long done)
{
    (void)done;
    return is_pattern(result, size);
}

static int sum_is_right(long size, long done)
{
    for (long at = 0; at < size / 8; at++)
        if (((uint64_t *)window.base)[at] != ((uint64_t *)origin)[at] * (uint64_t)done)
            return 0;
    return 1;
}

static int count_is_right(long size, long done)
{
    (void)size;
    return *(int64_t *)window.base == done;
}

static const struct operation operations[] = {
    {"put", put_once, put_is_right, SINGLE, 0, 0},
    {"get", get_once, get_is_right, SINGLE, 1, 0},
    {"put-both-ways", put_once, put_is_right, BOTH_WAYS, 0, 0},
    {"get-both-ways", get_once, get_is_right, BOTH_WAYS, 1, 0},
    {"accumulate", accumulate_once, sum_is_right, SINGLE, 0, 0},
    {"get-accumulate", get_accumulate_once, sum_is_right, SINGLE, 0, 0},
    {"fetch-and-op", fetch_once, sum_is_right, SINGLE, 0, 1},
    {"compare-and-swap", swap_once, count_is_right, SINGLE, 0, 1},
    {"put-all", put_once, put_is_right, TO_ALL, 0, 0},
    {"get-all", get_once, get_is_right, TO_ALL, 1, 0},
    {"exchange-put", put_once, puts_are_right, NEIGHBOURS, 0, 0},
    {"exchange-get", get_once, get_is_right, NEIGHBOURS, 1, 0},
};

/* ---- Measuring ---- */

static void epoch(const struct operation *operation, int target, long size, int slot)
{
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window.handle);
    operation->once(target, size, slot);
    MPI_Win_unlock(target, window.handle);
}

static void iterate(const struct operation *operation, long size)
{
    switch (operation->shape) {
    case SINGLE:
        if (rank == 0)
            epoch(operation, 1, size, 0);
        break;
    case BOTH_WAYS:
        if (rank < 2)
            epoch(operation, 1 - rank, size, 0);
        break;
    case TO_ALL:
        for (int target = 1; rank == 0 && target < ranks; target++)
            epoch(operation, target, size, 0);
        break;
    case NEIGHBOURS: /* on both sides; with two ranks they are the same */
        epoch(operation, (rank + 1) % ranks, size, 0);
        if (ranks > 2)
            epoch(operation, (rank + ranks - 1) % ranks, size, 1);
        break;
    }
}

static int is_target(const struct operation *operation)
{
    return operation->shape == NEIGHBOURS || (operation->shape == BOTH_WAYS && rank < 2) ||
           (operation->shape == TO_ALL ? rank > 0 : operation->shape == SINGLE && rank == 1);
}

static int is_origin(const struct operation *operation)
{
    return operation->shape == NEIGHBOURS || rank == 0 ||
           (operation->shape == BOTH_WAYS && rank == 1);
}

static void prepare(const struct operation *operation, long size)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window.handle);
    if (operation->is_get)
        memcpy(window.base, origin, (size_t)size);
    else
        memset(window.base, 0, (size_t)window.bytes);
    MPI_Win_unlock(rank, window.handle);
    memset(result, 0, (size_t)(2 * size));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check(const struct operation *operation, long size, long done)
{
    int is_asked = operation->is_get ? is_origin(operation) : is_target(operation), is_right;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window.handle);
    is_right = !is_asked || operation->is_right(size, done);
    MPI_Win_unlock(rank, window.handle);
    if (!is_right)
        fail("%s of %ld bytes left something else than what was sent", operation->name, size);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void measure(const struct operation *operation, long size)
{
    long count = 256L * (1 << 20) / size;
    count = count > times ? times : count < 20 ? 20 : count;
    prepare(operation, size);
    for (int i = 0; i < WARM_UP; i++)
        iterate(operation, size);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), time;
    for (long i = 0; i < count; i++)
        iterate(operation, size);
    time = bench_slowest(MPI_Wtime() - start) / (double)count;
    check(operation, size, count + WARM_UP);
    if (rank == 0)
        printf("%s %ld %.9f\n", operation->name, size, time);
    progress("rma: %s of %ld bytes is done", operation->name, size);
}

static void prepare_origin(long size)
{
    origin = malloc((size_t)size + 8);
    result = malloc(2 * (size_t)size + 8);
    if (!origin || !result)
        fail("no memory for buffers of %ld bytes", size);
    for (long at = 0; at < size; at++)
        origin[at] = pattern(at);
}

int main(int argc, char **argv)
{
    long largest = 0;
    program_begin(argc, argv, &options,
                  (struct program_option[]){{'n', .number = &times}, {'o', .text = &wanted}, {0}},
                  "rma [options] [-n TIMES] [-o OPERATION,...] SIZE...");
    if (ranks < 2 || optind == argc)
        fail("two ranks at least, and sizes, are needed");
    for (int i = optind; i < argc; i++) {
        long size = number_of(argv[i], "a size");
        if (size < 8 || size % 8)
            fail("sizes are multiples of 8 bytes, not %ld", size);
        largest = size > largest ? size : largest;
    }
    prepare_origin(largest);
    struct window_request request = {"rma", 2 * largest, 1, 0, 0};
    if (request.bytes < WINDOW_BYTES_MIN)
        request.bytes = WINDOW_BYTES_MIN;
    window_make(&window, &options, &request);
    for (size_t k = 0; k < sizeof(operations) / sizeof(*operations); k++)
        for (int i = optind; (!wanted || bench_list_has(wanted, operations[k].name)) && i < argc;
             i++)
            if (!operations[k].is_word || number_of(argv[i], "a size") == 8)
                measure(&operations[k], number_of(argv[i], "a size"));
    window_free(&window);
    MPI_Finalize();
    return 0;
}
