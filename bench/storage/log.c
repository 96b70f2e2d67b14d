/* bench/storage/log.c: segments of counts. A record is a count (8 bytes), a length (2) and the
 * word. */
#include "mapreduce.h"

#include <stdlib.h>
#include <string.h>

#include "window.h"

enum { RECORD_HEAD = 10 };

size_t segment_head(int ranks)
{
    return sizeof(struct segment) + ((size_t)ranks + 1) * sizeof(uint64_t);
}

/* Uses other hash bits than struct counts does for its slots, else a rank's table would fill
 * unevenly. */
int word_owner(uint64_t hash, int ranks)
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

static int is_whole(const struct log *log, size_t at)
{
    const struct segment *segment = (const struct segment *)(log->base + at);
    size_t least = segment_head(log->ranks);
    return at + least <= log->bytes && segment->bytes >= least && segment->bytes % 8 == 0 &&
           segment->bytes <= log->bytes - at && segment->job == log->job &&
           segment->checksum == checksum_of(segment);
}

void log_open(struct log *log, char *base, size_t bytes, int ranks, uint64_t job)
{
    *log = (struct log){base, bytes, 0, ranks, job};
    while (is_whole(log, log->used))
        log->used += ((const struct segment *)(log->base + log->used))->bytes;
}

const struct segment *log_next(const struct log *log, const struct segment *segment)
{
    const char *next = segment ? (const char *)segment + segment->bytes : log->base;
    return next < log->base + log->used ? (const struct segment *)next : NULL;
}

/* ---- Records ---- */

static char *write_record(char *at, const struct count *entry)
{
    uint16_t length = (uint16_t)entry->length;
    memcpy(at, &entry->times, 8);
    memcpy(at + 8, &length, 2);
    memcpy(at + RECORD_HEAD, entry->word, entry->length);
    return at + RECORD_HEAD + entry->length;
}

void bucket_read(const char *bytes, size_t length, struct counts *counts)
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

/* The start of each rank's bucket, from the sizes of the buckets. */
static void set_bucket_offsets(struct segment *segment, const struct counts *counts, int ranks)
{
    uint64_t at = segment_head(ranks);
    memset(segment->bucket_offsets, 0, ((size_t)ranks + 1) * sizeof(uint64_t));
    for (size_t i = 0; i < counts->room; i++)
        if (counts->entries[i].word)
            segment->bucket_offsets[word_owner(counts->entries[i].hash, ranks)] +=
                RECORD_HEAD + counts->entries[i].length;
    for (int rank = 0; rank <= ranks; rank++) {
        uint64_t length = segment->bucket_offsets[rank];
        segment->bucket_offsets[rank] = at;
        at += length;
    }
    segment->bytes = (at + 7) / 8 * 8;
}

void log_append(struct log *log, int64_t part, const struct counts *counts)
{
    struct segment *head = calloc(1, segment_head(log->ranks));
    char **ends = malloc((size_t)log->ranks * sizeof(*ends));
    if (!head || !ends)
        fail("no memory for a segment's head");
    set_bucket_offsets(head, counts, log->ranks);
    if (head->bytes > log->bytes - log->used)
        fail("the log of %zu bytes is full behind part %lld: give it more with -l", log->bytes,
             (long long)part);
    struct segment *segment = (struct segment *)(log->base + log->used);
    head->part = part;
    head->job = log->job;
    memcpy(segment, head, segment_head(log->ranks));
    for (int rank = 0; rank < log->ranks; rank++)
        ends[rank] = (char *)segment + head->bucket_offsets[rank];
    for (size_t i = 0; i < counts->room; i++)
        if (counts->entries[i].word) {
            char **end = &ends[word_owner(counts->entries[i].hash, log->ranks)];
            *end = write_record(*end, &counts->entries[i]);
        }
    memset((char *)segment + head->bucket_offsets[log->ranks], 0,
           head->bytes - head->bucket_offsets[log->ranks]);
    segment->checksum = checksum_of(segment);
    log->used += head->bytes;
    free(ends);
    free(head);
}
