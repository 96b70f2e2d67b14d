/* bench/strided/strided.c: the time of each access to an array created by another worker.
 *
 * usage: strided threads|tasks|processes read|write PAGE_BYTES ARRAY_BYTES FIRST LAST
 *
 * Worker 0 creates the array, in pages of 4 KiB or 2 MiB, and writes to all of it; then worker 1
 * reads or writes one integer of every cache line. Threads and tasks use worker 0's address;
 * processes map POSIX shared memory. Prints
 *   at OFFSET SECONDS       each access with FIRST <= offset < LAST
 *   first 0 SECONDS         the mean of first accesses to their 4 KiB
 *   others 0 SECONDS        the mean of the others
 *   mean 0 SECONDS          over all accesses
 *   timer 0 SECONDS         the mean of timing nothing
 *   faults 0 COUNT          page faults of worker 1
 * (accesses of more than 50 us, interrupted by the system, are left out of the means)
 * or "skip REASON" if such pages cannot be had here. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "../lib/workers.h"
#include "../lib/bench.h"

#define INTERRUPTED_S 50e-6
#define HUGE_PAGE     ((size_t)2 << 20)

enum { STRIDE = 64, PAGE = 4096, WARM_UP = 512, TIMER_ROUNDS = 1000 };

struct array {         /* visible to both workers; written by the creator before their barrier */
    int is_shared;     /* in POSIX shared memory, which processes map; others use the address */
    size_t size, page; /* bytes: a multiple of HUGE_PAGE; 4096 or HUGE_PAGE */
    char name[64];     /* of the shared memory */
    int *address;      /* in the creator */
    char missing[200]; /* why such pages are unavailable, or empty */
};

struct block {
    struct workers workers;
    struct array array;
    int writes;
    double seconds, span_ticks; /* the same span in both units, for conversion */
    double timer;               /* ticks of timing nothing */
    long faults;
    uint32_t ticks[]; /* of each access */
};

/* ---- The array. The page size is verified with the kernel, not assumed ---- */

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* Maps `size` bytes at a multiple of 2 MiB; fd -1: private anonymous memory. */
static int *map_aligned(const struct array *array, int fd)
{
    char *room = mmap(NULL, array->size + HUGE_PAGE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        worker_fail("no room for the array", errno);
    room += -(uintptr_t)room % HUGE_PAGE;
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *memory = mmap(room, array->size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
    if (memory == MAP_FAILED)
        worker_fail("the array cannot be mapped", errno);
    madvise(memory, array->size, array->page == HUGE_PAGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory;
}

static int open_shared(const struct array *array, int flags)
{
    int fd = shm_open(array->name, O_RDWR | flags, 0600);
    if (fd < 0)
        worker_fail(array->name, errno);
    return fd;
}

static int *map_shared(const struct array *array)
{
    int fd = open_shared(array, O_CREAT | O_EXCL);
    if (ftruncate(fd, (off_t)array->size) != 0)
        worker_fail("the size of the shared memory", errno);
    int *memory = map_aligned(array, fd);
    close(fd);
    return memory;
}

/* Bytes of the mapping at `memory` that are mapped by 2 MiB entries. */
static size_t in_huge_pages(const int *memory)
{
    char line[512];
    int inside = 0;
    size_t sum = 0, kib;
    FILE *file = fopen("/proc/thread-self/smaps", "r");
    while (file && fgets(line, sizeof(line), file)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = start <= (uintptr_t)memory && (uintptr_t)memory < end;
        else if (inside && (sscanf(line, "AnonHugePages: %zu", &kib) == 1 ||
                            sscanf(line, "ShmemPmdMapped: %zu", &kib) == 1))
            sum += kib * 1024;
    }
    if (file)
        fclose(file);
    return sum;
}

static void fill(const struct array *array)
{
    for (size_t i = 0; i < array->size / sizeof(int); i++)
        array->address[i] = (int)i;
}

/* Unless the administrator enabled more, shared memory gets huge pages only by collapsing. */
static void make_huge(struct array *array)
{
    if (array->is_shared) {
        madvise(array->address, array->size, MADV_COLLAPSE);
        fill(array);
    }
    size_t huge = in_huge_pages(array->address);
    if (huge < array->size)
        snprintf(array->missing, sizeof(array->missing),
                 "only %zu of %zu MiB are in pages of 2 MiB: wants free memory, Linux 6.1, and not "
                 "\"never\" in /sys/kernel/mm/transparent_hugepage/enabled",
                 huge >> 20, array->size >> 20);
}

/* Maps the array in pages of the wanted size and writes to all of it. */
static void array_create(struct array *array)
{
    array->address = array->is_shared ? map_shared(array) : map_aligned(array, -1);
    fill(array);
    if (array->page == HUGE_PAGE)
        make_huge(array);
}

/* The address of the array in the caller. */
static volatile int *array_attach(const struct array *array)
{
    if (!array->is_shared)
        return array->address;
    int fd = open_shared(array, 0);
    int *memory = map_aligned(array, fd);
    close(fd);
    return memory;
}

/* ---- Accesses ---- */

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
    long faults = bench_faults(RUSAGE_THREAD);
    uint64_t start_ticks = ticks_now();
    double start = seconds_now();
    run(array, count, block->writes, block->ticks);
    block->seconds = seconds_now() - start;
    block->span_ticks = (double)(ticks_now() - start_ticks);
    block->faults = bench_faults(RUSAGE_THREAD) - faults;
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
        array_create(&block->array);
    workers_barrier(workers); /* the array exists */
    if (number == 1 && !*block->array.missing) {
        volatile int *array = array_attach(&block->array);
        access_array(block, array);
    }
    workers_barrier(workers); /* the array is no longer needed */
}

/* The mean of the selected accesses, without those that the system interrupted. */
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
    enum worker_kind kind = argc == 7 ? worker_kind_by_name(argv[1]) : WORKER_KINDS;
    if (argc == 7) {
        array.page = strtoul(argv[3], NULL, 10);
        array.size = strtoul(argv[4], NULL, 10);
        array.is_shared = kind == WORKER_PROCESSES;
    }
    int writes = argc == 7 && strcmp(argv[2], "write") == 0;
    if (kind == WORKER_KINDS || (!writes && strcmp(argv[2], "read") != 0) ||
        (array.page != PAGE && array.page != HUGE_PAGE) || !array.size || array.size % HUGE_PAGE) {
        fprintf(stderr, "usage: strided threads|tasks|processes read|write 4096|2097152 "
                        "ARRAY_BYTES FIRST LAST\nARRAY_BYTES: whole 2 MiB\n");
        return 2;
    }
    struct block *block =
        workers_allocate(sizeof(*block) + array.size / STRIDE * sizeof(block->ticks[0]));
    block->array = array;
    block->writes = writes;
    snprintf(block->array.name, sizeof(block->array.name), "/onespace-strided-%d", getpid());
    workers_start(kind, 2, &block->workers);
    workers_barrier(&block->workers);
    workers_barrier(&block->workers);
    if (array.is_shared)
        shm_unlink(block->array.name);
    workers_join();
    if (*block->array.missing)
        printf("skip %s\n", block->array.missing);
    else
        print(block, atol(argv[5]), atol(argv[6]));
    return 0;
}
