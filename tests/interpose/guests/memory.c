/* tests/interpose/guests/memory.c: programs that use memory in all the ways there are. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

#include "programs/scene.h"

#ifndef MAP_32BIT               /* of x86 alone */
#define MAP_32BIT MAP_GROWSDOWN /* is for the kernel to place, too */
#endif

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Allocates `size` bytes in pieces of odd sizes, fills them, checks them and gives them back. */
static void *fill_and_check(void *argument)
{
    size_t size = *(const size_t *)argument, done = 0, count = 0, most = size / 1000 + 1;
    unsigned char **pieces = calloc(most, sizeof(*pieces));
    size_t *sizes = calloc(most, sizeof(*sizes));
    uintptr_t wrong = !pieces || !sizes;
    while (!wrong && done < size && count < most) {
        sizes[count] = 1000 + (done * 7 + count) % 100000;
        if (!(pieces[count] = malloc(sizes[count])))
            return (void *)1;
        memset(pieces[count], (int)(count * 31 + 7) & 255, sizes[count]);
        done += sizes[count++];
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at < sizes[i]; at += 97)
            wrong += pieces[i][at] != ((i * 31 + 7) & 255);
        free(pieces[i]);
    }
    free(pieces);
    free(sizes);
    return (void *)wrong;
}

/* allocate MIB THREADS */
SCENE(allocate)
{
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    size_t size = (size_t)atoi(argv[1]) * 1048576 / (size_t)threads;
    pthread_t thread[64];
    uintptr_t wrong = 0;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, fill_and_check, &size) != 0)
            return 1;
    for (int i = 0; i < threads; i++) {
        void *result;
        pthread_join(thread[i], &result);
        wrong += (uintptr_t)result;
    }
    printf("wrong %lu\n", (unsigned long)wrong);
    return wrong != 0;
}

/* sizes N: blocks of about 64 MiB >> N, one always in use: mappings for small N, heap for large. */
SCENE(sizes)
{
    int shift = argc > 1 ? atoi(argv[1]) : 0, rounds = 4 << shift;
    size_t least = ((size_t)64 << 20 >> shift) * 2 / 3;
    unsigned char *before = NULL;
    for (int i = 0; i <= rounds; i++) {
        size_t size = least + (size_t)i * 2654435761u % least;
        unsigned char *block = malloc(size);
        for (size_t at = 0; block && at < size; at += 1024)
            block[at] = (unsigned char)(shift + 1);
        for (size_t at = 0; before && at < least; at += 1024)
            if (before[at] != shift + 1)
                return printf("changed\n"), 1;
        if (!block)
            return printf("none left\n"), 1;
        free(before);
        before = block;
    }
    free(before);
    printf("sound\n");
    return 0;
}

/* churn MS: allocates and frees all the time. */
SCENE(churn)
{
    double end = now() + atof(argv[argc - 1]) / 1000;
    size_t size = 300000;
    while (now() < end)
        if (fill_and_check(&size))
            return 1;
    printf("sound\n");
    return 0;
}

/* burn MS: until it has had that much CPU time. */
SCENE(burn)
{
    clock_t end = (clock_t)(atof(argv[argc - 1]) / 1000 * CLOCKS_PER_SEC);
    while (clock() < end)
        ;
    return 0;
}

SCENE(sbrk)
{
    enum { SIZE = 10 << 20 };
    if (sbrk((intptr_t)(-(uintptr_t)sbrk(0) & 4095)) == (void *)-1) /* on to a page */
        return 1;
    unsigned char *start = sbrk(0), *got = sbrk(SIZE + 123);
    if (got != start)
        return printf("not at the old break\n"), 1;
    memset(got, 0xab, SIZE + 123);
    if (sbrk(0) != (void *)(start + SIZE + 123))
        return printf("break did not move\n"), 1;
    if (sbrk(-SIZE) != (void *)(start + SIZE + 123) || sbrk(0) != (void *)(start + 123))
        return printf("break did not move back\n"), 1;
    for (int i = 0; i < 123; i++)
        if (start[i] != 0xab)
            return printf("kept memory changed\n"), 1;
    if (sbrk(SIZE) != (void *)(start + 123))
        return printf("did not grow again\n"), 1;
    for (int i = 4096; i < SIZE + 123; i++) /* the kernel keeps the rest of a page */
        if (start[i] != 0)
            return printf("not zero after growing again\n"), 1;
    if (brk(start) != 0 || sbrk(0) != (void *)start)
        return printf("brk did not go back to the start\n"), 1;
    printf("fine\n");
    return 0;
}

