/* bench/storage/mapreduce.c: counts the words of a text, with checkpoints from which a later call
 * can resume.
 *
 *   mapreduce [options of windows] [-m one|two] [-c] [-i] [-s PART] [-l LOG] [-o OUTPUT] [-v] TEXT
 *       -m  one: one-sided (default), checkpoints are those of the window selected by -w;
 *           two: two-sided, checkpoints go to the file of -f by collective MPI I/O
 *       -c  make checkpoints: after each part of PART bytes (default 64M) and after the reduction;
 *           -k resumes from them
 *       -i  two-sided: write only what is new
 *       -l  bytes of each rank's log
 *       -o  file with a line "COUNT WORD" per word, sorted by word
 *       -v  report each complete checkpoint
 *
 * With X the text's bytes, prints "total X SECONDS", its parts "map", "checkpoint", "reduce" and
 * "combine", each of the slowest rank, and "durable X BYTES". */
#include "mapreduce.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 7 };

/* ---- Common to both ways ---- */

uint64_t job_identity(const struct job *job)
{
    uint64_t facts[] = {(uint64_t)job->text.bytes, (uint64_t)job->text.part_bytes,
                        (uint64_t)job->ranks, (uint64_t)job->rank};
    return word_hash((const char *)facts, sizeof(facts)) | 1;
}

long job_part(const struct job *job, long n)
{
    return n * job->ranks + job->rank;
}

static void count_word(void *context, const char *word, size_t length)
{
    counts_add(context, word, length, word_hash(word, length), 1);
}

void map_part(struct job *job, struct log *log, long part, char *bytes)
{
    struct counts counts = {0};
    text_split(&job->text, part, bytes, count_word, &counts);
    log_append(log, part, &counts);
    counts_free(&counts);
}

long parts_in(const struct log *log, const struct segment **result)
{
    long parts = 0;
    *result = NULL;
    for (const struct segment *one = NULL; (one = log_next(log, one));)
        if (one->part == RESULT)
            *result = one;
        else
            parts++;
    return parts;
}

void print_checkpoint(const struct job *job, long part)
{
    if (!job->is_verbose)
        return;
    printf("rank %d: checkpoint %s %ld\n", job->rank,
           part == RESULT ? "of the result" : "behind part", part == RESULT ? 0 : part);
    fflush(stdout);
}

/* ---- Combine: sorted counts go up a tree and are merged at each node ---- */

struct list { /* counts as bytes: the records of a bucket, sorted by word */
    char *bytes;
    size_t length;
};

static void append(struct list *list, const struct count *entry)
{
    uint16_t length = (uint16_t)entry->length;
    memcpy(list->bytes + list->length, &entry->times, 8);
    memcpy(list->bytes + list->length + 8, &length, 2);
    memcpy(list->bytes + list->length + 10, entry->word, entry->length);
    list->length += 10 + entry->length;
}

static struct list new_list(size_t most)
{
    struct list list = {malloc(most + 1), 0};
    if (!list.bytes)
        fail("no memory for %zu bytes of counts", most);
    return list;
}

static struct list list_of(struct counts *counts)
{
    size_t bytes = 0;
    struct count *entries = counts_sort(counts);
    for (size_t i = 0; i < counts->used; i++)
        bytes += 10 + entries[i].length;
    struct list list = new_list(bytes);
    for (size_t i = 0; i < counts->used; i++)
        append(&list, &entries[i]);
    return list;
}

/* Parses the record at `at`; returns the offset of the next one. */
static size_t read_at(const struct list *list, size_t at, struct count *entry)
{
    uint16_t length;
    memcpy(&entry->times, list->bytes + at, 8);
    memcpy(&length, list->bytes + at + 8, 2);
    entry->word = list->bytes + at + 10;
    entry->length = length;
    return at + 10 + length;
}

/* Every word is in one list only, that of its owner. */
static int is_before(const struct count *a, const struct count *b)
{
    int order = memcmp(a->word, b->word, a->length < b->length ? a->length : b->length);
    return order ? order < 0 : a->length < b->length;
}

static struct list merge(struct list a, struct list b)
{
    struct list both = new_list(a.length + b.length);
    size_t at = 0, bt = 0, next_a = 0, next_b = 0;
    struct count x, y;
    while (at < a.length || bt < b.length) {
        if (at < a.length)
            next_a = read_at(&a, at, &x);
        if (bt < b.length)
            next_b = read_at(&b, bt, &y);
        if (bt >= b.length || (at < a.length && is_before(&x, &y))) {
            append(&both, &x);
            at = next_a;
        } else {
            append(&both, &y);
            bt = next_b;
        }
    }
    free(a.bytes);
    free(b.bytes);
    return both;
}

