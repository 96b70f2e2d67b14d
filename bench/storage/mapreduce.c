/* bench/storage/mapreduce.c: counts the words of a text in two ways, with checkpoints from which a
 * later call can resume.
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
#include "window.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "words.h"

static struct window_options options; /* of the windows; two-sided: of the file */
static struct text text;
static long part_bytes = 64L << 20, log_limit;
static long own_parts; /* this rank's: rank, rank + ranks, ... */
static int has_checkpoints, is_incremental, is_verbose;
static double map_seconds, checkpoint_seconds, reduce_seconds;
static uint64_t durable_bytes; /* written by checkpoints */

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    if (!memory)
        fail("no memory for %zu bytes", bytes);
    return memory;
}

/* ---- Records: a count (8 bytes), a length (2) and the word ---- */

enum { RECORD_HEAD = 10 };

static char *write_record(char *at, const struct count *entry)
{
    uint16_t length = (uint16_t)entry->length;
    memcpy(at, &entry->times, 8);
    memcpy(at + 8, &length, 2);
    memcpy(at + RECORD_HEAD, entry->word, entry->length);
    return at + RECORD_HEAD + entry->length;
}

static void read_records(const char *bytes, size_t length, struct counts *counts)
{
    for (size_t at = 0; at < length;) {
        uint64_t times;
        uint16_t letters;
        memcpy(&times, bytes + at, 8);
        memcpy(&letters, bytes + at + 8, 2);
        const char *word = bytes + at + RECORD_HEAD;
        counts_add(counts, word, letters, word_hash(word, letters), times);
        at += RECORD_HEAD + letters;
    }
}

/* ---- A rank's log of counts, in memory or in a window ---- */

/* One segment for each part of the text, one after another, and a last one with the reduced counts.
 * A segment holds one bucket of records per owning rank, in a form that others can read with
 * MPI_Get. The log is append-only: if it is synchronised after each segment, it is intact up to
 * there, however much the system has written of what followed. Checksums tell where that is. */

enum { RESULT = -1 }; /* the part of a segment with reduced counts */

struct segment {
    uint64_t checksum; /* of everything after this field */
    uint64_t bytes;    /* including this head; a multiple of the word size */
    int64_t part;
    uint64_t job; /* identifies the text and its division; logs of other jobs are ignored */
    uint64_t bucket_offsets[]; /* offset of each rank's bucket from the head, and the end */
};

static struct log {
    char *base;
    size_t bytes, used;
    uint64_t job;
} log_of_rank;

static size_t head_bytes(void)
{
    return sizeof(struct segment) + ((size_t)ranks + 1) * sizeof(uint64_t);
}

static const char *bucket(const struct segment *segment, int of_rank)
{
    return (const char *)segment + segment->bucket_offsets[of_rank];
}

/* 0 for a segment of reduced counts, which is not reduced again. */
static size_t bucket_bytes(const struct segment *segment, int of_rank)
{
    if (segment->part == RESULT)
        return 0;
    return segment->bucket_offsets[of_rank + 1] - segment->bucket_offsets[of_rank];
}

/* Uses other hash bits than struct counts does for its slots, else a rank's table would fill
 * unevenly. */
static int word_owner(uint64_t hash)
{
    return (int)((hash >> 40) % (uint64_t)ranks);
}

static uint64_t checksum_of(const struct segment *segment)
{
    const uint64_t *words = (const uint64_t *)segment;
    uint64_t sums[2] = {0x9e3779b97f4a7c15u, 0};
    for (size_t at = 1; at < segment->bytes / 8; at++) {
        sums[0] = (sums[0] ^ words[at]) * 0xff51afd7ed558ccdu;
        sums[1] += sums[0] ^ sums[0] >> 29;
    }
    return sums[0] ^ sums[1];
}

static int is_intact(const struct log *log, size_t at)
{
    const struct segment *segment = (const struct segment *)(log->base + at);
    return at + head_bytes() <= log->bytes && segment->bytes >= head_bytes() &&
           segment->bytes % 8 == 0 && segment->bytes <= log->bytes - at &&
           segment->job == log->job && segment->checksum == checksum_of(segment);
}