/* sbrk-steps: up and down by steps of all sizes; what was written never shows again. */
SCENE(sbrk_steps)
{
    enum { MOST = 1 << 20, STEPS = 3000 };
    unsigned char *start = sbrk(0), *now = start;
    uint32_t random = 1;
    for (int i = 0; i < STEPS; i++) {
        random = random * 1664525u + 1013904223u;
        size_t limit = (size_t)64 << (random >> 28), size = (random >> 8) % limit; /* to 2 MiB */
        unsigned char *next = i % 2 ? now - size : now + size;
        next = next < start ? start : next > start + MOST ? start + MOST : next;
        if (brk(next) != 0 || sbrk(0) != (void *)next)
            return printf("the break is not where it was set\n"), 1;
        /* The kernel keeps the rest of a page. */
        for (unsigned char *at = now + (-(uintptr_t)now & 4095); at < next; at++)
            if (*at != 0)
                return printf("step %d, by %td: not zero\n", i, next - now), 1;
        if (next > now)
            memset(now, 0xab, (size_t)(next - now));
        now = next;
    }
    printf("fine\n");
    return 0;
}

/* sbrk-kept KIB: at most so much is resident above a break that has shrunk by much. */
SCENE(sbrk_kept)
{
    enum { SIZE = 10 << 20, PAGES = SIZE / 4096 };
    unsigned char resident[PAGES], *start = sbrk((intptr_t)(-(uintptr_t)sbrk(0) & 4095));
    int kept = 0;
    if (argc < 2 || start == (void *)-1)
        return 1;
    start = sbrk(SIZE);
    memset(start, 1, SIZE);
    if (brk(start) != 0)
        return 1;
    if (mincore(start, SIZE, resident) == 0) /* else nothing is mapped */
        for (int i = 0; i < PAGES; i++)
            kept += resident[i] & 1;
    return kept * 4 <= atoi(argv[1]) ? printf("fine\n"), 0 : printf("%d pages kept\n", kept);
}

/* own-break MS: an allocator on top of sbrk, as programs with their own malloc have it. */
SCENE(own_break)
{
    enum { BLOCK = 40000, BLOCKS = 400 };
    double end = now() + atof(argv[argc - 1]) / 1000;
    unsigned mark = (unsigned)getpid();
    while (now() < end) {
        unsigned *blocks[BLOCKS];
        char *start = sbrk(0);
        for (unsigned b = 0; b < BLOCKS; b++) {
            blocks[b] = sbrk(BLOCK);
            if (blocks[b] == (void *)-1)
                return printf("out of memory\n"), 1;
            for (unsigned i = 0; i < BLOCK / sizeof(unsigned); i += 64)
                blocks[b][i] = mark + b;
        }
        for (unsigned b = 0; b < BLOCKS; b++)
            for (unsigned i = 0; i < BLOCK / sizeof(unsigned); i += 64)
                if (blocks[b][i] != mark + b)
                    return printf("somebody else wrote here\n"), 1;
        if (brk(start) != 0)
            return printf("cannot give back\n"), 1;
    }
    printf("sound\n");
    return 0;
}

SCENE(mremap)
{
    size_t size = 8192;
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Something right behind it, so that it has to move. */
    (void)mmap(at + size, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
               0);
    strcpy(at + 5000, "carried along");
    for (; size < (64u << 20); size *= 2) {
        char *moved = mremap(at, size, size * 2, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED)
            return printf("mremap: %s\n", strerror(errno)), 1;
        at = moved;
        at[size * 2 - 1] = 1;
        if (strcmp(at + 5000, "carried along") != 0)
            return printf("lost\n"), 1;
    }
    printf("carried along\n");
    printf("%p\n", (void *)at);
    fflush(stdout);
    (void)getchar();
    return 0;
}

