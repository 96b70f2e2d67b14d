/* bench/storage/scattered.c: measures how much is written after stores to a few pages of a large
 * window.
 *
 *   scattered [options of windows] [-b BYTES] [-s STORES] STATE...
 *       "STATE-written STORES BYTES": from the first store to the end of the synchronisation;
 *       "STATE-sync STORES SECONDS".
 *
 * With STATE `fresh` the window has a new file, with `reopened` a file that was written and closed
 * before. With `written` the program has stored to all of the window and synchronised it.
 *
 * The program verifies the file afterwards. */
#include "window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096 };

static long bytes = 512L << 20, stores = 132;
static struct window_options options;

/* Every page at most once: an odd stride visits all 2^n pages. */
static long page_of(long n)
{
    long pages = bytes / PAGE;
    return (n * (pages / stores | 1) + 17 * (n % 7)) % pages;
}

static void fill(struct window *window)
{
    for (long at = 0; at < bytes; at += PAGE)
        memset(window->base + at, (int)(at / PAGE % 251) + 1, PAGE);
    window_sync(window);
}

static void open_window(struct window *window, int is_kept)
{
    struct window_request request = {"scattered", bytes, 1, 0, 0};
    options.is_kept = is_kept;
    window_make(window, &options, &request);
    MPI_Win_lock_all(0, window->handle);
}

static void close_window(struct window *window)
{
    MPI_Win_unlock_all(window->handle);
    window_free(window);
}

static void check(const struct window *window, long round)
{
    unsigned char page[PAGE];
    int file = open(window->path, O_RDONLY);
    if (file < 0)
        fail("cannot open %s: %s", window->path, strerror(errno));
    for (long n = 0; n < stores; n++)
        if (pread(file, page, PAGE, page_of(n) * PAGE) != PAGE || page[0] != 200 + round ||
            page[PAGE - 1] != 200 + round)
            fail("%s does not hold what was stored to its page %ld", window->path, page_of(n));
    close(file);
}

static void measure(const char *state, long round)
{
    struct window window;
    open_window(&window, 0);
    if (strcmp(state, "fresh") != 0)
        fill(&window);
    if (strcmp(state, "reopened") == 0) {
        close_window(&window);
        open_window(&window, 1);
    }
    double before = written_so_far(&options), start;
    for (long n = 0; n < stores; n++)
        memset(window.base + page_of(n) * PAGE, (int)(200 + round), PAGE);
    start = MPI_Wtime();
    window_sync(&window);
    printf("%s-sync %ld %.9f\n", state, stores, MPI_Wtime() - start);
    printf("%s-written %ld %.1f\n", state, stores, written_so_far(&options) - before);
    progress("scattered: %s is done", state);
    close_window(&window);
    if (options.kind >= WINDOW_MMAP)
        check(&window, round);
}

int main(int argc, char **argv)
{
    program_begin(argc, argv, &options,
                  (struct program_option[]){{'b', .number = &bytes}, {'s', .number = &stores}, {0}},
                  "scattered [options] [-b BYTES] [-s STORES] fresh|reopened|written...");
    if (ranks != 1 || stores < 1 || bytes / PAGE < 8 * stores)
        fail(
            "scattered is for one rank, one store or more, and eight pages or more for each store");
    for (int i = optind; i < argc; i++)
        if (strcmp(argv[i], "fresh") != 0 && strcmp(argv[i], "reopened") != 0 &&
            strcmp(argv[i], "written") != 0)
            fail("states are fresh, reopened and written, not \"%s\"", argv[i]);
        else
            measure(argv[i], i - optind);
    MPI_Finalize();
    return 0;
}
