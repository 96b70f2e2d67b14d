/* bench/storage/mapreduce.h: a count of words, in two ways that share their parts. */
#ifndef BENCH_STORAGE_MAPREDUCE_H
#define BENCH_STORAGE_MAPREDUCE_H

#include "log.h"
#include "window.h"

struct job {
    struct window_options options; /* of the windows; for the two-sided way the file */
    struct text text;
    size_t log_bytes;
    long own_parts; /* of the text, for this rank: rank, rank + ranks, ... */
    int rank, ranks;
    int has_checkpoints;
    int is_incremental; /* the two-sided way writes what is new, not all that it has */
    int is_talkative;
    double checkpoint_seconds, map_seconds, reduce_seconds;
    uint64_t checkpoint_bytes; /* of the log, that were made durable */
};

/* Counts the words of the text whose owner is this rank. Collective. */
void count_one_sided(struct job *job, struct counts *counts);
void count_two_sided(struct job *job, struct counts *counts);

/* ---- What both do ---- */

/* What the log is of. */
uint64_t job_identity(const struct job *job);

long job_part(const struct job *job, long n);

/* Maps a part whose bytes were read, and reduces it within itself: a new segment. */
void map_part(struct job *job, struct log *log, long part, char *bytes);

/* How many of this rank's parts are in the log, and whether it holds the reduced counts. */
long parts_in(const struct log *log, const struct segment **result);

void say_checkpoint(const struct job *job, long part);

#endif
