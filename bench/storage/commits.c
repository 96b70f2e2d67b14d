/* bench/storage/commits.c: what does a version cost of which few pages are new?
 *
 *   commits [options of windows] [-b BYTES] [-p PERCENT] [-n COMMITS]
 *       "store PERCENT SECONDS", "commit PERCENT SECONDS": medians of the longest rank's;
 *       "read PERCENT BYTES", "written PERCENT BYTES": by the system calls of all ranks, in one
 *       commit.
 *
 * BYTES are those of all ranks. Between two commits each rank stores into PERCENT of its pages, and
 * puts a tenth as many of the next rank's. Three commits, which write everything, come first. A
 * window that has no versions is synchronised instead. */
#include "window.h"

#include "../lib/bench.h"

/* As <onespace/window.h> declares it: the layer's, if there is one. */
extern int onespace_window_commit(MPI_Win win, uint64_t *version) __attribute__((weak));

enum { PAGE = 4096, FIRST = 3, MOST = 101 };

static long bytes = 1L << 30, percent = 1, commits = 7;
static struct window_options options = {.kind = WINDOW_STORAGE};
static uint64_t state = 1;

static long chance(long of)
{
    return (long)(bench_random(&state) % (uint64_t)of);
}

static void change(const struct window *window)
{
    static char page[PAGE];
    long pages = window->bytes / PAGE, count = pages * percent / 100;
    for (long i = 0; i < count; i++)
        memset(window->base + chance(pages) * PAGE, (int)chance(256), PAGE);
    for (long i = 0; i < count / 10; i++) {
        memset(page, (int)chance(256), PAGE);
        MPI_Put(page, PAGE, MPI_BYTE, (rank + 1) % ranks, chance(pages) * PAGE, PAGE, MPI_BYTE,
                window->handle);
    }
    MPI_Win_flush_all(window->handle);
}

static void print_line(const char *what, double *values)
{
    double median = bench_median(values, (int)commits);
    if (rank == 0)
        bench_print(what, percent, median);
}

static void measure(struct window *window)
{
    double store[MOST], commit[MOST], read[MOST], written[MOST];
    for (long i = -FIRST; i < commits; i++) {
        double begun = MPI_Wtime();
        change(window);
        double stored = bench_slowest(MPI_Wtime() - begun);
        double had_read = io_so_far("rchar"), had_written = io_so_far("wchar");
        begun = MPI_Wtime();
        if (window->kind < WINDOW_STORAGE)
            window_sync(window);
        else if (onespace_window_commit(window->handle, NULL) != MPI_SUCCESS)
            fail("there is no version");
        double took = bench_slowest(MPI_Wtime() - begun);
        double has_read = io_so_far("rchar"), has_written = io_so_far("wchar");
        progress("commits: %ld of %ld", i + FIRST, commits + FIRST);
        if (i < 0)
            continue;
        store[i] = stored;
        commit[i] = took;
        read[i] = has_read - had_read;
        written[i] = has_written - had_written;
    }
    print_line("store", store);
    print_line("commit", commit);
    print_line("read", read);
    print_line("written", written);
}

int main(int argc, char **argv)
{
    struct window window;
    program_begin(
        argc, argv, &options,
        (struct program_option[]){
            {'b', .number = &bytes}, {'p', .number = &percent}, {'n', .number = &commits}, {0}},
        "commits [options] [-b BYTES] [-p PERCENT] [-n COMMITS]");
    if (options.kind < WINDOW_MMAP || (options.kind >= WINDOW_STORAGE && !onespace_window_commit))
        fail("commits is for windows with a file, and for versions it needs the layer");
    if (commits < 1 || commits > MOST || percent > 100 || bytes / ranks < PAGE)
        fail("commits makes 1 to %d versions of a page or more on each rank", MOST);
    if (options.kind >= WINDOW_STORAGE)
        options.hints[options.hint_count++] = "storage_alloc_versions=1";
    state += (uint64_t)rank;
    struct window_request request = {"commits", bytes / ranks / PAGE * PAGE, 1, 0, 0};
    window_make(&window, &options, &request);
    MPI_Win_lock_all(0, window.handle);
    measure(&window);
    MPI_Win_unlock_all(window.handle);
    window_free(&window);
    MPI_Finalize();
    return 0;
}
