/* bench/storage/log.h: what a rank has counted so far, one segment for each part of the text, one
 * behind the other in memory or in a window; and at last one for what it has reduced.
 *
 * A segment holds a bucket of records for each rank that they belong to, in a form that others can
 * read with MPI_Get. Nothing in the log changes any more once it is there: so a log that was
 * synchronised behind each segment is whole up to there, whatever the system has written of what
 * followed; checksums tell where that is. */
#ifndef BENCH_STORAGE_LOG_H
#define BENCH_STORAGE_LOG_H

#include "words.h"

enum { RESULT = -1 }; /* the part of a segment with reduced counts */

struct segment {
    uint64_t checksum; /* of everything behind it */
    uint64_t bytes;    /* with this head; of whole words */
    int64_t part;
    uint64_t job; /* what was counted, and how it was cut: logs of other jobs are not taken up */
    uint64_t begins[]; /* of each rank's bucket, from the head; one more: the end */
};

struct log {
    char *base;
    size_t bytes, used;
    int ranks;
    uint64_t job;
};

/* Takes up what is in the memory already: up to the first segment that is not whole. */
void log_open(struct log *log, char *base, size_t bytes, int ranks, uint64_t job);

/* Ends the job when the log has no room left. */
void log_append(struct log *log, int64_t part, const struct counts *counts);

/* The segments in turn: the first for NULL; NULL behind the last. */
const struct segment *log_next(const struct log *log, const struct segment *segment);

/* Adds the records of one bucket to the counts. */
void bucket_read(const char *bytes, size_t length, struct counts *counts);

size_t segment_head(int ranks);
int word_owner(uint64_t hash, int ranks);

#endif