/* Iterates over the segments: the first for NULL, NULL after the last. */
static const struct segment *log_next(const struct log *log, const struct segment *segment)
{
    const char *next = segment ? (const char *)segment + segment->bytes : log->base;
    return next < log->base + log->used ? (const struct segment *)next : NULL;
}

/* Adopts what the memory already holds, up to the first segment that is not intact. Returns the
 * number of parts, and the segment with the reduced counts, if any. */
static long log_open(char *base, size_t bytes, const struct segment **result)
{
    struct log *log = &log_of_rank;
    uint64_t facts[] = {(uint64_t)text.bytes, (uint64_t)text.part_bytes, (uint64_t)ranks,
                        (uint64_t)rank};
    long parts = 0;
    *log = (struct log){base, bytes, 0, word_hash((const char *)facts, sizeof(facts)) | 1};
    *result = NULL;
    while (is_intact(log, log->used)) {
        const struct segment *segment = (const struct segment *)(log->base + log->used);
        log->used += segment->bytes;
        if (segment->part == RESULT)
            *result = segment;
        else
            parts++;
    }
    return parts;
}

/* The head of a segment with these counts: where each rank's bucket begins. */
static struct segment *new_head(const struct counts *counts, int64_t part)
{
    struct segment *head = allocate(head_bytes());
    uint64_t at = head_bytes();
    memset(head, 0, head_bytes());
    for (size_t i = 0; i < counts->room; i++)
        if (counts->entries[i].word)
            head->bucket_offsets[word_owner(counts->entries[i].hash)] +=
                RECORD_HEAD + counts->entries[i].length;
    for (int i = 0; i <= ranks; i++) {
        uint64_t length = head->bucket_offsets[i];
        head->bucket_offsets[i] = at;
        at += length;
    }
    head->bytes = (at + 7) / 8 * 8;
    head->part = part;
    head->job = log_of_rank.job;
    return head;
}

static void log_append(int64_t part, const struct counts *counts)
{
    struct log *log = &log_of_rank;
    struct segment *head = new_head(counts, part);
    char **ends = allocate((size_t)ranks * sizeof(*ends));
    if (head->bytes > log->bytes - log->used)
        fail("the log of %zu bytes is full behind part %lld: give it more with -l", log->bytes,
             (long long)part);
    struct segment *segment = (struct segment *)(log->base + log->used);
    memcpy(segment, head, head_bytes());
    for (int i = 0; i < ranks; i++)
        ends[i] = (char *)segment + head->bucket_offsets[i];
    for (size_t i = 0; i < counts->room; i++)
        if (counts->entries[i].word) {
            char **end = &ends[word_owner(counts->entries[i].hash)];
            *end = write_record(*end, &counts->entries[i]);
        }
    memset((char *)segment + head->bucket_offsets[ranks], 0,
           head->bytes - head->bucket_offsets[ranks]);
    segment->checksum = checksum_of(segment);
    log->used += head->bytes;
    free(ends);
    free(head);
}

/* ---- Map ---- */

static void count_word(void *context, const char *word, size_t length)
{
    counts_add(context, word, length, word_hash(word, length), 1);
}

/* Counts the words of a part, whose bytes are freed, and appends a segment. */
static void map_part(long part, char *bytes)
{
    struct counts counts = {0};
    text_split(&text, part, bytes, count_word, &counts);
    log_append(part, &counts);
    counts_free(&counts);
    free(bytes);
}

static void print_checkpoint(long part)
{
    if (is_verbose && part == RESULT)
        printf("rank %d: checkpoint of the reduced counts\n", rank);
    else if (is_verbose)
        printf("rank %d: checkpoint behind part %ld\n", rank, part);
    fflush(stdout);
}

