/* bench/storage/two_sided.c: MapReduce by collective communication (after Hoefler, Lumsdaine,
 * Dongarra, "Towards efficient MapReduce using MPI", EuroPVM/MPI 2009): all ranks read and map
 * their n-th parts together and exchange their buckets at the end. A checkpoint writes the ranks'
 * logs to one file by collective MPI I/O: complete, as in the paper, or only what is new. */
#include "mapreduce.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct state {
    struct job *job;
    struct log log;
    MPI_File file; /* of the checkpoints */
    size_t durable;
};

/* ---- Checkpoints ---- */

static MPI_Offset place(const struct state *state, size_t at)
{
    return (MPI_Offset)state->job->rank * (MPI_Offset)state->job->log_bytes + (MPI_Offset)at;
}

/* In chunks whose size fits an int; all ranks take part in each. */
static void write_log(struct state *state, size_t from)
{
    const char *path = state->job->options.file;
    long left = (long)(state->log.used - from), most;
    MPI_Allreduce(&left, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    for (; most > 0; most -= 1 << 30) {
        int step = left > 1 << 30 ? 1 << 30 : left > 0 ? (int)left : 0;
        check_io(MPI_File_write_at_all(state->file, place(state, from), state->log.base + from,
                                       step, MPI_BYTE, MPI_STATUS_IGNORE),
                 "write", path);
        from += (size_t)step;
        left -= step;
    }
    check_io(MPI_File_sync(state->file), "synchronise", path);
}

static void checkpoint(struct state *state, long part)
{
    struct job *job = state->job;
    if (!job->has_checkpoints)
        return;
    double start = MPI_Wtime();
    size_t from = job->is_incremental ? state->durable : 0;
    write_log(state, from);
    job->checkpoint_bytes += state->log.used - from;
    state->durable = state->log.used;
    job->checkpoint_seconds += MPI_Wtime() - start;
    print_checkpoint(job, part);
}

/* Reads the log of an earlier job from the file; returns its number of parts. */
static long open_checkpoints(struct state *state, const struct segment **result)
{
    struct job *job = state->job;
    MPI_Status status;
    int got = 0;
    if (job->has_checkpoints) {
        if (!job->options.file)
            fail("checkpoints need a file: -f FILE");
        if (job->rank == 0 && !job->options.is_kept)
            remove(job->options.file);
        MPI_Barrier(MPI_COMM_WORLD);
        check_io(MPI_File_open(MPI_COMM_WORLD, (char *)job->options.file,
                               MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &state->file),
                 "open", job->options.file);
        if (job->log_bytes > INT_MAX)
            fail("logs of more than 2 GiB cannot be read back: give -l less");
        check_io(MPI_File_read_at_all(state->file, place(state, 0), state->log.base,
                                      (int)job->log_bytes, MPI_BYTE, &status),
                 "read", job->options.file);
        MPI_Get_count(&status, MPI_BYTE, &got);
    }
    memset(state->log.base + got, 0, job->log_bytes - (size_t)got);
    log_open(&state->log, state->log.base, job->log_bytes, job->ranks, job_identity(job));
    return parts_in(&state->log, result);
}

/* ---- Map ---- */

static char *read_part(struct job *job, MPI_File file, long part)
{
    struct extent extent = part >= 0 ? text_extent(&job->text, part) : (struct extent){0, 0};
    char *bytes = malloc(extent.length + 1);
    MPI_Status status;
    int got;
    if (!bytes || extent.length > INT_MAX)
        fail("no memory for a part of %zu bytes: give smaller ones with -s", extent.length);
    check_io(
        MPI_File_read_at_all(file, extent.offset, bytes, (int)extent.length, MPI_BYTE, &status),
        "read", job->text.path);
    MPI_Get_count(&status, MPI_BYTE, &got);
    if ((size_t)got != extent.length)
        fail("%s became shorter while it was read", job->text.path);
    return bytes;
}

static void map_own_parts(struct state *state, long done)
{
    struct job *job = state->job;
    MPI_File file;
    long first;
    MPI_Allreduce(&done, &first, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
    check_io(MPI_File_open(MPI_COMM_WORLD, (char *)job->text.path, MPI_MODE_RDONLY, MPI_INFO_NULL,
                           &file),
             "read", job->text.path);
    for (long n = first; n * job->ranks < job->text.parts; n++) {
        long part = n >= done && n < job->own_parts ? job_part(job, n) : -1;
        char *bytes = read_part(job, file, part);
        if (part >= 0)
            map_part(job, &state->log, part, bytes);
        free(bytes);
        checkpoint(state, part);
        progress("mapreduce: mapped %ld of %ld parts", n + 1, job->own_parts);
    }
    MPI_File_close(&file);
}

/* ---- Reduce ---- */

static void collect(const struct log *log, int rank, char *to, int *length)
{
    *length = 0;
    for (const struct segment *one = NULL; (one = log_next(log, one));) {
        uint64_t bytes =
            one->part == RESULT ? 0 : one->bucket_offsets[rank + 1] - one->bucket_offsets[rank];
        if ((uint64_t)*length + bytes > INT_MAX)
            fail("more than 2 GiB of counts go to rank %d: use more ranks", rank);
        if (to)
            memcpy(to + *length, (const char *)one + one->bucket_offsets[rank], bytes);
        *length += (int)bytes;
    }
}

static int places(const int *lengths, int *at, int ranks)
{
    long sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        at[rank] = (int)sum;
        sum += lengths[rank];
        if (sum > INT_MAX)
            fail("more than 2 GiB of counts in one exchange: use more ranks");
    }
    return (int)sum;
}

static void reduce(struct state *state, struct counts *counts)
{
    int ranks = state->job->ranks, *lengths = malloc(4 * (size_t)ranks * sizeof(int));
    int *theirs = lengths + ranks, *at = theirs + ranks, *from = at + ranks;
    if (!lengths)
        fail("no memory for %d ranks", ranks);
    for (int rank = 0; rank < ranks; rank++)
        collect(&state->log, rank, NULL, &lengths[rank]);
    MPI_Alltoall(lengths, 1, MPI_INT, theirs, 1, MPI_INT, MPI_COMM_WORLD);
    char *out = malloc((size_t)places(lengths, at, ranks) + 1);
    char *in = malloc((size_t)places(theirs, from, ranks) + 1);
    if (!in || !out)
        fail("no memory for the exchange");
    for (int rank = 0; rank < ranks; rank++)
        collect(&state->log, rank, out + at[rank], &lengths[rank]);
    MPI_Alltoallv(out, lengths, at, MPI_BYTE, in, theirs, from, MPI_BYTE, MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks; rank++)
        bucket_read(in + from[rank], (size_t)theirs[rank], counts);
    free(in);
    free(out);
    free(lengths);
}

void count_two_sided(struct job *job, struct counts *counts)
{
    struct state state = {.job = job};
    const struct segment *result;
    state.log.base = malloc(job->log_bytes);
    if (!state.log.base)
        fail("no memory for a log of %zu bytes", job->log_bytes);
    long done = open_checkpoints(&state, &result);
    double start = MPI_Wtime(), mapped;
    map_own_parts(&state, done);
    mapped = MPI_Wtime();
    job->map_seconds = mapped - start - job->checkpoint_seconds;
    reduce(&state, counts); /* collective: also ranks that already have their result */
    if (!result) {
        log_append(&state.log, RESULT, counts);
    }
    checkpoint(&state, RESULT);
    job->reduce_seconds = MPI_Wtime() - mapped;
    if (job->has_checkpoints)
        MPI_File_close(&state.file);
    free(state.log.base);
}
