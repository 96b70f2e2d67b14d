/* bench/storage/one_sided.c: MapReduce by one-sided communication (Rivas-Gomez et al.,
 * section 3.5.2). Each rank's log is a window; a word in another window publishes its length. A
 * rank that has mapped its own parts fetches its buckets from the others' logs as they grow; there
 * is no collective exchange. The window is synchronised after each part and after the
 * reduction. */
#include "mapreduce.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct state {
    struct job *job;
    struct window logs, heads;
    struct log log;
};

/* The words in each rank's window `heads`. */
enum { USED, IS_COMPLETE, HEAD_WORDS };

/* ---- Publishing this rank's log ---- */

static int64_t head_word(struct state *state, int rank, int word, MPI_Op operation, int64_t value)
{
    int64_t found;
    MPI_Fetch_and_op(&value, &found, MPI_INT64_T, rank, word, operation, state->heads.handle);
    MPI_Win_flush(rank, state->heads.handle);
    return found;
}

static void publish(struct state *state, int is_complete)
{
    MPI_Win_sync(state->heads.handle); /* orders the log's contents before its published length */
    head_word(state, state->job->rank, USED, MPI_REPLACE, (int64_t)state->log.used);
    if (is_complete)
        head_word(state, state->job->rank, IS_COMPLETE, MPI_REPLACE, 1);
}

static void checkpoint(struct state *state, long part, size_t before)
{
    if (!state->job->has_checkpoints)
        return;
    double start = MPI_Wtime();
    window_sync(&state->logs);
    state->job->checkpoint_seconds += MPI_Wtime() - start;
    state->job->checkpoint_bytes += state->log.used - before;
    print_checkpoint(state->job, part);
}

/* ---- Map ---- */

struct prefetch {
    MPI_File file;
    MPI_Request request;
    char *bytes;
    long part;
};

static void start_reading(struct job *job, struct prefetch *next, long part)
{
    struct extent extent = text_extent(&job->text, part);
    next->part = part;
    next->bytes = malloc(extent.length + 1);
    if (!next->bytes || extent.length > INT_MAX)
        fail("no memory for a part of %zu bytes: give smaller ones with -s", extent.length);
    MPI_File_iread_at(next->file, extent.offset, next->bytes, (int)extent.length, MPI_BYTE,
                      &next->request);
}

static char *finish_reading(struct job *job, struct prefetch *next)
{
    MPI_Status status;
    int got;
    MPI_Wait(&next->request, &status);
    MPI_Get_count(&status, MPI_BYTE, &got);
    if ((size_t)got != text_extent(&job->text, next->part).length)
        fail("%s became shorter while it was read", job->text.path);
    return next->bytes;
}

/* Reads the next part while this one is mapped. */
static void map_own_parts(struct state *state, long done)
{
    struct job *job = state->job;
    struct prefetch next = {.request = MPI_REQUEST_NULL};
    MPI_File_open(MPI_COMM_SELF, (char *)job->text.path, MPI_MODE_RDONLY, MPI_INFO_NULL,
                  &next.file);
    if (done < job->own_parts)
        start_reading(job, &next, job_part(job, done));
    for (long n = done; n < job->own_parts; n++) {
        long part = next.part;
        char *bytes = finish_reading(job, &next);
        size_t before = state->log.used;
        if (n + 1 < job->own_parts)
            start_reading(job, &next, job_part(job, n + 1));
        map_part(job, &state->log, part, bytes);
        free(bytes);
        checkpoint(state, part, before);
        publish(state, 0);
        progress("mapreduce: mapped %ld of %ld parts", n + 1, job->own_parts);
    }
    MPI_File_close(&next.file);
    publish(state, 1);
}

/* ---- Reduce ---- */

static void get(struct state *state, int rank, uint64_t offset, void *bytes, uint64_t length)
{
    for (uint64_t at = 0, step; at < length; at += step) {
        step = length - at < (1u << 30) ? length - at : 1u << 30;
        MPI_Get((char *)bytes + at, (int)step, MPI_BYTE, rank, (MPI_Aint)(offset + at), (int)step,
                MPI_BYTE, state->logs.handle);
    }
    MPI_Win_flush(rank, state->logs.handle);
}

