/* bench/storage/dht.c: fills a distributed hash table with random numbers, or with the words of a
 * text.
 *
 *   dht [options of windows] [-s SLOTS] [-x HEAP] [-n INSERTS]
 *       random numbers, INSERTS by each rank into SLOTS and SLOTS * HEAP elements on its heap.
 *       With X = SLOTS: "insert X SECONDS", "sync X SECONDS", "table X BYTES". The table is
 *       compared with the numbers.
 *   dht [options of windows] [-s SLOTS] [-x HEAP] -t TEXT [-q WORD]...
 *       the different words of a text: "words N different" and, for each -q, "WORD yes|no". With
 *       -w storage -k the table starts with the words of earlier calls with the same number of
 *       ranks and slots; TEXT may be /dev/null.
 *
 * Words are runs of letters, digits and bytes above 127, identified by 63 bits of a hash. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "window.h"
#include "words.h"

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
    int rank, ranks;
};

static uint64_t mix(uint64_t value)
{
    value ^= value >> 31;
    value *= 0x7fb5d329728ea185u;
    value ^= value >> 27;
    value *= 0x81dadef4bc2dd44du;
    return value ^ value >> 33;
}

static int table_owner(const struct table *table, int64_t value)
{
    return (int)(mix((uint64_t)value) % (uint64_t)table->ranks);
}

static long slot_of(const struct table *table, int64_t value)
{
    return (long)(mix((uint64_t)value) / (uint64_t)table->ranks % (uint64_t)table->slots);
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

/* Words that others may change are read by atomic operations, too. */
static int64_t read_word(struct table *table, int owner, MPI_Aint at)
{
    return fetch(&table->elements, owner, at, MPI_NO_OP, 0);
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
    int owner = table_owner(table, value);
    long slot = slot_of(table, value), place;
    if (swap_if(&table->elements, owner, value_at(slot), NO_ELEMENT, value) == NO_ELEMENT)
        return;
    place = allocate(table, owner);
    put_element(table, owner, place, value);
    int64_t before = fetch(&table->last, owner, last_at(slot), MPI_REPLACE, place);
    /* Single writer: each place is `before` for only one insertion. */
    fetch(&table->elements, owner, next_at(before), MPI_REPLACE, place);
}

/* Follows the slot's list to the value or to its end; returns the last place. */
static long walk(struct table *table, int owner, long place, int64_t value, int *is_found)
{
    for (;;) {
        *is_found = read_word(table, owner, value_at(place)) == value;
        int64_t next = *is_found ? NO_ELEMENT : read_word(table, owner, next_at(place));
        if (next == NO_ELEMENT)
            return place;
        place = next;
    }
}

/* Inserts the value unless it is present; 1 if inserted. Must not be mixed with table_insert of
 * equal values. */
static int table_add(struct table *table, int64_t value)
{
    int owner = table_owner(table, value), is_found;
    long slot = slot_of(table, value), place = NO_ELEMENT, end = slot;
    int64_t found = swap_if(&table->elements, owner, value_at(slot), NO_ELEMENT, value);
    if (found == NO_ELEMENT || found == value)
        return found == NO_ELEMENT;
    for (;;) {
        end = walk(table, owner, end, value, &is_found);
        if (is_found)
            break;
        if (place == NO_ELEMENT) {
            place = allocate(table, owner);
            put_element(table, owner, place, value);
        }
        /* Another rank was first: go on from its element. */
        if (swap_if(&table->elements, owner, next_at(end), NO_ELEMENT, place) == NO_ELEMENT)
            return 1;
    }
    if (place != NO_ELEMENT) /* unused: not reachable */
        put_element(table, owner, place, NO_ELEMENT);
    return 0;
}

static int table_has(struct table *table, int64_t value)
{
    int is_found;
    walk(table, table_owner(table, value), slot_of(table, value), value, &is_found);
    return is_found;
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

static int is_place(const struct table *table, int64_t place)
{
    return place >= table->slots && place < table->slots + table->heap;
}

/* Rebuilds the words in memory from the elements: the end of each slot's list and the heap's
 * count. */
static void find_ends(struct table *table)
{
    int64_t *words = (int64_t *)table->last.base, taken = 0;
    for (long slot = 0; slot < table->slots; slot++) {
        int64_t place = slot;
        for (int64_t next; (next = elements_of(table)[place].next) != NO_ELEMENT; place = next) {
            if (!is_place(table, next))
                fail("%s is no hash table of %ld slots and %ld elements on the heap",
                     table->elements.path, table->slots, table->heap);
            if (next - table->slots >= taken)
                taken = next - table->slots + 1;
        }
        words[1 + slot] = place;
    }
    words[0] = taken;
}

static void open_epoch(struct window *window)
{
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window->handle);
}

/* Collective. Opens an empty table, or with is_kept that of the existing files, rebuilding the
 * words in memory. */