static struct list receive(int rank)
{
    MPI_Status status;
    int length;
    MPI_Probe(rank, TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &length);
    struct list list = new_list((size_t)length);
    MPI_Recv(list.bytes, length, MPI_BYTE, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    list.length = (size_t)length;
    return list;
}

/* All counts, on rank 0. */
static struct list combine(const struct job *job, struct counts *counts)
{
    struct list list = list_of(counts);
    for (int step = 1; step < job->ranks; step *= 2) {
        if (job->rank % (2 * step) != 0) {
            if (list.length > INT_MAX)
                fail("more than 2 GiB of counts in one message");
            MPI_Send(list.bytes, (int)list.length, MPI_BYTE, job->rank - step, TAG, MPI_COMM_WORLD);
            break;
        }
        if (job->rank + step < job->ranks)
            list = merge(list, receive(job->rank + step));
    }
    return list;
}

/* ---- Output ---- */

static void write_list(const struct list *list, const char *path)
{
    FILE *file = fopen(path, "w");
    struct count entry;
    if (!file)
        fail("cannot write %s: %s", path, strerror(errno));
    for (size_t at = 0; at < list->length;) {
        at = read_at(list, at, &entry);
        fprintf(file, "%" PRIu64 " %.*s\n", entry.times, (int)entry.length, entry.word);
    }
    if (fclose(file) != 0)
        fail("cannot write %s: %s", path, strerror(errno));
}

static void print_line(const struct job *job, const char *what, double value)
{
    double all;
    MPI_Reduce(&value, &all, 1, MPI_DOUBLE, strcmp(what, "durable") ? MPI_MAX : MPI_SUM, 0,
               MPI_COMM_WORLD);
    if (job->rank == 0)
        printf("%s %" PRId64 " %.9f\n", what, job->text.bytes, all);
}

static void run(struct job *job, int is_two_sided, const char *output)
{
    struct counts counts = {0};
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), reduced;
    if (is_two_sided)
        count_two_sided(job, &counts);
    else
        count_one_sided(job, &counts);
    reduced = MPI_Wtime();
    struct list list = combine(job, &counts);
    MPI_Barrier(MPI_COMM_WORLD);
    double end = MPI_Wtime();
    print_line(job, "total", end - start);
    print_line(job, "map", job->map_seconds);
    print_line(job, "checkpoint", job->checkpoint_seconds);
    print_line(job, "reduce", job->reduce_seconds);
    print_line(job, "combine", end - reduced);
    print_line(job, "durable", (double)job->checkpoint_bytes);
    if (job->rank == 0 && output)
        write_list(&list, output);
    free(list.bytes);
    counts_free(&counts);
}

int main(int argc, char **argv)
{
    struct job job = {0};
    const char *output = NULL;
    int is_two_sided = 0;
    long part = 64L << 20;
    MPI_Init(&argc, &argv);
    for (int option; (option = getopt(argc, argv, WINDOW_GETOPT "m:cis:l:o:v")) != -1;)
        if (option == 'm')
            is_two_sided = strcmp(optarg, "two") == 0;
        else if (option == 'c')
            job.has_checkpoints = 1;
        else if (option == 'i')
            job.is_incremental = 1;
        else if (option == 's')
            part = number_of(optarg, "-s");
        else if (option == 'l')
            job.log_bytes = (size_t)number_of(optarg, "-l");
        else if (option == 'o')
            output = optarg;
        else if (option == 'v')
            job.is_verbose = 1;
        else if (!window_option(option, optarg, &job.options))
            optind = argc;
    if (optind + 1 != argc)
        fail("usage: mapreduce [options] [-m one|two] [-c] [-i] [-s PART] [-l LOG] [-o OUTPUT] "
             "[-v] TEXT\n" WINDOW_USAGE);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    text_open(&job.text, argv[optind], part);
    job.own_parts = (job.text.parts - job.rank + job.ranks - 1) / job.ranks;
    if (!job.log_bytes)
        job.log_bytes = (size_t)(job.text.bytes / job.ranks / 2 + (16 << 20));
    job.log_bytes = (job.log_bytes + 4095) / 4096 * 4096;
    run(&job, is_two_sided, output);
    text_close(&job.text);
    MPI_Finalize();
    return 0;
}
