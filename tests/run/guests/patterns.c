/* patterns SECONDS: four threads allocate, grow and free blocks at random; each block is filled
 * with a pattern of task, thread and block and checked before it is freed. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 32 };

struct block {
    uint64_t *words;
    size_t count;
    uint64_t pattern;
    int mapped;
};

static time_t end;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void fill(struct block *block, size_t from)
{
    for (size_t i = from; i < block->count; i++)
        block->words[i] = block->pattern + i;
}

static void check(const struct block *block)
{
    for (size_t i = 0; i < block->count; i++)
        if (block->words[i] != block->pattern + i) {
            fprintf(stderr, "pid %d: word %zu of %zu at %p: %#lx in place of %#lx\n", getpid(), i,
                    block->count, (void *)&block->words[i], block->words[i], block->pattern + i);
            _exit(9);
        }
}

static void drop(struct block *block)
{
    check(block);
    if (block->mapped)
        munmap(block->words, block->count * 8);
    else
        free(block->words);
    block->words = NULL;
}

/* Sizes from 8 bytes to 1 MiB, each power of two as likely. */
static void take(struct block *block, uint64_t *state, uint64_t number)
{
    block->count = 1 + next_random(state) % (1u << next_random(state) % 18);
    block->pattern = number << 32;
    block->mapped = next_random(state) % 8 == 0;
    block->words = block->mapped ? mmap(NULL, block->count * 8, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                 : malloc(block->count * 8);
    if (!block->words || block->words == MAP_FAILED) {
        fprintf(stderr, "pid %d: out of memory\n", getpid());
        _exit(8);
    }
    fill(block, 0);
}

static void grow(struct block *block)
{
    size_t before = block->count;
    check(block);
    block->count *= 2;
    block->words = block->mapped
                       ? mremap(block->words, before * 8, block->count * 8, MREMAP_MAYMOVE)
                       : realloc(block->words, block->count * 8);
    if (!block->words || block->words == MAP_FAILED)
        _exit(8);
    fill(block, before);
}

static void *churn(void *argument)
{
    struct block blocks[BLOCKS] = {{0}};
    uint64_t state = (uint64_t)getpid() * 2654435761u + (uintptr_t)argument + 1;
    for (uint64_t number = (uintptr_t)argument << 20; time(NULL) < end; number++) {
        struct block *block = &blocks[next_random(&state) % BLOCKS];
        if (!block->words)
            take(block, &state, (uint64_t)getpid() << 8 ^ number);
        else if (block->count < 65536 && next_random(&state) % 4 == 0)
            grow(block);
        else
            drop(block);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].words)
            check(&blocks[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, churn, (void *)i) != 0)
            return 7;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("intact");
    return 0;
}