static void table_make(struct table *table, const struct window_options *options, long slots,
                       long heap)
{
    struct window_options in_memory = {.kind = WINDOW_MEMORY};
    if (slots < 1 || heap < 1)
        fail("a hash table has a slot and an element on the heap for each rank at least");
    *table = (struct table){.slots = slots, .heap = heap};
    MPI_Comm_rank(MPI_COMM_WORLD, &table->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &table->ranks);
    window_make(&table->elements, options,
                &(struct window_request){"table", (slots + heap) * (MPI_Aint)sizeof(struct element),
                                         1, 0, 0});
    window_make(&table->last, &in_memory,
                &(struct window_request){"last", (slots + 1) * (MPI_Aint)sizeof(int64_t), 1, 0, 0});
    open_epoch(&table->elements);
    open_epoch(&table->last);
    if (table->elements.is_new)
        clear(table);
    find_ends(table);
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
            if (table_owner(table, value) != table->rank || slot_of(table, value) != slot)
                fail("%lld lies at %lld, where it does not belong", (long long)value,
                     (long long)place);
            digest_add(&digest, value);
        }
    }
    return digest;
}

/* ---- The program ---- */

enum { QUERIES_MAX = 16 };

static struct window_options options;
static long slots = 1 << 18, heap_factor = 4, inserts;
static const char *queries[QUERIES_MAX];
static int query_count;

/* ---- Random numbers ---- */

static int64_t number(int rank, long n)
{
    return (int64_t)(mix(((uint64_t)rank << 40) + (uint64_t)n + 1) >> 1);
}

/* The reference: what this rank should hold, computed from all inserts. */
static struct table_digest expected(const struct table *table)
{
    struct table_digest digest = {0};
    for (int rank = 0; rank < table->ranks; rank++)
        for (long n = 0; n < inserts; n++)
            if (table_owner(table, number(rank, n)) == table->rank)
                digest_add(&digest, number(rank, n));
    return digest;
}

static void check(struct table *table)
{
    struct table_digest found = table_digest(table), wanted = expected(table);
    if (memcmp(&found, &wanted, sizeof(found)) != 0)
        fail("the table holds %llu numbers of this rank, not the %llu that were inserted",
             (unsigned long long)found.count, (unsigned long long)wanted.count);
}

static void fill(struct table *table)
{
    double start = MPI_Wtime(), inserted, synced;
    for (long n = 0; n < inserts; n++) {
        table_insert(table, number(table->rank, n));
        if (n % 4096 == 0)
            progress("dht: %ld of %ld", n, inserts);
    }
    inserted = longest(MPI_Wtime() - start);
    synced = MPI_Wtime();
    table_sync(table);
    synced = longest(MPI_Wtime() - synced);
    check(table);
    if (table->rank == 0)
        printf("insert %ld %.9f\nsync %ld %.9f\ntable %ld %.1f\n", slots, inserted, slots, synced,
               slots,
               (double)table->ranks * (double)(slots + slots * heap_factor) *
                   sizeof(struct element));
}

/* ---- Words ---- */

struct reading {
    struct table *table;
    uint64_t words, added;
};

static int64_t number_of_word(const char *word, size_t length)
{
    return (int64_t)(word_hash(word, length) >> 1);
}

static void add_word(void *context, const char *word, size_t length)
{
    struct reading *reading = context;
    reading->words++;
    reading->added += (uint64_t)table_add(reading->table, number_of_word(word, length));
    progress("dht: %llu words", (unsigned long long)reading->words);
}

static uint64_t total(uint64_t mine)
{
    uint64_t all;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void read_text(struct table *table, const char *path)
{
    struct reading reading = {table, 0, 0};
    struct text text;
    text_open(&text, path, 64 << 10);
    for (long part = table->rank; part < text.parts; part += table->ranks)
        text_words(&text, part, add_word, &reading);
    text_close(&text);
    table_sync(table);
    uint64_t words = total(reading.words), added = total(reading.added),
             count = total(table_digest(table).count);
    if (!options.is_kept && added != count)
        fail("the table holds %llu words of the %llu that were added", (unsigned long long)count,
             (unsigned long long)added);
    for (int i = 0; i < query_count; i++) {
        char word[WORD_BYTES_MAX];
        size_t length = word_fold(word, queries[i]);
        if (length == 0 || queries[i][length])
            fail("\"%s\" is no word: letters, digits and bytes above 127", queries[i]);
        int has = table_has(table, number_of_word(word, length));
        if (table->rank == 0)
            printf("%s %s\n", queries[i], has ? "yes" : "no");
    }
    if (table->rank == 0)
        printf("%llu words, %llu of them new, %llu different in the table\n",
               (unsigned long long)words, (unsigned long long)added, (unsigned long long)count);
}

int main(int argc, char **argv)
{
    const char *text = NULL;
    struct table table;
    MPI_Init(&argc, &argv);
    for (int option; (option = getopt(argc, argv, WINDOW_GETOPT "s:x:n:t:q:")) != -1;)
        if (option == 's')
            slots = number_of(optarg, "-s");
        else if (option == 'x')
            heap_factor = number_of(optarg, "-x");
        else if (option == 'n')
            inserts = number_of(optarg, "-n");
        else if (option == 't')
            text = optarg;
        else if (option == 'q' && query_count < QUERIES_MAX)
            queries[query_count++] = optarg;
        else if (!window_option(option, optarg, &options))
            fail("usage: dht [options] [-s SLOTS] [-x HEAP] [-n INSERTS] [-t TEXT [-q "
                 "WORD]...]\n" WINDOW_USAGE);
    if (!inserts)
        inserts = slots * (1 + heap_factor) * 8 / 10;
    table_make(&table, &options, slots, slots * heap_factor);
    if (text)
        read_text(&table, text);
    else
        fill(&table);
    table_free(&table);
    MPI_Finalize();
    return 0;
}
