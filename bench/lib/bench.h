/* bench/lib/bench.h: code shared by the programs of benchmarks: clocks, options, output lines, and
 * points at which a program waits to be measured. Plain libc calls only: the same binary runs as a
 * process and as a task. Programs of MPI include mpi.h first. */
#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- Clocks ---- */

static inline double seconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* For single accesses. Fenced on both sides, so that the difference of two calls times exactly the
 * code in between. Convert to seconds by a longer span that is also timed with seconds_now(). */
static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
#else
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
#endif
}

/* In a loop that polls. */
static inline void bench_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- Failures and output lines ---- */

/* Prints "PROGRAM: WHAT: WHY" and exits with 1; an MPI job is aborted. */
__attribute__((noreturn)) static inline void bench_fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, what, why ? ": " : "",
            why ? why : "");
#ifdef MPI_VERSION
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized)
        MPI_Abort(MPI_COMM_WORLD, 1);
#endif
    exit(1);
}

/* Zeroed. */
static inline void *bench_allocate(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        bench_fail("out of memory", NULL);
    return memory;
}

/* The same at the beginning of a page. */
static inline void *bench_allocate_pages(size_t size)
{
    size = (size + 4096) / 4096 * 4096;
    void *memory = aligned_alloc(4096, size);
    if (!memory)
        bench_fail("out of memory", NULL);
    return memset(memory, 0, size);
}

/* A line for onespace_bench.py: parse_lines(). */
static inline void bench_print(const char *operation, long x, double value)
{
    printf("%s %ld %.9e\n", operation, x, value);
}

static inline int bench_compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static inline double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), bench_compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* How many calls of so many seconds each take the wanted time, between the bounds. */
static inline long bench_calls(double seconds, double wanted, long least, long most)
{
    double count = seconds > 0 ? wanted / seconds : (double)most;
    return count < (double)least ? least : count > (double)most ? most : (long)count;
}

/* ---- Memory ---- */

/* Pseudo-random, from a state that is not 0. */
static inline uint64_t bench_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* Writes to every page. Volatile, so that the compiler keeps the stores and the allocation. */
static inline void bench_touch(void *memory, size_t size)
{
    for (size_t at = 0; at < size; at += 4096)
        ((volatile char *)memory)[at] = 1;
}

/* Page faults so far of RUSAGE_SELF, the process or task, or of RUSAGE_THREAD. */
static inline long bench_faults(int who)
{
    struct rusage usage;
    return getrusage(who, &usage) == 0 ? usage.ru_minflt + usage.ru_majflt : 0;
}

/* ---- CPUs ---- */

/* How many CPUs the calling thread may use. */
static inline int bench_cpu_count(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

/* The CPU with this number among those that the calling thread may use, round robin. */
static inline int bench_cpu(int number)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        bench_fail("sched_getaffinity", strerror(errno));
    int skip = number % CPU_COUNT(&allowed), cpu = 0;
    while (!CPU_ISSET((size_t)cpu, &allowed) || skip-- > 0)
        cpu++;
    return cpu;
}

/* Binds the calling thread to a CPU. */
static inline void bench_bind(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        bench_fail("cannot bind to a CPU", strerror(errno));
}

/* ---- Options ---- */

/* Common to programs that time batches of operations. `fresh`: the data to send has just been
 * written. */
struct bench_options {
    const char *operations; /* names, comma-separated */
    int batches, fresh;
    double batch_seconds;
};
#define BENCH_OPTIONS "o:b:t:f"
#define BENCH_OPTIONS_INIT(operations)                                                             \
    {                                                                                              \
        operations, 3, 0, 0.01                                                                     \
    }

/* Handles an option found by getopt; 0 if it is not one of BENCH_OPTIONS. */
static inline int bench_option(struct bench_options *options, int option, const char *argument)
{
    if (option == 'o')
        options->operations = argument;
    else if (option == 'b')
        options->batches = atoi(argument);
    else if (option == 't')
        options->batch_seconds = atof(argument) / 1000;
    else if (option == 'f')
        options->fresh = 1;
    else
        return 0;
    return 1;
}

/* Whether a comma-separated list has the name. */
static inline int bench_list_has(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return 1;
    return 0;
}

/* ---- Jobs ---- */

#ifdef MPI_VERSION
/* Collective: the longest of the ranks' times. */
static inline double bench_slowest(double seconds)
{
    double slowest;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Runs the program of a rank, whose lines appear at once. Rank 0 says "done" at the end of a job
 * that succeeded: some jobs hang in MPI_Finalize (onespace_nodes.py). */
static inline int bench_run_job(int argc, char **argv, int (*run)(int argc, char **argv))
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setvbuf(stdout, NULL, _IOLBF, 4096);
    int status = run(argc, argv);
    if (rank == 0 && status == 0)
        puts("done");
    MPI_Barrier(MPI_COMM_WORLD); /* no rank leaves while others still need its progress */
    MPI_Finalize();
    return status;
}
#endif

/* ---- Points ---- */

/* Partner `number` creates $ONESPACE_POINTS/NAME.NUMBER, which holds its process ID, and waits for
 * $ONESPACE_POINTS/NAME.go (onespace_memory.py). The file appears complete, because it is renamed.
 * Without that variable returns at once. */
static inline void bench_point(const char *name, int number)
{
    enum { SHORTEST_US = 5000, LONGEST_US = 160000 };
    const char *directory = getenv("ONESPACE_POINTS");
    char temporary[4096], path[4096];
    if (!directory)
        return;
    snprintf(temporary, sizeof(temporary), "%s/new.%s.%d", directory, name, number);
    snprintf(path, sizeof(path), "%s/%s.%d", directory, name, number);
    FILE *file = fopen(temporary, "w");
    if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0 ||
        rename(temporary, path) != 0)
        bench_fail(path, "cannot be written");
    snprintf(path, sizeof(path), "%s/%s.go", directory, name);
    for (useconds_t pause = SHORTEST_US; access(path, F_OK) != 0;) {
        usleep(pause);
        if (pause < LONGEST_US)
            pause *= 2; /* hundreds of ranks wait on few CPUs */
    }
}

#endif
