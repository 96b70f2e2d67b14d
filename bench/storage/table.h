/* bench/storage/table.h: a hash table that is spread over the ranks of MPI_COMM_WORLD and lives in
 * their windows.
 *
 * Each rank has slots, and a heap for what collides. Whoever adds a value does all of the work, by
 * atomic operations on the windows of the rank that the value belongs to (Gerstenberger, Besta,
 * Hoefler, "Enabling highly-scalable remote memory access programming with MPI-3 one sided", SC
 * 2013, section 4.1). Values are not negative. */
#ifndef BENCH_STORAGE_TABLE_H
#define BENCH_STORAGE_TABLE_H

#include "window.h"

#include <stdint.h>

/* In the file as in memory. */
struct element {
    int64_t value; /* NOTHING: the slot is empty */
    int64_t next;  /* place of the next element of the slot, NOTHING: none */
};

enum { NOTHING = -1 };

struct table {
    long slots, heap;       /* of each rank: elements [0, slots) and [slots, slots + heap) */
    struct window elements; /* of the kind that is asked for */
    struct window last; /* in memory: the place of each slot's last element, behind one word: how
                           many of the heap are taken */
    int rank, ranks;
};

/* Collective. Empty, or as the files have it that is_kept says are there: then the words in memory
 * are made anew. */
void table_make(struct table *table, const struct window_options *options, long slots, long heap);
void table_free(struct table *table);

/* Collective: what this rank holds is on storage. */
void table_sync(struct table *table);

/* Adds the value, once more if it is there. Ends the job when the owner's heap is full. */
void table_insert(struct table *table, int64_t value);

/* Adds the value unless it is there: 1 if it was added. Do not mix with table_insert on values that
 * may be the same. */
int table_add(struct table *table, int64_t value);

int table_has(struct table *table, int64_t value);

/* What this rank holds, by reading it where it lies: how many, and sums that do not depend on the
 * order. An element that is not where it belongs ends the job. */
struct table_digest {
    uint64_t count, sum, mixed;
};
struct table_digest table_digest(struct table *table);
void digest_add(struct table_digest *digest, int64_t value);

uint64_t mix(uint64_t value);
int table_owner(const struct table *table, int64_t value);

#endif
