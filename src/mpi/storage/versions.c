/* src/mpi/storage/versions.c: connects storage/versions with MPI and with the window. */
#include "mpi/storage/storage_window.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "mpi/pmpi/message.h"
#include "storage/versions/versions.h"

/* ---- The ranks ---- */

static int bcast(void *context, void *data, size_t size)
{
    return bcast_root0(context, data, size);
}

static int min(void *context, int64_t value, int64_t *result)
{
    return allreduce_min(context, value, result);
}

/* ---- The part ---- */

/* The storage part's pages are tracked; the memory part is reported as a whole, so the commit
 * compares it. */
static int dirty_ranges(void *context, struct storage_ranges *ranges)
{
    struct window *window = context;
    const struct storage_window *storage = window->provider_data;
    const struct storage_layout *layout = &storage->own.layout;
    int result = dirty_pages_take(window, ranges);
    if (result < 0 || !layout->memory_length)
        return result;
    uint64_t memory = layout->storage_first ? layout->storage_length : 0;
    int added = storage_ranges_add(ranges, memory, layout->memory_length);
    return added < 0 ? added : 1;
}

static int check_region(void *context, struct storage_error *error)
{
    struct storage_window *storage = ((struct window *)context)->provider_data;
    return storage_region_check(&storage->own.region, storage->own.region.file.fd, error);
}

enum {
    REPORT_MIN_BYTES = 256 << 20 /* smaller parts are durable soon */
};
static const uint64_t first_report_ns = UINT64_C(3000000000); /* after the start of a commit */
static const uint64_t report_interval_ns = UINT64_C(5000000000);

static uint64_t seconds(uint64_t nanoseconds)
{
    return (nanoseconds + 500000000) / 1000000000;
}

/* Reports the progress of a long commit. Only rank 0 does, whose part stands for the others'. When
 * everything is written the file system makes it durable without progress reports; the estimate of
 * that time is the last commit's. */
static void progress(void *context, uint64_t done, uint64_t of)
{
    struct storage_window *storage = ((struct window *)context)->provider_data;
    uint64_t now = futex_now_ns(), took = now - storage->progress.began, mib = done >> 20;
    const char *file = storage->hints.filename;
    storage->progress.bytes = of;
    if (mib && done < of && took >= first_report_ns &&
        now - storage->progress.reported >= report_interval_ns) {
        storage->progress.reported = now;
        layer_message(storage->rank,
                      "commit of %s: %" PRIu64 " of %" PRIu64 " MiB of this rank are written, "
                      "about %" PRIu64 " s left to write the rest",
                      file, mib, of >> 20, seconds(took / mib * ((of - done) >> 20)));
    }
    if (done < of || of < REPORT_MIN_BYTES)
        return;
    uint64_t expected =
        storage->progress.last_bytes
            ? storage->progress.last_took / (storage->progress.last_bytes >> 20) * mib
            : 0;
    if (!expected || (expected <= took && took >= first_report_ns))
        layer_message(storage->rank,
                      "commit of %s: %" PRIu64 " MiB of this rank are written, and are now made "
                      "durable",
                      file, mib);
    else if (expected > took && expected >= first_report_ns)
        layer_message(storage->rank,
                      "commit of %s: %" PRIu64 " MiB of this rank are written, and are now made "
                      "durable: about %" PRIu64 " s left",
                      file, mib, seconds(expected - took));
}

static struct versions_part part_of(struct window *window)
{
    const struct storage_window *storage = window->provider_data;
    const struct storage_layout *layout = &storage->own.layout;
    return (struct versions_part){
        .path = storage->hints.filename,
        .base = window->base,
        .length = layout->storage_length + layout->memory_length,
        .is_in_file = layout->memory_length == 0,
        .offset = layout->file_offset,
        .changes = dirty_ranges,
        .check = check_region,
        .context = window,
        .progress = storage->rank == 0 ? progress : NULL,
    };
}

/* ---- Open and close ---- */

static int check_hints(const struct storage_window *storage, struct storage_error *error)
{
    const struct storage_hints *hints = &storage->hints;
    if (hints->unlink || hints->discard)
        return storage_fail(error, -EINVAL,
                            "the hint storage_alloc_%s has the value \"true\": a window with "
                            "versions (storage_alloc_versions) keeps its file and its data",
                            hints->unlink ? "unlink" : "discard");
    if (storage->own.region.file.is_device)
        return storage_fail(error, -EINVAL,
                            "the hint storage_alloc_versions is set: %s is a block device, and "
                            "versions lie in a directory beside the data; give a file",
                            hints->filename);
    return 0;
}

/* The number of versions that all ranks on storage want; -EINVAL if it differs. */
static int agree_on_versions_kept(struct storage_window *storage, struct storage_error *error)
{
    int64_t wanted = storage->hints.versions, lowest = 0, highest = 0;
    int has_none = !storage->hints.is_storage;
    int result = allreduce_min(&storage->all_ranks, has_none ? INT64_MAX : wanted, &lowest);
    if (result == 0)
        result = allreduce_min(&storage->all_ranks, has_none ? INT64_MAX : -wanted, &highest);
    if (result != 0 || lowest == -highest)
        return result != 0 ? result : (int)lowest;
    return storage->rank != 0 ? -EINVAL
                              : storage_fail(error, -EINVAL,
                                             "the hint storage_alloc_versions differs between "
                                             "ranks: give all ranks the same value");
}

