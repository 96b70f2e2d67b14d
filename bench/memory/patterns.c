/* bench/memory/patterns.c: allocates and frees blocks of all sizes, and stops after each phase.
 *
 * usage: patterns NUMBER
 *
 * Plain libc calls only: the same binary runs as a process and as a task. */

#include "../lib/bench.h"

enum {
    SMALL = 60000,    /* blocks of 16 to 815 bytes */
    MEDIUM = 400,     /* blocks of 1 to 100 KB */
    LARGE = 12 << 20, /* arrays */
    STEPS = 5,
};

static uint64_t state = 88172645463325252u;

static size_t below(size_t bound)
{
    return bench_random(&state) % bound;
}

static void *filled(size_t size)
{
    void *memory = bench_allocate(size);
    bench_touch(memory, size);
    return memory;
}

/* Every other one: what is free lies between blocks in use. */
static void free_half(void **blocks, int count)
{
    for (int i = 0; i < count; i += 2) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void free_all(void **blocks, int count)
{
    while (count-- > 0)
        free(blocks[count]);
}

int main(int argc, char **argv)
{
    static void *small[SMALL], *medium[MEDIUM];
    int number = argc > 1 ? atoi(argv[1]) : 0;
    bench_point("start", number);
    for (int i = 0; i < SMALL; i++)
        small[i] = filled(16 + below(800));
    bench_point("small", number);
    free_half(small, SMALL);
    for (int i = 0; i < MEDIUM; i++)
        medium[i] = filled(1000 + below(99000));
    bench_point("medium", number);
    free_all(medium, MEDIUM);
    bench_point("freed", number);
    char *value = filled(LARGE);
    for (int i = 0; i < STEPS; i++) { /* as an interpreter computes an expression of arrays */
        char *sum = filled(LARGE), *shifted = filled(LARGE), *product = filled(LARGE);
        free(sum);
        free(shifted);
        char *next = filled(LARGE);
        free(product);
        free(value);
        value = next;
    }
    bench_point("arrays", number);
    free(value);
    free_all(small, SMALL);
    bench_point("end", number);
    return 0;
}
