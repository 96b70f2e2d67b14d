/* bench/storage/mapreduce.h: a word count in two ways, and their common parts. */
#ifndef BENCH_STORAGE_MAPREDUCE_H
#define BENCH_STORAGE_MAPREDUCE_H

#include "window.h"
#include "words.h"

/* ---- log.c: a rank's log of counts in memory or in a window ---- */

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

struct log {
    char *base;
    size_t bytes, used;
    int ranks;
    uint64_t job;
};

/* Adopts what the memory already holds, up to the first segment that is not intact. */
void log_open(struct log *log, char *base, size_t bytes, int ranks, uint64_t job);

/* Ends the job if the log is full. */
void log_append(struct log *log, int64_t part, const struct counts *counts);

/* Iterates over the segments: the first for NULL, NULL after the last. */
const struct segment *log_next(const struct log *log, const struct segment *segment);

/* Adds the records of one bucket to the counts. */
void bucket_read(const char *bytes, size_t length, struct counts *counts);

size_t segment_head(int ranks);
int word_owner(uint64_t hash, int ranks);

/* ---- The job ---- */

struct job {
    struct window_options options; /* of the windows; for the two-sided way the file */
    struct text text;
    size_t log_bytes;
    long own_parts; /* of the text, for this rank: rank, rank + ranks, ... */
    int rank, ranks;
    int has_checkpoints;
    int is_incremental; /* the two-sided way writes only what is new */
    int is_verbose;
    double checkpoint_seconds, map_seconds, reduce_seconds;
    uint64_t checkpoint_bytes; /* of the log, made durable */
};

/* Counts the words of the text that this rank owns. Collective. */
void count_one_sided(struct job *job, struct counts *counts);
void count_two_sided(struct job *job, struct counts *counts);

/* ---- Common to both ways ---- */

/* Identifies the job of a log. */
uint64_t job_identity(const struct job *job);

long job_part(const struct job *job, long n);

/* Maps a part that was read and reduces it locally; appends a segment. */
void map_part(struct job *job, struct log *log, long part, char *bytes);

/* The number of this rank's parts in the log, and whether it holds the reduced counts. */
long parts_in(const struct log *log, const struct segment **result);

void print_checkpoint(const struct job *job, long part);

#endif