/* Maps by address: hints, orders, the low 2 GiB and System V memory; ends without unmapping. */
SCENE(outside)
{
    enum { SIZE = 1 << 20 };
    int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    uintptr_t base = 0x7000000000;
    for (unsigned i = 0; i < 64; i++) {
        int how = i % 4 == 0   ? MAP_FIXED
                  : i % 4 == 1 ? MAP_FIXED_NOREPLACE
                  : i % 4 == 2 ? 0
                               : MAP_32BIT;
        void *hint = how == MAP_32BIT ? NULL : (void *)(base + i * 2 * SIZE);
        char *got = mmap(hint, SIZE, prot, flags | how, -1, 0);
        if (got == MAP_FAILED || (hint && got != hint))
            return printf("mapping %u: %p %s\n", i, (void *)got, strerror(errno)), 1;
        memset(got, 1, SIZE);
        if (i % 8 == 0)
            munmap(got + SIZE / 4, SIZE / 4); /* a hole makes two of it */
        if (i % 16 == 1 && mremap(got, SIZE, SIZE / 2, 0) == MAP_FAILED)
            return printf("mremap %u: %s\n", i, strerror(errno)), 1;
    }
    int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
    void *shared = id < 0 ? NULL : shmat(id, NULL, 0);
    void *placed = id < 0 ? NULL : shmat(id, (void *)(base - 16 * SIZE), 0);
    shmctl(id, IPC_RMID, NULL);
    if (shared == (void *)-1 || placed == (void *)-1)
        return printf("shmat: %s\n", strerror(errno)), 1;
    printf("mapped\n");
    return 0;
}

/* Frames of 64 KiB, of which little is touched: they step over small guards. */
__attribute__((noinline)) static int sink(int depth)
{
    volatile char frame[65536];
    frame[8] = (char)depth;
    return depth == INT32_MAX ? 0 : sink(depth + 1) + frame[8];
}

SCENE(overflow)
{
    return sink(0);
}

static void *overflow_thread(void *argument)
{
    (void)argument;
    return (void *)(intptr_t)sink(0);
}

SCENE(overflow_thread)
{
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setguardsize(&attr, 1 << 20);
    pthread_create(&thread, &attr, overflow_thread, NULL);
    pthread_join(thread, NULL);
    return 1;
}

/* guard MIB: fills memory with a pattern and looks at it until its standard input ends. */
SCENE(guard)
{
    size_t size = (size_t)atoi(argv[argc - 1]) << 20;
    unsigned char *heap = malloc(size), stack[65536], byte;
    if (!heap)
        return 1;
    memset(heap, 0x5a, size);
    memset(stack, 0x5a, sizeof(stack));
    printf("ready\n");
    if (read(0, &byte, 1) < 0)
        return 1;
    for (size_t i = 0; i < size; i++)
        if (heap[i] != 0x5a || stack[i % sizeof(stack)] != 0x5a)
            return printf("changed\n"), 1;
    printf("unchanged\n");
    return 0;
}

/* hint ADDRESS: asks for memory there, takes what it gets, and looks at it when its standard input
 * has ended. */
SCENE(hint)
{
    enum { SIZE = 1 << 20 };
    void *hint = (void *)strtoull(argv[argc - 1], NULL, 16);
    char byte;
    char *got = mmap(hint, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED)
        return printf("mmap: %s\n", strerror(errno)), 1;
    memset(got, 'w', SIZE);
    printf("%p\n", (void *)got);
    fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    printf("%s\n", got[0] == 'w' && got[SIZE - 1] == 'w' ? "unchanged" : "changed");
    return 0;
}

SCENE(null)
{
    *(volatile int *)8 = 1;
    return 1;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
