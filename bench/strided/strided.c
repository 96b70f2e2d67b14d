/* bench/strided/strided.c: the time of each access to an array created by another worker.
 *
 * usage: strided threads|tasks|processes|xpmem read|write PAGE_BYTES ARRAY_BYTES FIRST LAST
 *
 * Worker 0 creates the array, in pages of 4 KiB or 2 MiB, and writes to all of it; then worker 1
 * reads or writes one integer of every cache line. Threads and tasks use worker 0's address;
 * processes map POSIX shared memory; xpmem attaches through libxpmem between processes. Prints
 *   at OFFSET SECONDS       each access with FIRST <= offset < LAST
 *   page 0 SECONDS          the median of first accesses to their 4 KiB
 *   inside 0 SECONDS        the median of the others
 *   mean 0 SECONDS          over all accesses
 *   timer 0 SECONDS         the median of timing nothing
 *   faults 0 COUNT          page faults of worker 1
 * (accesses of more than 50 us, interrupted by the system, are left out of the means)
 * or exits with status 77 and the reason why this cannot be measured here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "array.h"
#include "../lib/workers.h"
#include "../lib/bench.h"

#define INTERRUPTED_S 50e-6

enum { STRIDE = 64, PAGE = 4096, WARM_UP = 512, TIMER_ROUNDS = 1000 };

struct block {
    struct workers workers;
    struct array array;
    int writes;
    double seconds, span_ticks; /* the same span in both units, for conversion */
    double timer;               /* ticks of timing nothing */
    long faults;
    uint32_t ticks[]; /* of each access */
};

static long accesses(const struct block *block)
{
    return (long)(block->array.size / STRIDE);
}

static void run(volatile int *array, long count, int writes, uint32_t *ticks)
{
    for (long i = 0; i < count; i++) {
        volatile int *at = &array[(size_t)i * (STRIDE / sizeof(int))];
        uint64_t start = ticks_now();
        if (writes)
            *at = (int)i;
        else
            (void)*at;
        uint64_t span = ticks_now() - start;
        ticks[i] = span < UINT32_MAX ? (uint32_t)span : UINT32_MAX;
    }
}

static long faults_so_far(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static double time_nothing(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < TIMER_ROUNDS; i++) {
        uint64_t start = ticks_now();
        sum += ticks_now() - start;
    }
    return (double)sum / TIMER_ROUNDS;
}

static void timed_run(struct block *block, volatile int *array, long count)
{
    long faults = faults_so_far();
    uint64_t start_ticks = ticks_now();
    double start = seconds_now();
    run(array, count, block->writes, block->ticks);
    block->seconds = seconds_now() - start;
    block->span_ticks = (double)(ticks_now() - start_ticks);
    block->faults = faults_so_far() - faults;
}

/* Touches code, clocks and the memory for the results beforehand, so that all counted faults are
 * those of the array. */
static void access_array(struct block *block, volatile int *array)
{
    static int warm_up[WARM_UP * STRIDE / sizeof(int)];
    memset(block->ticks, 0, (size_t)accesses(block) * sizeof(*block->ticks));
    timed_run(block, warm_up, WARM_UP);
    block->timer = time_nothing();
    timed_run(block, array, accesses(block));
}

void worker_run(int number, struct workers *workers)
{
    struct block *block = (struct block *)workers;
    worker_bind(number);
    if (number == 0)
        array_make(&block->array);
    workers_barrier(workers); /* the array exists */
    if (number == 1 && !*block->array.missing) {
        volatile int *array = array_find(&block->array);
        access_array(block, array);
    }
    workers_barrier(workers); /* the array is no longer needed */
}

/* Of the selected accesses, without those that the system interrupted. */
static double mean(const struct block *block, int (*chosen)(long))
{
    double most = INTERRUPTED_S * block->span_ticks / block->seconds, sum = 0;
    long count = 0;
    for (long i = 0; i < accesses(block); i++)
        if (chosen(i) && block->ticks[i] < most) {
            sum += block->ticks[i];
            count++;
        }
    return count ? sum / (double)count * block->seconds / block->span_ticks : 0;
}

static int is_first(long i)
{
    return i % (PAGE / STRIDE) == 0;
}

static int is_other(long i)
{
    return !is_first(i);
}

static int is_any(long i)
{
    return i >= 0;
}

static void print(const struct block *block, long first, long last)
{
    double tick = block->seconds / block->span_ticks;
    for (long i = first / STRIDE; i < last / STRIDE && i < accesses(block); i++)
        printf("at %ld %.4e\n", i * STRIDE, block->ticks[i] * tick);
    printf("first 0 %.4e\nothers 0 %.4e\nmean 0 %.4e\ntimer 0 %.4e\nfaults 0 %ld\n",
           mean(block, is_first), mean(block, is_other), mean(block, is_any), block->timer * tick,
           block->faults);
}

int main(int argc, char **argv)
{
    workers_enter(argc, argv);
    struct array array = {0};
    if (argc == 7) {
        array.page = strtoul(argv[3], NULL, 10);
        array.size = strtoul(argv[4], NULL, 10);
        array.way = array_way_of(argv[1]);
    }
    int writes = argc == 7 && strcmp(argv[2], "write") == 0;
    if (argc != 7 || (!writes && strcmp(argv[2], "read") != 0) || array.way == ARRAY_WAYS ||
        (array.page != PAGE && array.page != ARRAY_HUGE) || !array.size ||
        array.size % ARRAY_HUGE) {
        fprintf(stderr, "usage: strided threads|tasks|processes|xpmem read|write "
                        "4096|2097152 ARRAY_BYTES FIRST LAST\nARRAY_BYTES: whole 2 MiB\n");
        return 2;
    }
    struct block *block =
        workers_allocate(sizeof(*block) + array.size / STRIDE * sizeof(block->ticks[0]));
    block->array = array;
    block->writes = writes;
    snprintf(block->array.name, sizeof(block->array.name), "/onespace-strided-%d", getpid());
    enum worker_kind kind =
        array.way == ARRAY_XPMEM ? WORKER_PROCESSES : worker_kind_by_name(argv[1]);
    workers_start(kind, 2, &block->workers);
    workers_barrier(&block->workers);
    workers_barrier(&block->workers);
    array_end(&block->array);
    workers_join();
    if (*block->array.missing)
        printf("skip %s\n", block->array.missing);
    else
        print(block, atol(argv[5]), atol(argv[6]));
    return 0;
}
