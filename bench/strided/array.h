/* bench/strided/array.h: an array that one worker creates and another attaches, in each way. */
#ifndef BENCH_ARRAY_H
#define BENCH_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#define ARRAY_HUGE ((size_t)2 << 20)

/* The first three match the kinds of workers.h. */
enum array_way { ARRAY_THREADS, ARRAY_TASKS, ARRAY_PROCESSES, ARRAY_XPMEM, ARRAY_WAYS };

struct array { /* visible to both workers; written by the creator before their barrier */
    enum array_way way;
    size_t size, page; /* bytes: a multiple of ARRAY_HUGE; 4096 or ARRAY_HUGE */
    char name[64];     /* of the shared memory, given by the program */
    int *address;      /* in the creator */
    int64_t segment;   /* XPMEM's */
    char missing[200]; /* why this way is unavailable, or empty */
};

/* The way of that name (threads, tasks, processes, xpmem), or ARRAY_WAYS. */
enum array_way array_way_of(const char *name);

/* Maps the array in pages of the wanted size and writes to all of it. */
void array_make(struct array *array);
/* The array where the caller sees it. */
volatile int *array_find(const struct array *array);
/* Unlinks the shared memory's name. */
void array_end(const struct array *array);

#endif
