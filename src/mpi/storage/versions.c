/* src/mpi/storage/versions.c: connects storage/versions with MPI and with the window. */
#include "mpi/storage/versions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "mpi/real/message.h"
#include "storage/versions/versions.h"

/* ---- The ranks ---- */

/* A rank that it did not reach is noticed by the agreement that follows. */
static int broadcast(void *context, void *data, size_t size)
{
    struct storage_window *storage = context;
    return real()->Bcast(data, (int)size, MPI_BYTE, 0, storage->comm) == MPI_SUCCESS ? 0 : -EIO;
}

static int least(void *context, int64_t mine, int64_t *result)
{
    return storage_least(context, mine, result);
}

/* ---- The part ---- */

/* The storage part's pages are tracked; the memory part is reported as a whole, to be compared. */
static int changes(void *context, struct storage_ranges *changes)
{
    struct storage_window *storage = context;
    const struct storage_layout *layout = &storage->own.layout;
    int result = storage_region_changes(&storage->own.region, changes);
    if (result < 0 || !layout->memory_length)
        return result;
    uint64_t shift = layout->storage_first ? 0 : layout->memory_length;
    uint64_t memory = layout->storage_first ? layout->storage_length : 0;
    void *more = realloc(changes->range, (changes->count + 1) * sizeof(*changes->range));
    if (!more)
        return -ENOMEM;
    changes->range = more;
    changes->room = changes->count + 1;
    for (size_t i = 0; i < changes->count; i++)
        changes->range[i].offset += shift;
    changes->range[changes->count++] = (struct storage_range){memory, layout->memory_length};
    return 1;
}

static struct versions_part part_of(struct storage_window *storage, const char *base)
{
    const struct storage_layout *layout = &storage->own.layout;
    return (struct versions_part){
        .path = storage->hints.filename,
        .base = (char *)base,
        .length = layout->storage_length + layout->memory_length,
        .is_in_file = layout->memory_length == 0,
        .offset = layout->file_offset,
        .changes = changes,
        .context = storage,
    };
}

/* Only stores through this process's page tables are seen: not those of other processes that map
 * the file or the memory, of network devices, or of a second rank on the same bytes. */
static int sees_all_stores(const struct window *window)
{
    const struct storage_window *storage = window->memory;
    return (window->group->is_one_space || storage->ranks == 1) && !storage->overlaps;
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

/* The number of versions that all ranks want; -EINVAL when they differ. */
static int agree_on_number(struct storage_window *storage, struct storage_error *error)
{
    int64_t mine = storage->hints.versions, lowest = 0, highest = 0;
    int result = least(storage, mine, &lowest);
    if (result == 0)
        result = least(storage, -mine, &highest);
    if (result != 0 || lowest == -highest)
        return result != 0 ? result : (int)lowest;
    return storage->rank != 0 ? -EINVAL
                              : storage_fail(error, -EINVAL,
                                             "the hint storage_alloc_versions differs between "
                                             "ranks: give all ranks the same value");
}

/* Prints the error, unless another rank has explained it. */
static int report(const struct storage_window *storage, const char *call, int result,
                  const struct storage_error *error)
{
    if (result == -EBUSY)
        result = -EWOULDBLOCK;
    return result < 0 && error->text[0] ? storage_report(storage->rank, call, result, error)
                                        : storage_class(result < 0 ? result : 0);
}

int storage_versions_open(struct window *window, const char *call)
{
    struct storage_window *storage = window->memory;
    struct versions_group group = {storage, (uint32_t)storage->rank, (uint32_t)storage->ranks,
                                   broadcast, least};
    struct storage_error error = {""};
    struct versions *versions = NULL;
    int64_t all = 0;
    int keep = agree_on_number(storage, &error), result = keep < 0 ? keep : 0;
    if (keep == 0)
        return MPI_SUCCESS;
    if (keep > 0 && (result = least(storage, check_hints(storage, &error), &all)) == 0)
        result = (int)all;
    if (result == 0 && sees_all_stores(window))
        (void)storage_region_track(&storage->own.region); /* otherwise everything is compared */
    if (result == 0) {
        struct versions_part part = part_of(storage, window->base);
        result = versions_open(&part, &group, (unsigned)keep, NULL, &versions, &error);
    }
    storage->versions = versions;
    if (result == 0 && error.text[0])
        layer_message(storage->rank, "%s: %s", call, error.text);
    return report(storage, call, result, &error);
}

void storage_versions_close(struct storage_window *storage)
{
    versions_close(storage->versions);
    storage->versions = NULL;
}

int storage_versions_commit(struct storage_window *storage, uint64_t size, const char *call)
{
    struct storage_error error = {""};
    uint64_t began = futex_now_ns();
    atomic_thread_fence(memory_order_seq_cst); /* as MPI_Win_sync: stores of all ranks come first */
    int result = versions_commit(storage->versions, &error);
    storage_count(&storage->counts->commit, size, began, result);
    return report(storage, call, result, &error);
}

uint64_t storage_versions_newest(const struct storage_window *storage)
{
    return versions_newest(storage->versions);
}
