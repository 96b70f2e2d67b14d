/* tests/run/guests/returned.c: allocates and frees as programs do, and prints after each phase
 * "PHASE KIB": by how much the resident memory of its address space has grown since main began. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096,
    ARRAY = 12 << 20,
    BLOCK = 100000,
    BLOCKS = 600,
    NODE = 400,
    NODES = 50000,
};

/* Not statm, which is off by what the CPUs have not yet added up. */
static long resident(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "Rss: %ld", &kib) == 1)
            break;
    if (file)
        fclose(file);
    if (kib < 0)
        exit(3);
    return kib;
}

static long before;

static void say(const char *phase)
{
    printf("%s %ld\n", phase, resident() - before);
}

static char *filled(size_t size)
{
    char *memory = malloc(size);
    if (!memory)
        exit(2);
    for (size_t at = 0; at < size; at += PAGE)
        memory[at] = 1;
    return memory;
}

/* The arrays of an interpreter's c = (a + b) * a - b: each operation has a result of its own, and
 * operands are freed after their last use. */
static void *arrays(void)
{
    char *value = filled(ARRAY);
    for (int round = 0; round < 5; round++) {
        char *sum = filled(ARRAY), *shifted = filled(ARRAY), *product = filled(ARRAY);
        free(sum);
        free(shifted);
        char *next = filled(ARRAY);
        free(product);
        free(value);
        value = next;
    }
    return value;
}

/* From the end, so that the heap shrinks with each. */
static void free_down(char **blocks, int from, int to)
{
    while (from > to)
        free(blocks[--from]);
}

static void blocks(void)
{
    static char *all[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        all[i] = filled(BLOCK);
    say("blocks");
    free_down(all, BLOCKS, BLOCKS / 2);
    say("half-the-blocks");
    free_down(all, BLOCKS / 2, 0);
    say("no-blocks");
}

static void nodes(void)
{
    static char *all[NODES];
    for (int i = 0; i < NODES; i++)
        all[i] = filled(NODE);
    say("nodes");
    free_down(all, NODES, 0);
    say("no-nodes");
}

int main(void)
{
    static char buffer[BUFSIZ];
    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
    before = resident();
    before = resident(); /* without what the first measurement allocated */
    blocks();
    nodes();
    void *value = arrays();
    say("arrays");
    free(value);
    say("no-arrays");
    nodes();
    return 0;
}
