/* bench/storage/table.c: the hash table. All accesses are one-sided, inside an epoch that lasts as
 * long as the table; an element is complete before it becomes reachable. */
#include "table.h"

#include <stddef.h>

uint64_t mix(uint64_t value)
{
    value ^= value >> 31;
    value *= 0x7fb5d329728ea185u;
    value ^= value >> 27;
    value *= 0x81dadef4bc2dd44du;
    return value ^ value >> 33;
}

int table_owner(const struct table *table, int64_t value)
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
    struct element element = {value, NOTHING};
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

void table_insert(struct table *table, int64_t value)
{
    int owner = table_owner(table, value);
    long slot = slot_of(table, value), place;
    if (swap_if(&table->elements, owner, value_at(slot), NOTHING, value) == NOTHING)
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
        int64_t next = *is_found ? NOTHING : read_word(table, owner, next_at(place));
        if (next == NOTHING)
            return place;
        place = next;
    }
}

int table_add(struct table *table, int64_t value)
{
    int owner = table_owner(table, value), is_found;
    long slot = slot_of(table, value), place = NOTHING, end = slot;
    int64_t found = swap_if(&table->elements, owner, value_at(slot), NOTHING, value);
    if (found == NOTHING || found == value)
        return found == NOTHING;
    for (;;) {
        end = walk(table, owner, end, value, &is_found);
        if (is_found)
            break;
        if (place == NOTHING) {
            place = allocate(table, owner);
            put_element(table, owner, place, value);
        }
        /* Another rank was first: go on from its element. */
        if (swap_if(&table->elements, owner, next_at(end), NOTHING, place) == NOTHING)
            return 1;
    }
    if (place != NOTHING) /* unused: not reachable */
        put_element(table, owner, place, NOTHING);
    return 0;
}

int table_has(struct table *table, int64_t value)
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
        elements_of(table)[slot] = (struct element){NOTHING, NOTHING};
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
        for (int64_t next; (next = elements_of(table)[place].next) != NOTHING; place = next) {
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

void table_make(struct table *table, const struct window_options *options, long slots, long heap)
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

void table_free(struct table *table)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(table->last.handle);
    MPI_Win_unlock_all(table->elements.handle);
    window_free(&table->last);
    window_free(&table->elements);
}

void table_sync(struct table *table)
{
    MPI_Barrier(MPI_COMM_WORLD); /* every rank's insertions are complete, since each is flushed */
    window_sync(&table->elements);
    MPI_Barrier(MPI_COMM_WORLD);
}

void digest_add(struct table_digest *digest, int64_t value)
{
    digest->count++;
    digest->sum += (uint64_t)value;
    digest->mixed += mix((uint64_t)value ^ 0x5851f42d4c957f2du);
}

struct table_digest table_digest(struct table *table)
{
    struct table_digest digest = {0};
    for (long slot = 0; slot < table->slots; slot++) {
        if (elements_of(table)[slot].value == NOTHING)
            continue;
        for (int64_t place = slot; place != NOTHING; place = elements_of(table)[place].next) {
            int64_t value = elements_of(table)[place].value;
            if (table_owner(table, value) != table->rank || slot_of(table, value) != slot)
                fail("%lld lies at %lld, where it does not belong", (long long)value,
                     (long long)place);
            digest_add(&digest, value);
        }
    }
    return digest;
}
