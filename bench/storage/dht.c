/* bench/storage/dht.c: fills a distributed hash table with random numbers.
 *
 *   dht [options of windows] [-s SLOTS] [-x HEAP] [-n INSERTS]
 *       INSERTS by each rank into SLOTS and SLOTS * HEAP elements on its heap. With X = SLOTS:
 *       "insert X SECONDS", "sync X SECONDS", "table X BYTES". The table is compared with the
 *       numbers. */
#include <stddef.h>

#include "window.h"

#include "../lib/bench.h"

/* ---- The hash table ---- */

/* Distributed over the ranks of MPI_COMM_WORLD, in their windows. Each rank has slots, and a heap
 * for collisions. The rank that inserts a value does all of the work, by atomic operations on the
 * windows of the value's owner (Gerstenberger, Besta, Hoefler, "Enabling highly-scalable remote
 * memory access programming with MPI-3 one sided", SC 2013, section 4.1). All accesses are
 * one-sided, inside an epoch that lasts as long as the table; an element is complete before it
 * becomes reachable. Values are not negative. */

/* The same in the file and in memory. */
struct element {
    int64_t value; /* NO_ELEMENT: the slot is empty */
    int64_t next;  /* place of the slot's next element, or NO_ELEMENT */
};

enum { NO_ELEMENT = -1 };

struct table {
    long slots, heap;       /* of each rank: elements [0, slots) and [slots, slots + heap) */
    struct window elements; /* of the requested kind */
    struct window last;     /* in memory: the number of heap elements in use, then the place of each
                               slot's last element */
};

static uint64_t mix(uint64_t value)
{
    value ^= value >> 31;
    value *= 0x7fb5d329728ea185u;
    value ^= value >> 27;
    value *= 0x81dadef4bc2dd44du;
    return value ^ value >> 33;
}

static int table_owner(int64_t value)
{
    return (int)(mix((uint64_t)value) % (uint64_t)ranks);
}

static long slot_of(const struct table *table, int64_t value)
{
    return (long)(mix((uint64_t)value) / (uint64_t)ranks % (uint64_t)table->slots);
}

/* ---- Words and elements of a rank ---- */

static MPI_Aint value_at(long place)
{
    return place * (MPI_Aint)sizeof(struct element) + (MPI_Aint)offsetof(struct element, value);
}

static MPI_Aint next_at(long place)
{
    return place * (MPI_Aint)sizeof(struct element) + (MPI_Aint)offsetof(struct element, next);
}

/* Word 0 of `last` is the heap's count; the slots' words follow. */
static MPI_Aint last_at(long slot)
{
    return (slot + 1) * (MPI_Aint)sizeof(int64_t);
}

/* Compare-and-swap of the word at `at`; returns its previous value. */
static int64_t swap_if(struct window *window, int owner, MPI_Aint at, int64_t old, int64_t new)
{
    int64_t found;
    MPI_Compare_and_swap(&new, &old, &found, MPI_INT64_T, owner, at, window->handle);
    MPI_Win_flush(owner, window->handle);
    return found;
}

static int64_t fetch(struct window *window, int owner, MPI_Aint at, MPI_Op operation, int64_t value)
{
    int64_t found;
    MPI_Fetch_and_op(&value, &found, MPI_INT64_T, owner, at, operation, window->handle);
    MPI_Win_flush(owner, window->handle);
    return found;
}

static void put_element(struct table *table, int owner, long place, int64_t value)
{
    struct element element = {value, NO_ELEMENT};
    MPI_Put(&element, 2, MPI_INT64_T, owner, value_at(place), 2, MPI_INT64_T,
            table->elements.handle);
    MPI_Win_flush(owner, table->elements.handle);
}

static long allocate(struct table *table, int owner)
{
    int64_t taken = fetch(&table->last, owner, 0, MPI_SUM, 1);
    if (taken >= table->heap)
        fail("the hash table is full: all %ld elements of rank %d's heap are taken; give it more "
             "slots, or "
             "a larger heap",
             table->heap, owner);
    return table->slots + taken;
}

/* ---- Adding and finding ---- */

/* Duplicates are allowed. Ends the job if the owner's heap is full. */
static void table_insert(struct table *table, int64_t value)
{
    int owner = table_owner(value);
    long slot = slot_of(table, value), place;
    if (swap_if(&table->elements, owner, value_at(slot), NO_ELEMENT, value) == NO_ELEMENT)
        return;
    place = allocate(table, owner);
    put_element(table, owner, place, value);
    int64_t before = fetch(&table->last, owner, last_at(slot), MPI_REPLACE, place);
    /* Single writer: each place is `before` for only one insertion. */
    fetch(&table->elements, owner, next_at(before), MPI_REPLACE, place);
}

/* ---- The table as a whole ---- */

static struct element *elements_of(const struct table *table)
{
    return (struct element *)table->elements.base;
}

static void clear(struct table *table)
{
    for (long slot = 0; slot < table->slots; slot++)
        elements_of(table)[slot] = (struct element){NO_ELEMENT, NO_ELEMENT};
}

