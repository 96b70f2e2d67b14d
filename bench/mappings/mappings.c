/* bench/mappings/mappings.c: loops that change the memory map, by several workers at the same time.
 *
 * usage: mappings threads|tasks|processes WORKERS LOOP ITERATIONS BYTES...
 *
 * LOOP, each in steps of BYTES:
 *   mmap    maps and unmaps memory
 *   touch   the same, and writes to every page in between
 *   brk     moves the program break up and down again; not for threads, which share one
 *   heap    allocates with malloc until HEAP_BYTES are reached, writes to every page, frees all
 *   enter   two system calls that do nothing: a lower bound for two that change the map
 *
 * The loops that touch pages do at most TOUCHED_PAGES of them. Each worker is bound to a CPU.
 * Prints lines "LOOP BYTES SECONDS": for each step, from the common start to the last one's end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/workers.h"
#include "../lib/bench.h"

enum { PAGE = 4096, TOUCHED_PAGES = 40000, HEAP_BYTES = 8 << 20, SIZES_MAX = 32 };

struct block {
    struct workers workers;
    int loop, size_count;
    long iterations;
    size_t sizes[SIZES_MAX];
    struct {
        double start,
            end; /* written by the worker before a barrier, read by the program after it */
    } times[WORKERS_MAX];
};

static void map(size_t size, int touched)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        worker_fail("mmap", errno);
    if (touched)
        bench_touch(memory, size);
    if (munmap(memory, size) != 0)
        worker_fail("munmap", errno);
}

static void run_mmap(size_t size, long steps)
{
    while (steps-- > 0)
        map(size, 0);
}

static void run_touch(size_t size, long steps)
{
    while (steps-- > 0)
        map(size, 1);
}

static void run_brk(size_t size, long steps)
{
    while (steps-- > 0)
        if (sbrk((intptr_t)size) == (void *)-1 || sbrk(-(intptr_t)size) == (void *)-1)
            worker_fail("sbrk", errno);
}

/* Frees the blocks in an order that lets malloc return their memory. */
static void run_heap(size_t size, long steps)
{
    void **blocks = calloc(HEAP_BYTES / size, sizeof(*blocks));
    for (size_t used = 0; steps > 0; used = 0) {
        for (; used < HEAP_BYTES / size && steps > 0; used++, steps--) {
            if (!blocks || !(blocks[used] = malloc(size)))
                worker_fail("malloc", ENOMEM);
            bench_touch(blocks[used], size);
        }
        while (used > 0)
            free(blocks[--used]);
    }
    free(blocks);
}

static void run_enter(size_t size, long steps)
{
    (void)size;
    for (steps *= 2; steps > 0; steps--)
        syscall(SYS_getppid);
}

static const struct loop {
    const char *name;
    void (*run)(size_t size, long steps);
    int touches;
} loops[] = {{"mmap", run_mmap, 0},
             {"touch", run_touch, 1},
             {"brk", run_brk, 0},
             {"heap", run_heap, 1},
             {"enter", run_enter, 0}};

enum { LOOPS = sizeof(loops) / sizeof(loops[0]) };

static long steps_of(const struct block *block, size_t size)
{
    long most =
        loops[block->loop].touches ? TOUCHED_PAGES / (long)(size / PAGE) : block->iterations;
    most = most > 0 ? most : 1;
    return most < block->iterations ? most : block->iterations;
}

void worker_run(int number, struct workers *workers)
{
    struct block *block = (struct block *)workers;
    const struct loop *loop = &loops[block->loop];
    worker_bind(number);
    for (int i = 0; i < block->size_count; i++) {
        loop->run(block->sizes[i], 8); /* warm up */
        workers_barrier(workers);
        block->times[number].start = seconds_now();
        loop->run(block->sizes[i], steps_of(block, block->sizes[i]));
        block->times[number].end = seconds_now();
        workers_barrier(workers);
    }
}

/* From the first worker's start to the last one's end, by the workers' own clocks: with more
 * workers than CPUs the program itself may not run until they have finished. */
static double elapsed(const struct block *block)
{
    double start = block->times[0].start, end = block->times[0].end;
    for (int i = 1; i < block->workers.count; i++) {
        start = block->times[i].start < start ? block->times[i].start : start;
        end = block->times[i].end > end ? block->times[i].end : end;
    }
    return end - start;
}

static int parse(int argc, char **argv, struct block *block)
{
    for (block->loop = 0; argc > 5 && block->loop < LOOPS; block->loop++)
        if (strcmp(argv[3], loops[block->loop].name) == 0)
            break;
    if (argc <= 5 || block->loop == LOOPS || argc - 5 > SIZES_MAX)
        return -1;
    block->iterations = atol(argv[4]);
    for (int i = 5; i < argc; i++) {
        size_t size = strtoul(argv[i], NULL, 10);
        if (size < PAGE || size % PAGE || size > HEAP_BYTES)
            return -1;
        block->sizes[block->size_count++] = size;
    }
    return block->iterations < 1 ? -1 : 0;
}

int main(int argc, char **argv)
{
    workers_enter(argc, argv);
    struct block *block = workers_allocate(sizeof(*block));
    enum worker_kind kind = argc > 2 ? worker_kind_by_name(argv[1]) : WORKER_KINDS;
    if (kind == WORKER_KINDS || parse(argc, argv, block) != 0 ||
        (kind == WORKER_THREADS && loops[block->loop].run == run_brk)) {
        fprintf(stderr,
                "usage: mappings threads|tasks|processes WORKERS "
                "mmap|touch|brk|heap|enter ITERATIONS BYTES...\n"
                "BYTES: whole pages of %d, %d at most\n",
                PAGE, HEAP_BYTES);
        return 2;
    }
    workers_start(kind, atoi(argv[2]), &block->workers);
    for (int i = 0; i < block->size_count; i++) {
        workers_barrier(&block->workers);
        workers_barrier(&block->workers);
        printf("%s %zu %.9e\n", loops[block->loop].name, block->sizes[i],
               elapsed(block) / (double)steps_of(block, block->sizes[i]));
    }
    workers_join();
    return 0;
}
