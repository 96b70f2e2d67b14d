/* bench/heap/heap.c: loops that allocate, run by several partners at the same time.
 *
 * usage: heap NUMBER PARTNERS BARRIER_FILE SCALE
 *
 * Each partner is a process or a task of its own; a barrier in BARRIER_FILE precedes each loop, so
 * that all run the same one at once. Prints "LOOP NUMBER SECONDS FAULTS" for each loop, then
 * "resident NUMBER BYTES": the growth of this address space's resident memory after everything was
 * freed.
 * SCALE shortens the loops: 1 is the full length, 10 a tenth. Plain libc calls only: the same
 * binary runs as a process and as a task. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../lib/bench.h"

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

enum { PAGE = 4096, SLOTS = 1024 };

struct shared_barrier {
    _Atomic int ready; /* set by partner 0 after pthread_barrier_init */
    pthread_barrier_t barrier;
};

static struct shared_barrier *shared;
static int scale = 1;
static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void *checked(void *memory)
{
    if (memory && memory != MAP_FAILED)
        return memory;
    bench_fail("out of memory", NULL);
}

/* Volatile, so that the compiler does not elide allocations. */
static void touch(void *memory, size_t size)
{
    for (size_t at = 0; at < size; at += PAGE)
        ((volatile char *)memory)[at] = 1;
    ((volatile char *)memory)[size - 1] = 1;
}

static void small(void)
{
    static void *slots[SLOTS];
    for (int i = 0; i < 2000000 / scale; i++) {
        void **slot = &slots[next_random() % SLOTS];
        free(*slot);
        *slot = checked(malloc(16 + next_random() % 240));
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
        void **slot = &slots[next_random() % (SLOTS / 4)];
        size_t size = 100 + next_random() % 99900;
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

static const struct loop {
    const char *name;
    void (*run)(void);
} loops[] = {{"small", small}, {"mixed", mixed}, {"large", large}, {"grow", grow}, {"mmap", map}};

/* Counted for this partner, task or process. */
static long page_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_minflt : 0;
}

static void wait_for_all(void)
{
    pthread_barrier_wait(&shared->barrier);
}

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

static int open_barrier(const char *path, int number, int partners)
{
    int fd = open(path, O_RDWR);
    if (fd < 0)
        return -1;
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED)
        return -1;
    if (number == 0) {
        pthread_barrierattr_t attributes;
        pthread_barrierattr_init(&attributes);
        pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&shared->barrier, &attributes, (unsigned)partners);
        shared->ready = 1;
    }
    while (!shared->ready)
        usleep(1000);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return fprintf(stderr, "usage: heap NUMBER PARTNERS BARRIER_FILE SCALE\n"), 2;
    int number = atoi(argv[1]);
    scale = atoi(argv[4]) > 0 ? atoi(argv[4]) : 1;
    if (open_barrier(argv[3], number, atoi(argv[2])) != 0)
        return perror("heap: the barrier file"), 1;

    wait_for_all(); /* all are started */
    long before = resident();
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        wait_for_all();
        long faults = page_faults();
        double start = seconds_now();
        loops[i].run();
        double seconds = seconds_now() - start;
        printf("%s %d %.9e %ld\n", loops[i].name, number, seconds, page_faults() - faults);
    }
    wait_for_all();
    fill_and_free();
    wait_for_all(); /* before a partner exits */
    printf("resident %d %ld\n", number, resident() - before);
    fflush(stdout);
    wait_for_all();
    return 0;
}
