/* bench/teams/teams.c: the cost of fork and join, with tasks and with OpenMP's threads.
 *
 * usage: teams tasks|openmp WORKERS MILLISECONDS
 *
 * Prints "OPERATION WORKERS SECONDS" for one of each: region (empty), for (a region that is a loop
 * with one iteration per worker), dynamic (the same with dynamic scheduling), barrier and sum (of a
 * double; both within a region). Each worker is bound to a CPU of its own if there are enough. The
 * results are verified: workers, iterations and sums are counted. */
#include <omp.h>
#include <onespace/parallel.h>

#include "../lib/bench.h"

enum { BATCH = 64 };

static int workers;
static double seconds;

static void bind_worker(int number)
{
    if (workers <= bench_cpu_count())
        bench_bind(bench_cpu(number));
}

/* Runs batches until the time is over; returns the seconds of one. The first is a warm-up. */
static double measure(void (*batch)(void *), void *argument)
{
    batch(argument);
    long count = 0;
    double start = seconds_now(), now = start;
    for (; now - start < seconds; count++, now = seconds_now())
        batch(argument);
    return (now - start) / (double)count / BATCH;
}

static void count_up(long *count, long more)
{
    __atomic_fetch_add(count, more, __ATOMIC_RELAXED);
}

/* ---- Tasks ---- */

static struct onespace_parallel *team;

static void check(int result)
{
    if (result != 0)
        bench_fail(strerror(-result), NULL);
}

static int bind_member(struct onespace_parallel *own, void *argument)
{
    (void)argument;
    workers = onespace_parallel_count(own); /* of this task */
    bind_worker(onespace_parallel_number(own));
    return 0;
}

static int count_member(struct onespace_parallel *own, void *argument)
{
    (void)own;
    count_up(argument, 1);
    return 0;
}

static void task_regions(void *argument)
{
    for (int i = 0; i < BATCH; i++)
        check(onespace_parallel_run(team, count_member, argument));
}

static void count_part(long begin, long end, void *argument)
{
    count_up(argument, end - begin);
}

static void task_loops(void *argument)
{
    for (int i = 0; i < BATCH; i++)
        check(onespace_parallel_for(team, 0, workers, ONESPACE_PARALLEL_STATIC, count_part,
                                    argument));
}

static void task_dynamic_loops(void *argument)
{
    for (int i = 0; i < BATCH; i++)
        check(onespace_parallel_for(team, 0, workers, ONESPACE_PARALLEL_DYNAMIC(1), count_part,
                                    argument));
}

static int many_barriers(struct onespace_parallel *own, void *argument)
{
    (void)argument;
    for (int i = 0; i < BATCH; i++)
        check(onespace_parallel_barrier(own));
    return 0;
}

static int many_sums(struct onespace_parallel *own, void *argument)
{
    (void)argument;
    for (int i = 0; i < BATCH; i++) {
        double sum = 1;
        check(onespace_parallel_reduce(own, &sum, 1, ONESPACE_PARALLEL_DOUBLE,
                                       ONESPACE_PARALLEL_SUM));
        if (sum != onespace_parallel_count(own))
            bench_fail("a sum is wrong", NULL);
    }
    return 0;
}

static void task_barriers(void *argument)
{
    check(onespace_parallel_run(team, many_barriers, argument));
}

static void task_sums(void *argument)
{
    check(onespace_parallel_run(team, many_sums, argument));
}

/* ---- Threads ---- */

static void thread_regions(void *argument)
{
    for (int i = 0; i < BATCH; i++)
#pragma omp parallel num_threads(workers)
        count_up(argument, 1);
}

static void thread_loops(void *argument)
{
    for (int i = 0; i < BATCH; i++)
#pragma omp parallel for num_threads(workers) schedule(static)
        for (long at = 0; at < workers; at++)
            count_up(argument, 1);
}

static void thread_dynamic_loops(void *argument)
{
    for (int i = 0; i < BATCH; i++)
#pragma omp parallel for num_threads(workers) schedule(dynamic, 1)
        for (long at = 0; at < workers; at++)
            count_up(argument, 1);
}

static void thread_barriers(void *argument)
{
    (void)argument;
#pragma omp parallel num_threads(workers)
    for (int i = 0; i < BATCH; i++) {
#pragma omp barrier
    }
}

/* A loop with a reduction: one contribution per worker; all may read the sum afterwards. */
static void thread_sums(void *argument)
{
    double sum = 0;
    (void)argument;
#pragma omp parallel num_threads(workers)
    for (int i = 0; i < BATCH; i++) {
#pragma omp for schedule(static) reduction(+ : sum)
        for (int at = 0; at < workers; at++)
            sum += 1;
    }
    if (sum != (double)workers * BATCH)
        bench_fail("a sum is wrong", NULL);
}

int main(int argc, char **argv)
{
    static void (*const batches[2][5])(void *) = {
        {task_regions, task_loops, task_dynamic_loops, task_barriers, task_sums},
        {thread_regions, thread_loops, thread_dynamic_loops, thread_barriers, thread_sums}};
    static const char *const names[] = {"region", "for", "dynamic", "barrier", "sum"};
    static long count;
    int is_openmp = argc == 4 && strcmp(argv[1], "openmp") == 0;
    if (argc != 4 || (!is_openmp && strcmp(argv[1], "tasks") != 0) || atoi(argv[2]) < 1)
        bench_fail("usage: teams tasks|openmp WORKERS MILLISECONDS", NULL);
    workers = atoi(argv[2]);
    seconds = atof(argv[3]) / 1000;
    if (!is_openmp) {
        check(onespace_parallel_init(&team, workers, argv));
        check(onespace_parallel_run(team, bind_member, NULL));
    } else {
#pragma omp parallel num_threads(workers)
        bind_worker(omp_get_thread_num());
    }
    for (int i = 0; i < 5; i++) {
        count = 0;
        batches[is_openmp][i](&count);
        if (i < 3 && count != (long)BATCH * workers)
            bench_fail("a region or loop did not do its work", NULL);
        bench_print(names[i], workers, measure(batches[is_openmp][i], &count));
    }
    if (!is_openmp)
        check(onespace_parallel_fini(team));
    return 0;
}
