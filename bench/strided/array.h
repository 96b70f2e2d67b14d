/* bench/strided/array.h: an array that one worker makes and another one finds, in each of the ways.
 */
#ifndef BENCH_ARRAY_H
#define BENCH_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#define ARRAY_HUGE ((size_t)2 << 20)

/* The first three by the names of crew.h. */
enum array_way { ARRAY_THREADS, ARRAY_TASKS, ARRAY_PROCESSES, ARRAY_XPMEM, ARRAY_WAYS };

struct array { /* in memory that both workers see; written by the maker before they meet */
    enum array_way way;
    size_t size, page; /* bytes: a multiple of ARRAY_HUGE; 4096 or ARRAY_HUGE */
    char name[64];     /* of the shared memory, given by the program */
    int *address;      /* the maker's */
    int64_t segment;   /* XPMEM's */
    char missing[200]; /* why the array cannot be had in this way, or empty */
};

/* The way of that name (threads, tasks, processes, xpmem), or ARRAY_WAYS. */
enum array_way array_way_of(const char *name);

/* Maps the array in pages of the wanted size and writes to all of it. */
void array_make(struct array *array);
/* The array where the caller sees it. */
volatile int *array_find(const struct array *array);
/* Takes the shared memory's name back. */
void array_end(const struct array *array);

#endif