/* Prints the error, unless another rank has printed it. */
static int report(const struct storage_window *storage, const char *call, int result,
                  const struct storage_error *error)
{
    if (result == -EBUSY)
        result = -EWOULDBLOCK;
    return result < 0 && error->text[0] ? storage_report(storage->rank, call, result, error)
                                        : storage_error_class(result < 0 ? result : 0);
}

/* ---- Windows of which some ranks have a part in memory ---- */

/* Sets *ranks to the ranks that have versions. Collective; the same result on all ranks. */
static int find_versioned_ranks(struct storage_window *storage, struct agreement_comm **ranks,
                                struct storage_error *error)
{
    int has_none = !storage->hints.is_storage, rank = 0, count = 0;
    int64_t all = 0;
    MPI_Comm comm = MPI_COMM_NULL;
    *ranks = &storage->all_ranks;
    if (!storage->has_memory_ranks)
        return 0;
    *ranks = &storage->versioned_ranks;
    int split = pmpi()->Comm_split(storage->all_ranks.comm, has_none ? MPI_UNDEFINED : 0,
                                   storage->rank, &comm);
    if (split == MPI_SUCCESS && !has_none)
        split = pmpi()->Comm_rank(comm, &rank);
    if (split == MPI_SUCCESS && !has_none)
        split = pmpi()->Comm_size(comm, &count);
    int local_result = split == MPI_SUCCESS ? 0 : -EIO;
    if (comm != MPI_COMM_NULL) {
        if (agreement_comm_init(*ranks, storage->group, rank, count) < 0)
            local_result = storage_fail(error, -ENOMEM, "out of memory");
        (*ranks)->comm = comm; /* inherits the error handler, MPI_ERRORS_RETURN */
    }
    int result = allreduce_min(&storage->all_ranks, local_result, &all);
    return result == 0 ? (int)all : result;
}

/* All ranks get the result and the newest version of the ranks that have versions. */
static int share_newest_version(struct storage_window *storage, int result_here)
{
    int64_t newest = INT64_MAX;
    if (storage->versions)
        storage->newest_version = versions_newest(storage->versions);
    if (!storage->has_memory_ranks)
        return result_here;
    if (result_here < 0 || storage->hints.is_storage)
        newest = result_here < 0 ? result_here : (int64_t)storage->newest_version;
    int result = allreduce_min(&storage->all_ranks, newest, &newest);
    if (result < 0 || newest < 0)
        return result < 0 ? result : (int)newest;
    storage->newest_version = (uint64_t)newest;
    return 0;
}

/* ---- The calls ---- */

int storage_versions_open(struct window *window, const char *call)
{
    struct storage_window *storage = window->provider_data;
    struct storage_error error = {""};
    struct agreement_comm *ranks;
    int64_t all = 0;
    int keep = agree_on_versions_kept(storage, &error), result = keep < 0 ? keep : 0;
    if (keep == 0)
        return MPI_SUCCESS;
    if (keep > 0 &&
        (result = allreduce_min(&storage->all_ranks, check_hints(storage, &error), &all)) == 0)
        result = (int)all;
    if (result == 0)
        result = find_versioned_ranks(storage, &ranks, &error);
    if (result == 0) {
        if (storage->hints.is_storage) {
            struct versions_part part = part_of(window);
            struct versions_group group = {ranks, (uint32_t)ranks->rank, (uint32_t)ranks->count,
                                           bcast, min};
            result = versions_open(&part, &group, (unsigned)keep, NULL, &storage->versions, &error);
        }
        result = share_newest_version(storage, result);
    }
    if (result == 0)
        dirty_tracking_begin(window);
    storage->versions_kept = result == 0 ? keep : 0;
    if (result == 0 && error.text[0])
        layer_message(storage->rank, "%s: %s", call, error.text);
    return report(storage, call, result, &error);
}

void storage_versions_close(struct storage_window *storage)
{
    versions_close(storage->versions);
    storage->versions = NULL;
}

/* No part is written before all ranks have called: until then they may store into it, also through
 * the mapping of another task of the space. Then all ranks publish their dirty pages before any
 * part is written; the ranks with versions agree on that inside versions_commit. */
int storage_versions_commit(struct window *window, const char *call)
{
    struct storage_window *storage = window->provider_data;
    struct storage_error error = {""};
    uint64_t began = futex_now_ns();
    int64_t all = 0;
    int result = 0;
    atomic_thread_fence(memory_order_seq_cst); /* orders preceding stores, as MPI_Win_sync does */
    if (!window->group->is_one_space)
        result = allreduce_min(&storage->all_ranks, 0, &all);
    if (result == 0)
        dirty_pages_publish(window);
    if (result == 0 && storage->has_memory_ranks)
        result = allreduce_min(&storage->all_ranks, 0, &all);
    storage->progress.began = began;
    storage->progress.bytes = 0;
    if (result == 0 && storage->versions)
        result = versions_commit(storage->versions, &error);
    if (result == 0 && storage->progress.bytes >= REPORT_MIN_BYTES) {
        storage->progress.last_took = futex_now_ns() - began;
        storage->progress.last_bytes = storage->progress.bytes;
    }
    result = share_newest_version(storage, result);
    storage_counter_add(&storage->counts->commit, storage->versions ? window->size : 0, began,
                        result);
    return report(storage, call, result, &error);
}

uint64_t storage_versions_newest(const struct storage_window *storage)
{
    return storage->newest_version;
}