static MPI_File open_text(MPI_Comm comm)
{
    MPI_File file;
    check_io(MPI_File_open(comm, (char *)text.path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "read",
             text.path);
    return file;
}

/* Memory for a part's bytes. */
static char *part_memory(struct extent extent)
{
    if (extent.length > INT_MAX)
        fail("no memory for a part of %zu bytes: give smaller ones with -s", extent.length);
    return allocate(extent.length);
}

static void check_read(MPI_Status *status, struct extent extent)
{
    int got;
    MPI_Get_count(status, MPI_BYTE, &got);
    if ((size_t)got != extent.length)
        fail("%s became shorter while it was read", text.path);
}

/* ---- One-sided communication (Rivas-Gomez et al., section 3.5.2) ---- */

/* Each rank's log is a window; a word in another window publishes its length. A rank that has
 * mapped its own parts fetches its buckets from the others' logs as they grow; there is no
 * collective exchange. The window is synchronised after each part and after the reduction. */

static struct window logs, heads;

/* The words in each rank's window `heads`. */
enum { USED, IS_COMPLETE, HEAD_WORDS };

static int64_t head_word(int of_rank, int word, MPI_Op operation, int64_t value)
{
    int64_t found;
    MPI_Fetch_and_op(&value, &found, MPI_INT64_T, of_rank, word, operation, heads.handle);
    MPI_Win_flush(of_rank, heads.handle);
    return found;
}

static void publish(int is_complete)
{
    MPI_Win_sync(heads.handle); /* orders the log's contents before its published length */
    head_word(rank, USED, MPI_REPLACE, (int64_t)log_of_rank.used);
    if (is_complete)
        head_word(rank, IS_COMPLETE, MPI_REPLACE, 1);
}

static void synchronise_log(long part, size_t before)
{
    if (!has_checkpoints)
        return;
    double start = MPI_Wtime();
    window_sync(&logs);
    checkpoint_seconds += MPI_Wtime() - start;
    durable_bytes += log_of_rank.used - before;
    print_checkpoint(part);
}

/* Reads the next part while this one is mapped. */
static void map_one_sided(long done)
{
    MPI_File file = open_text(MPI_COMM_SELF);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    char *next = NULL;
    for (long n = done; n <= own_parts; n++) {
        long part = (n - 1) * ranks + rank;
        char *bytes = next;
        if (bytes) {
            MPI_Wait(&request, &status);
            check_read(&status, text_extent(&text, part));
        }
        if (n < own_parts) {
            struct extent extent = text_extent(&text, n * ranks + rank);
            next = part_memory(extent);
            MPI_File_iread_at(file, extent.offset, next, (int)extent.length, MPI_BYTE, &request);
        }
        if (!bytes)
            continue;
        size_t before = log_of_rank.used;
        map_part(part, bytes);
        synchronise_log(part, before);
        publish(0);
        progress("mapreduce: mapped %ld of %ld parts", n, own_parts);
    }
    MPI_File_close(&file);
    publish(1);
}

static void get(int from, uint64_t offset, void *bytes, uint64_t length)
{
    for (uint64_t at = 0, step; at < length; at += step) {
        step = length - at < (1u << 30) ? length - at : 1u << 30;
        MPI_Get((char *)bytes + at, (int)step, MPI_BYTE, from, (MPI_Aint)(offset + at), (int)step,
                MPI_BYTE, logs.handle);
    }
    MPI_Win_flush(from, logs.handle);
}

/* Fetches this rank's bucket of the segment at `offset` of another's log; returns the segment's
 * length. */
static uint64_t fetch_segment(int from, uint64_t offset, struct counts *counts)
{
    struct segment *head = allocate(head_bytes());
    get(from, offset, head, head_bytes());
    uint64_t length = bucket_bytes(head, rank), bytes = head->bytes;
    char *records = allocate(length);
    if (length > 0)
        get(from, offset + head->bucket_offsets[rank], records, length);
    read_records(records, length, counts);
    free(records);
    free(head);
    return bytes;
}

static void reduce_one_sided(struct counts *counts)
{
    uint64_t *taken = allocate((size_t)ranks * sizeof(*taken));
    char *is_done = allocate((size_t)ranks);
    memset(taken, 0, (size_t)ranks * sizeof(*taken));
    memset(is_done, 0, (size_t)ranks);
    for (int open = ranks; open > 0;)
        for (int n = 0; n < ranks; n++) {
            int from = (rank + n) % ranks; /* spreads the ranks over the logs */
            if (is_done[from])
                continue;
            is_done[from] = (char)head_word(from, IS_COMPLETE, MPI_NO_OP, 0);
            uint64_t used = (uint64_t)head_word(from, USED, MPI_NO_OP, 0);
            while (taken[from] < used)
                taken[from] += fetch_segment(from, taken[from], counts);
            open -= is_done[from];
            progress("mapreduce: reduces, %d of %d ranks are not complete", open, ranks);
        }
    free(taken);
    free(is_done);
}

static void count_one_sided(struct counts *counts)
{
    struct window_options in_memory = {.kind = WINDOW_MEMORY};
    struct window_request of_log = {"log", (MPI_Aint)log_limit, 1, 0, 0};
    struct window_request of_heads = {"heads", HEAD_WORDS * sizeof(int64_t), sizeof(int64_t), 0, 0};
    const struct segment *result;
    window_make(&logs, &options, &of_log);
    window_make(&heads, &in_memory, &of_heads);
    memset(heads.base, 0, HEAD_WORDS * sizeof(int64_t));
    MPI_Win_lock_all(0, logs.handle);
    MPI_Win_lock_all(0, heads.handle);
    if (logs.is_new && options.kind < WINDOW_MMAP)
        memset(logs.base, 0, head_bytes());
    long done = log_open(logs.base, (size_t)log_limit, &result);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    map_one_sided(done);
    double mapped = MPI_Wtime();
    map_seconds = mapped - start - checkpoint_seconds;
    if (result) {
        read_records((const char *)result + head_bytes(),
                     result->bucket_offsets[ranks] - head_bytes(), counts);
    } else {
        size_t before = log_of_rank.used;
        reduce_one_sided(counts);
        log_append(RESULT, counts);
        synchronise_log(RESULT, before);
    }
    reduce_seconds = MPI_Wtime() - mapped;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(heads.handle);
    MPI_Win_unlock_all(logs.handle);
    window_free(&heads);
    window_free(&logs);
}

/* ---- Two-sided: collective communication ---- */

/* After Hoefler, Lumsdaine, Dongarra, "Towards efficient MapReduce using MPI", EuroPVM/MPI 2009:
 * all ranks read and map their n-th parts together and exchange their buckets at the end. A
 * checkpoint writes the ranks' logs to one file by collective MPI I/O: complete, as in the paper,
 * or only what is new. */

static MPI_File checkpoints;

static MPI_Offset place_in_file(size_t at)
{
    return (MPI_Offset)rank * (MPI_Offset)log_limit + (MPI_Offset)at;
}

/* In chunks whose size fits an int; all ranks take part in each. */
static void write_log(size_t from)
{
    long left = (long)(log_of_rank.used - from), most;
    MPI_Allreduce(&left, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    for (; most > 0; most -= 1 << 30) {
        int step = left > 1 << 30 ? 1 << 30 : left > 0 ? (int)left : 0;
        check_io(MPI_File_write_at_all(checkpoints, place_in_file(from), log_of_rank.base + from,
                                       step, MPI_BYTE, MPI_STATUS_IGNORE),
                 "write", options.file);
        from += (size_t)step;
        left -= step;
    }
    check_io(MPI_File_sync(checkpoints), "synchronise", options.file);
}

static void write_checkpoint(long part)
{
    static size_t written;
    if (!has_checkpoints)
        return;
    double start = MPI_Wtime();
    size_t from = is_incremental ? written : 0;
    write_log(from);
    durable_bytes += log_of_rank.used - from;
    written = log_of_rank.used;
    checkpoint_seconds += MPI_Wtime() - start;
    print_checkpoint(part);
}

/* Reads the log of an earlier job from the file. */
static long open_checkpoints(const struct segment **result)
{
    char *base = allocate((size_t)log_limit);
    MPI_Status status;
    int got = 0;
    if (has_checkpoints) {
        if (!options.file)
            fail("checkpoints need a file: -f FILE");
        if (rank == 0 && !options.is_kept)
            remove(options.file);
        MPI_Barrier(MPI_COMM_WORLD);
        check_io(MPI_File_open(MPI_COMM_WORLD, (char *)options.file,
                               MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &checkpoints),
                 "open", options.file);
        if (log_limit > INT_MAX)
            fail("logs of more than 2 GiB cannot be read back: give -l less");
        check_io(MPI_File_read_at_all(checkpoints, place_in_file(0), base, (int)log_limit, MPI_BYTE,
                                      &status),
                 "read", options.file);
        MPI_Get_count(&status, MPI_BYTE, &got);
    }
    memset(base + got, 0, (size_t)(log_limit - got));
    return log_open(base, (size_t)log_limit, result);
}

/* All ranks take part in each read; those without a part read nothing. */
static void map_two_sided(long done)
{
    MPI_File file = open_text(MPI_COMM_WORLD);
    long first;
    MPI_Allreduce(&done, &first, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
    for (long n = first; n * ranks < text.parts; n++) {
        int has_part = n >= done && n < own_parts;
        long part = has_part ? n * ranks + rank : -1;
        struct extent extent = has_part ? text_extent(&text, part) : (struct extent){0, 0};
        char *bytes = part_memory(extent);
        MPI_Status status;
        check_io(
            MPI_File_read_at_all(file, extent.offset, bytes, (int)extent.length, MPI_BYTE, &status),
            "read", text.path);
        check_read(&status, extent);
        if (has_part)
            map_part(part, bytes);
        else
            free(bytes);
        write_checkpoint(part);
        progress("mapreduce: mapped %ld of %ld parts", n + 1, own_parts);
    }
    MPI_File_close(&file);
}

/* The buckets of a rank in all segments, stored at `to` unless it is NULL; their length. */
static int collect(int of_rank, char *to)
{
    uint64_t length = 0;
    for (const struct segment *segment = NULL; (segment = log_next(&log_of_rank, segment));) {
        uint64_t bytes = bucket_bytes(segment, of_rank);
        if (length + bytes > INT_MAX)
            fail("more than 2 GiB of counts go to rank %d: use more ranks", of_rank);
        if (to)
            memcpy(to + length, bucket(segment, of_rank), bytes);
        length += bytes;
    }
    return (int)length;
}

/* The sum of the lengths, and each rank's displacement. */
static int displace(const int *lengths, int *displs)
{
    long sum = 0;
    for (int i = 0; i < ranks; i++) {
        displs[i] = (int)sum;
        sum += lengths[i];
        if (sum > INT_MAX)
            fail("more than 2 GiB of counts in one exchange: use more ranks");
    }
    return (int)sum;
}

static void reduce_two_sided(struct counts *counts)
{
    int *sendcounts = allocate(4 * (size_t)ranks * sizeof(int)), *recvcounts = sendcounts + ranks;
    int *sdispls = recvcounts + ranks, *rdispls = sdispls + ranks;
    for (int i = 0; i < ranks; i++)
        sendcounts[i] = collect(i, NULL);
    MPI_Alltoall(sendcounts, 1, MPI_INT, recvcounts, 1, MPI_INT, MPI_COMM_WORLD);
    char *sendbuf = allocate((size_t)displace(sendcounts, sdispls));
    size_t received = (size_t)displace(recvcounts, rdispls);
    char *recvbuf = allocate(received);
    for (int i = 0; i < ranks; i++)
        collect(i, sendbuf + sdispls[i]);
    MPI_Alltoallv(sendbuf, sendcounts, sdispls, MPI_BYTE, recvbuf, recvcounts, rdispls, MPI_BYTE,
                  MPI_COMM_WORLD);
    read_records(recvbuf, received, counts);
    free(recvbuf);
    free(sendbuf);
    free(sendcounts);
}

static void count_two_sided(struct counts *counts)
{
    const struct segment *result;
    long done = open_checkpoints(&result);
    double start = MPI_Wtime();
    map_two_sided(done);
    double mapped = MPI_Wtime();
    map_seconds = mapped - start - checkpoint_seconds;
    reduce_two_sided(counts); /* collective: also ranks that already have their result */
    if (!result)
        log_append(RESULT, counts);
    write_checkpoint(RESULT);
    reduce_seconds = MPI_Wtime() - mapped;
    if (has_checkpoints)
        MPI_File_close(&checkpoints);
    free(log_of_rank.base);
}

/* ---- The result ---- */

/* Adds the counts of all ranks to rank 0's, sorted by word. Every word has one owner only. */
static void combine(struct counts *counts)
{
    struct segment *head = new_head(counts, RESULT);
    uint64_t most = head->bucket_offsets[ranks] - head_bytes();
    int bytes, size = 0;
    int *lengths = allocate(2 * (size_t)ranks * sizeof(int)), *displs = lengths + ranks;
    char *records = allocate(most), *end = records, *all = NULL;
    if (most > INT_MAX)
        fail("more than 2 GiB of counts in one message");
    for (size_t i = 0; i < counts->room && rank > 0; i++)
        if (counts->entries[i].word)
            end = write_record(end, &counts->entries[i]);
    bytes = (int)(end - records);
    MPI_Gather(&bytes, 1, MPI_INT, lengths, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        size = displace(lengths, displs);
        all = allocate((size_t)size);
    }
    MPI_Gatherv(records, bytes, MPI_BYTE, all, lengths, displs, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        read_records(all, (size_t)size, counts);
        counts_sort(counts);
    }
    free(all);
    free(records);
    free(lengths);
    free(head);
}

static void write_counts(const struct counts *counts, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        fail("cannot write %s: %s", path, strerror(errno));
    for (size_t i = 0; i < counts->used; i++)
        fprintf(file, "%" PRIu64 " %.*s\n", counts->entries[i].times,
                (int)counts->entries[i].length, counts->entries[i].word);
    if (fclose(file) != 0)
        fail("cannot write %s: %s", path, strerror(errno));
}

static void print_line(const char *what, double value, MPI_Op of_ranks)
{
    double all;
    MPI_Reduce(&value, &all, 1, MPI_DOUBLE, of_ranks, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %" PRId64 " %.9f\n", what, text.bytes, all);
}

static void run(int is_two_sided, const char *output)
{
    struct counts counts = {0};
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (is_two_sided)
        count_two_sided(&counts);
    else
        count_one_sided(&counts);
    double reduced = MPI_Wtime();
    combine(&counts);
    MPI_Barrier(MPI_COMM_WORLD);
    double end = MPI_Wtime();
    print_line("total", end - start, MPI_MAX);
    print_line("map", map_seconds, MPI_MAX);
    print_line("checkpoint", checkpoint_seconds, MPI_MAX);
    print_line("reduce", reduce_seconds, MPI_MAX);
    print_line("combine", end - reduced, MPI_MAX);
    print_line("durable", (double)durable_bytes, MPI_SUM);
    if (rank == 0 && output)
        write_counts(&counts, output);
    counts_free(&counts);
}

int main(int argc, char **argv)
{
    static const char usage[] = "mapreduce [options] [-m one|two] [-c] [-i] [-s PART] [-l LOG] "
                                "[-o OUTPUT] [-v] TEXT";
    const char *mode = "one", *output = NULL;
    const struct program_option own[] = {
        {'m', .text = &mode},           {'c', .flag = &has_checkpoints},
        {'i', .flag = &is_incremental}, {'s', .number = &part_bytes},
        {'l', .number = &log_limit},    {'o', .text = &output},
        {'v', .flag = &is_verbose},     {0}};
    program_begin(argc, argv, &options, own, usage);
    if (optind + 1 != argc)
        fail("usage: %s", usage);
    text_open(&text, argv[optind], part_bytes);
    own_parts = (text.parts - rank + ranks - 1) / ranks;
    if (!log_limit)
        log_limit = (long)(text.bytes / ranks / 2 + (16 << 20));
    log_limit = (log_limit + 4095) / 4096 * 4096;
    run(strcmp(mode, "two") == 0, output);
    MPI_Finalize();
    return 0;
}