/* Fetches this rank's bucket of the segment at `offset` of another's log; returns the segment's
 * length. */
static uint64_t fetch_segment(struct state *state, int rank, uint64_t offset, struct counts *counts)
{
    int own = state->job->rank;
    size_t head_bytes = segment_head(state->job->ranks);
    struct segment *head = malloc(head_bytes);
    if (!head)
        fail("no memory for a segment's head");
    get(state, rank, offset, head, head_bytes);
    uint64_t length = head->bucket_offsets[own + 1] - head->bucket_offsets[own],
             bytes = head->bytes;
    char *bucket = malloc(length + 1);
    if (!bucket)
        fail("no memory for %llu bytes of rank %d's counts", (unsigned long long)length, rank);
    if (head->part != RESULT) {
        get(state, rank, offset + head->bucket_offsets[own], bucket, length);
        bucket_read(bucket, length, counts);
    }
    free(bucket);
    free(head);
    return bytes;
}

/* True if the rank's log is complete and has been fetched. */
static int fetch_available(struct state *state, int rank, uint64_t *taken, struct counts *counts)
{
    int is_complete = (int)head_word(state, rank, IS_COMPLETE, MPI_NO_OP, 0);
    uint64_t used = (uint64_t)head_word(state, rank, USED, MPI_NO_OP, 0);
    while (*taken < used)
        *taken += fetch_segment(state, rank, *taken, counts);
    return is_complete;
}

static void reduce(struct state *state, struct counts *counts)
{
    struct job *job = state->job;
    uint64_t *taken = calloc((size_t)job->ranks, sizeof(*taken));
    char *is_done = calloc((size_t)job->ranks, 1);
    int open = job->ranks;
    if (!taken || !is_done)
        fail("no memory for %d ranks", job->ranks);
    while (open > 0)
        for (int n = 0; n < job->ranks; n++) {
            int rank = (job->rank + n) % job->ranks; /* spreads the ranks over the logs */
            if (!is_done[rank])
                open -= is_done[rank] = (char)fetch_available(state, rank, &taken[rank], counts);
            progress("mapreduce: reduces, %d of %d ranks are not complete", open, job->ranks);
        }
    free(taken);
    free(is_done);
}

/* ---- The whole ---- */

static long open_windows(struct state *state, const struct segment **result)
{
    struct job *job = state->job;
    struct window_options in_memory = {.kind = WINDOW_MEMORY};
    window_make(&state->logs, &job->options,
                &(struct window_request){"log", (MPI_Aint)job->log_bytes, 1, 0, 0});
    window_make(
        &state->heads, &in_memory,
        &(struct window_request){"heads", HEAD_WORDS * sizeof(int64_t), sizeof(int64_t), 0, 0});
    memset(state->heads.base, 0, HEAD_WORDS * sizeof(int64_t));
    MPI_Win_lock_all(0, state->logs.handle);
    MPI_Win_lock_all(0, state->heads.handle);
    if (state->logs.is_new && job->options.kind < WINDOW_MMAP)
        memset(state->logs.base, 0, segment_head(job->ranks));
    log_open(&state->log, state->logs.base, job->log_bytes, job->ranks, job_identity(job));
    MPI_Barrier(MPI_COMM_WORLD);
    return parts_in(&state->log, result);
}

void count_one_sided(struct job *job, struct counts *counts)
{
    struct state state = {.job = job};
    const struct segment *result;
    long done = open_windows(&state, &result);
    double start = MPI_Wtime(), mapped;
    map_own_parts(&state, done);
    mapped = MPI_Wtime();
    job->map_seconds = mapped - start - job->checkpoint_seconds;
    if (result) {
        bucket_read((const char *)result + segment_head(job->ranks),
                    result->bucket_offsets[job->ranks] - segment_head(job->ranks), counts);
    } else {
        reduce(&state, counts);
        size_t before = state.log.used;
        log_append(&state.log, RESULT, counts);
        checkpoint(&state, RESULT, before);
    }
    job->reduce_seconds = MPI_Wtime() - mapped;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(state.heads.handle);
    MPI_Win_unlock_all(state.logs.handle);
    window_free(&state.heads);
    window_free(&state.logs);
}
