/* bench/storage/mapreduce.h: a word count in two ways, and their common parts. */
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
    int is_incremental; /* the two-sided way writes only what is new */
    int is_talkative;
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

void say_checkpoint(const struct job *job, long part);

#endif
