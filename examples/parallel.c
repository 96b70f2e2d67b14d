/* examples/parallel.c: tasks in place of threads. Tasks, each with its own globals, sum numbers,
 * once with a loop that is a region of its own and once within a region.
 *
 *   cc parallel.c -o parallel $(pkg-config --cflags --libs onespace)
 *   ./parallel 4
 *
 * Compare Figure 4 of the Process-in-Process paper. */
#include <onespace/parallel.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 100000 };

static long calls; /* one per task: no lock, no `threadprivate` */

struct work {
    double *cells, sum;
};

static void fill(long begin, long end, void *argument)
{
    struct work *work = argument; /* in member 0's memory */
    calls++;
    for (long i = begin; i < end; i++)
        work->cells[i] = 1.0 / (double)((i + 1) * (i + 1));
}

static int add(struct onespace_parallel *team, void *argument)
{
    struct work *work = argument;
    int me = onespace_parallel_number(team), count = onespace_parallel_count(team);
    double sum = 0;
    for (long i = LENGTH - 1 - me; i >= 0; i -= count) /* by hand: every count-th */
        sum += work->cells[i];
    if (onespace_parallel_reduce(team, &sum, 1, ONESPACE_PARALLEL_DOUBLE, ONESPACE_PARALLEL_SUM) ||
        onespace_parallel_reduce(team, &calls, 1, ONESPACE_PARALLEL_LONG, ONESPACE_PARALLEL_SUM))
        return 1;
    if (me == 0)
        work->sum = sum;
    return 0;
}

int main(int argc, char **argv)
{
    struct onespace_parallel *team;
    struct work work = {0};
    void *cells;
    if (onespace_parallel_init(&team, argc > 1 ? atoi(argv[1]) : 0, argv) < 0 ||
        onespace_parallel_shared(team, "cells", LENGTH * sizeof(double), &cells) < 0)
        return 1;
    work.cells = cells;
    if (onespace_parallel_for(team, 0, LENGTH, ONESPACE_PARALLEL_DYNAMIC(1000), fill, &work) < 0 ||
        onespace_parallel_run(team, add, &work) != 0)
        return 1;
    printf("%d tasks filled %ld parts: the sum is %.4f\n", onespace_parallel_count(team), calls,
           work.sum);
    return onespace_parallel_fini(team) < 0;
}
