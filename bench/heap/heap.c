/* bench/heap/heap.c: loops that allocate, run by several partners at the same time.
 *
 * usage: heap tasks|processes PARTNERS SCALE
 *
 * A barrier precedes each loop, so that all partners run the same one at once. Prints for each loop
 * "seconds INDEX SECONDS" of the slowest partner and "faults INDEX COUNT", the most page faults of
 * a partner; then "resident 0 BYTES": the growth of all partners' resident memory after everything
 * was freed. SCALE shortens the loops: 1 is the full length, 10 a tenth. */
#include <sys/mman.h>

#include "../lib/workers.h"
#include "../lib/bench.h"

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

enum { PAGE = 4096, SLOTS = 1024, LOOPS = 5 };

struct block {
    struct workers workers;
    int scale;
    /* Each partner writes its own. */
    struct {
        double seconds[LOOPS];
        long faults[LOOPS], resident;
    } partners[WORKERS_MAX];
};

static int scale = 1;
static uint64_t random_state = 88172645463325252u;

static void *checked(void *memory)
{
    if (memory && memory != MAP_FAILED)
        return memory;
    bench_fail("out of memory", NULL);
}

static void touch(void *memory, size_t size)
{
    bench_touch(memory, size);
    ((volatile char *)memory)[size - 1] = 1;
}

static void small(void)
{
    static void *slots[SLOTS];
    for (int i = 0; i < 2000000 / scale; i++) {
        void **slot = &slots[bench_random(&random_state) % SLOTS];
        free(*slot);
        *slot = checked(malloc(16 + bench_random(&random_state) % 240));
        *(volatile char *)*slot = 1;
    }
    for (int i = 0; i < SLOTS; i++) {
        free(slots[i]);
        slots[i] = NULL;
    }
}

static void mixed(void)
{
    static void *slots[SLOTS / 4];
    for (int i = 0; i < 300000 / scale; i++) {
        void **slot = &slots[bench_random(&random_state) % (SLOTS / 4)];
        size_t size = 100 + bench_random(&random_state) % 99900;
        free(*slot);
        *slot = checked(malloc(size));
        touch(*slot, size);
    }
    for (int i = 0; i < SLOTS / 4; i++) {
        free(slots[i]);
        slots[i] = NULL;
    }
}

static void large(void)
{
    for (int i = 0; i < (20 + scale - 1) / scale; i++) {
        void *memory = checked(malloc(64 * MIB));
        touch(memory, 64 * MIB);
        free(memory);
    }
}

static void grow(void)
{
    for (int i = 0; i < (20 + scale - 1) / scale; i++) {
        char *memory = NULL;
        size_t old = 0;
        for (size_t size = 4 * KIB; size <= 32 * MIB; size += size / 2 / PAGE * PAGE + PAGE) {
            memory = checked(realloc(memory, size));
            touch(memory + old, size - old);
            old = size;
        }
        free(memory);
    }
}

static void map(void)
{
    for (int i = 0; i < 20000 / scale; i++) {
        void *memory = checked(
            mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        touch(memory, 64 * KIB);
        munmap(memory, 64 * KIB);
    }
}

/* Not timed: many blocks below malloc's mmap threshold, all freed again. */
static void fill_and_free(void)
{
    static void *blocks[2048];
    for (int i = 0; i < 2048 / scale; i++) {
        blocks[i] = checked(malloc(100 * KIB));
        touch(blocks[i], 100 * KIB);
    }
    for (int i = 0; i < 2048 / scale; i++)
        free(blocks[i]);
}

static void (*const loops[LOOPS])(void) = {small, mixed, large, grow, map};

/* The resident bytes of the address space, which is that of all partners if they are tasks. */
static long resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * PAGE;
}

void worker_run(int number, struct workers *workers)
{
    struct block *block = (struct block *)workers;
    worker_bind(number);
    scale = block->scale;
    workers_barrier(workers); /* all are started */
    long before = resident();
    for (int i = 0; i < LOOPS; i++) {
        workers_barrier(workers);
        long faults = bench_faults(RUSAGE_SELF);
        double start = seconds_now();
        loops[i]();
        block->partners[number].seconds[i] = seconds_now() - start;
        block->partners[number].faults[i] = bench_faults(RUSAGE_SELF) - faults;
    }
    workers_barrier(workers);
    fill_and_free();
    workers_barrier(workers); /* before a partner exits */
    block->partners[number].resident = resident() - before;
    workers_barrier(workers);
}

static void print(const struct block *block)
{
    long resident = 0;
    for (int loop = 0; loop < LOOPS; loop++) {
        double seconds = 0;
        long faults = 0;
        for (int i = 0; i < block->workers.count; i++) {
            double own = block->partners[i].seconds[loop];
            seconds = own > seconds ? own : seconds;
            faults =
                block->partners[i].faults[loop] > faults ? block->partners[i].faults[loop] : faults;
        }
        bench_print("seconds", loop, seconds);
        bench_print("faults", loop, (double)faults);
    }
    /* Each task has seen the whole space. */
    for (int i = 0; i < (block->workers.kind == WORKER_TASKS ? 1 : block->workers.count); i++)
        resident += block->partners[i].resident;
    bench_print("resident", 0, resident > 0 ? (double)resident : 0);
}

int main(int argc, char **argv)
{
    workers_enter(argc, argv);
    enum worker_kind kind = argc == 4 ? worker_kind_by_name(argv[1]) : WORKER_KINDS;
    if (kind == WORKER_KINDS || kind == WORKER_THREADS || atoi(argv[3]) < 1)
        return fprintf(stderr, "usage: heap tasks|processes PARTNERS SCALE\n"), 2;
    struct block *block = workers_allocate(sizeof(*block));
    block->scale = atoi(argv[3]);
    workers_start(kind, atoi(argv[2]), &block->workers);
    for (int i = 0; i < 1 + LOOPS + 3; i++) /* the workers' barriers */
        workers_barrier(&block->workers);
    workers_join();
    print(block);
    return 0;
}
