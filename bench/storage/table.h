/* bench/storage/table.h: a hash table distributed over the ranks of MPI_COMM_WORLD, in their
 * windows.
 *
 * Each rank has slots, and a heap for collisions. The rank that inserts a value does all of the
 * work, by atomic operations on the windows of the value's owner (Gerstenberger, Besta, Hoefler,
 * "Enabling highly-scalable remote memory access programming with MPI-3 one sided", SC 2013,
 * section 4.1). Values are not negative. */
#ifndef BENCH_STORAGE_TABLE_H
#define BENCH_STORAGE_TABLE_H

#include "window.h"

#include <stdint.h>

/* The same in the file and in memory. */
struct element {
    int64_t value; /* NOTHING: the slot is empty */
    int64_t next;  /* place of the slot's next element, or NOTHING */
};

enum { NOTHING = -1 };

struct table {
    long slots, heap;       /* of each rank: elements [0, slots) and [slots, slots + heap) */
    struct window elements; /* of the requested kind */
    struct window last;     /* in memory: the number of heap elements in use, then the place of each
                               slot's last element */
    int rank, ranks;
};

/* Collective. Opens an empty table, or with is_kept that of the existing files, rebuilding the
 * words in memory. */
void table_make(struct table *table, const struct window_options *options, long slots, long heap);
void table_free(struct table *table);

/* Collective: makes this rank's elements durable. */
void table_sync(struct table *table);

/* Inserts the value; duplicates are allowed. Ends the job if the owner's heap is full. */
void table_insert(struct table *table, int64_t value);

/* Inserts the value unless it is present; 1 if inserted. Must not be mixed with table_insert of
 * equal values. */
int table_add(struct table *table, int64_t value);

int table_has(struct table *table, int64_t value);

/* Summarizes this rank's elements by plain loads: their number, and sums that do not depend on
 * their order. A misplaced element ends the job. */
struct table_digest {
    uint64_t count, sum, mixed;
};
struct table_digest table_digest(struct table *table);
void digest_add(struct table_digest *digest, int64_t value);

uint64_t mix(uint64_t value);
int table_owner(const struct table *table, int64_t value);

#endif