/* The words in memory of an empty table: each slot is its list's end, and the heap is unused. */
static void set_ends(struct table *table)
{
    int64_t *words = (int64_t *)table->last.base;
    words[0] = 0;
    for (long slot = 0; slot < table->slots; slot++)
        words[1 + slot] = slot;
}

static void open_epoch(struct window *window)
{
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window->handle);
}

/* Collective. Makes an empty table. */
static void table_make(struct table *table, const struct window_options *options, long slots,
                       long heap)
{
    struct window_options in_memory = {.kind = WINDOW_MEMORY};
    if (slots < 1 || heap < 1)
        fail("a hash table has a slot and an element on the heap for each rank at least");
    *table = (struct table){.slots = slots, .heap = heap};
    window_make(&table->elements, options,
                &(struct window_request){"table", (slots + heap) * (MPI_Aint)sizeof(struct element),
                                         1, 0, 0});
    window_make(&table->last, &in_memory,
                &(struct window_request){"last", (slots + 1) * (MPI_Aint)sizeof(int64_t), 1, 0, 0});
    open_epoch(&table->elements);
    open_epoch(&table->last);
    clear(table);
    set_ends(table);
    MPI_Win_sync(table->last.handle);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void table_free(struct table *table)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(table->last.handle);
    MPI_Win_unlock_all(table->elements.handle);
    window_free(&table->last);
    window_free(&table->elements);
}

/* Collective: makes this rank's elements durable. */
static void table_sync(struct table *table)
{
    MPI_Barrier(MPI_COMM_WORLD); /* every rank's insertions are complete, since each is flushed */
    window_sync(&table->elements);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Summarizes this rank's elements by plain loads: their number, and sums that do not depend on
 * their order. A misplaced element ends the job. */
struct table_digest {
    uint64_t count, sum, mixed;
};

static void digest_add(struct table_digest *digest, int64_t value)
{
    digest->count++;
    digest->sum += (uint64_t)value;
    digest->mixed += mix((uint64_t)value ^ 0x5851f42d4c957f2du);
}

static struct table_digest table_digest(struct table *table)
{
    struct table_digest digest = {0};
    for (long slot = 0; slot < table->slots; slot++) {
        if (elements_of(table)[slot].value == NO_ELEMENT)
            continue;
        for (int64_t place = slot; place != NO_ELEMENT; place = elements_of(table)[place].next) {
            int64_t value = elements_of(table)[place].value;
            if (table_owner(value) != rank || slot_of(table, value) != slot)
                fail("%lld lies at %lld, where it does not belong", (long long)value,
                     (long long)place);
            digest_add(&digest, value);
        }
    }
    return digest;
}

/* ---- The program ---- */

static struct window_options options;
static long slots = 1 << 18, heap_factor = 4, inserts;

static int64_t number(int of_rank, long n)
{
    return (int64_t)(mix(((uint64_t)of_rank << 40) + (uint64_t)n + 1) >> 1);
}

/* The reference: what this rank should hold, computed from all inserts. */
static struct table_digest expected(void)
{
    struct table_digest digest = {0};
    for (int i = 0; i < ranks; i++)
        for (long n = 0; n < inserts; n++)
            if (table_owner(number(i, n)) == rank)
                digest_add(&digest, number(i, n));
    return digest;
}

static void check(struct table *table)
{
    struct table_digest found = table_digest(table), wanted = expected();
    if (memcmp(&found, &wanted, sizeof(found)) != 0)
        fail("the table holds %llu numbers of this rank, not the %llu that were inserted",
             (unsigned long long)found.count, (unsigned long long)wanted.count);
}

static void fill(struct table *table)
{
    double start = MPI_Wtime(), inserted, synced;
    for (long n = 0; n < inserts; n++) {
        table_insert(table, number(rank, n));
        if (n % 4096 == 0)
            progress("dht: %ld of %ld", n, inserts);
    }
    inserted = bench_slowest(MPI_Wtime() - start);
    synced = MPI_Wtime();
    table_sync(table);
    synced = bench_slowest(MPI_Wtime() - synced);
    check(table);
    if (rank == 0)
        printf("insert %ld %.9f\nsync %ld %.9f\ntable %ld %.1f\n", slots, inserted, slots, synced,
               slots,
               (double)ranks * (double)(slots + slots * heap_factor) * sizeof(struct element));
}

int main(int argc, char **argv)
{
    struct table table;
    program_begin(
        argc, argv, &options,
        (struct program_option[]){
            {'s', .number = &slots}, {'x', .number = &heap_factor}, {'n', .number = &inserts}, {0}},
        "dht [options] [-s SLOTS] [-x HEAP] [-n INSERTS]");
    if (!inserts)
        inserts = slots * (1 + heap_factor) * 8 / 10;
    table_make(&table, &options, slots, slots * heap_factor);
    fill(&table);
    table_free(&table);
    MPI_Finalize();
    return 0;
}
