/* bench/memory/patterns.c: allocates and frees blocks of all sizes, and stops after each phase.
 *
 * usage: patterns NUMBER
 *
 * After a phase partner NUMBER creates the file $ONESPACE_POINTS/PHASE.NUMBER and waits for
 * $ONESPACE_POINTS/PHASE.go. Plain libc calls only: the same binary runs as a process and as a
 * task. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    SMALL = 60000,    /* blocks of 16 to 815 bytes */
    MEDIUM = 400,     /* blocks of 1 to 100 KB */
    LARGE = 12 << 20, /* arrays */
    STEPS = 5,
};

static unsigned long long state = 88172645463325252u;
static const char *number;

static size_t below(size_t bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % bound;
}

static void *filled(size_t size)
{
    volatile char *memory = malloc(size);
    if (!memory) {
        fprintf(stderr, "patterns: out of memory\n");
        exit(1);
    }
    for (size_t at = 0; at < size; at += PAGE)
        memory[at] = 1;
    return (void *)memory;
}

static void point(const char *phase)
{
    const char *directory = getenv("ONESPACE_POINTS");
    char name[4096];
    if (!directory)
        return;
    snprintf(name, sizeof(name), "%s/%s.%s", directory, phase, number);
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    if (fd < 0) {
        perror(name);
        exit(1);
    }
    close(fd);
    snprintf(name, sizeof(name), "%s/%s.go", directory, phase);
    while (access(name, F_OK) != 0)
        usleep(5000);
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
    number = argc > 1 ? argv[1] : "0";
    point("start");
    for (int i = 0; i < SMALL; i++)
        small[i] = filled(16 + below(800));
    point("small");
    free_half(small, SMALL);
    for (int i = 0; i < MEDIUM; i++)
        medium[i] = filled(1000 + below(99000));
    point("medium");
    free_all(medium, MEDIUM);
    point("freed");
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
    point("arrays");
    free(value);
    free_all(small, SMALL);
    point("end");
    return 0;
}
