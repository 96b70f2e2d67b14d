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
#include "table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "words.h"

enum { MOST_QUESTIONS = 16 };

static struct window_options options;
static long slots = 1 << 18, heap_factor = 4, inserts;
static const char *questions[MOST_QUESTIONS];
static int question_count;

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
    for (int i = 0; i < question_count; i++) {
        char word[WORD_MOST];
        size_t length = word_fold(word, questions[i]);
        if (length == 0 || questions[i][length])
            fail("\"%s\" is no word: letters, digits and bytes above 127", questions[i]);
        int has = table_has(table, number_of_word(word, length));
        if (table->rank == 0)
            printf("%s %s\n", questions[i], has ? "yes" : "no");
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
        else if (option == 'q' && question_count < MOST_QUESTIONS)
            questions[question_count++] = optarg;
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
