/* src/mpi/storage/dirty_pages.c: which pages of a window with versions are dirty. */
#include "mpi/storage/storage_window.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "mpi/pmpi/message.h"
#include "mpi/rma/rma.h"
#include "storage/versions/slots.h"

enum { BITS = 64 };

/* ---- Forks ---- */

/* Of this process so far; any thread adds, relaxed: a child that stores into a window is waited for
 * before the commit, by whatever the program orders its stores with. */
static _Atomic uint32_t forks;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    (void)pthread_atfork(count_fork, NULL, NULL);
}

/* ---- The maps ---- */

/* Words of the map of a part, a bit for each page. */
static size_t words_of(size_t size)
{
    return (size / VERSIONS_PAGE + 1 + BITS - 1) / BITS;
}

size_t storage_written_size(const uint64_t *sizes, int ranks)
{
    size_t words = 0;
    for (int i = 0; i < ranks; i++)
        words += words_of(sizes[i]);
    return words * sizeof(uint64_t);
}

int storage_written_place(struct storage_window *storage, const uint64_t *sizes, void *maps)
{
    _Atomic uint64_t *next = maps;
    storage->written = calloc((size_t)storage->ranks, sizeof(*storage->written));
    if (!storage->written)
        return -ENOMEM;
    for (int i = 0; i < storage->ranks; i++) {
        storage->written[i] = next;
        next += words_of(sizes[i]);
    }
    return 0;
}

/* Relaxed: an agreement comes before the map is taken. */
static void add_pages(_Atomic uint64_t *map, uint64_t begin, uint64_t end)
{
    for (uint64_t page = begin / VERSIONS_PAGE; page <= (end - 1) / VERSIONS_PAGE; page++)
        atomic_fetch_or_explicit(&map[page / BITS], UINT64_C(1) << page % BITS,
                                 memory_order_relaxed);
}

/* ---- What is unseen ---- */

static struct rma_part *shared_part(const struct window *window, int rank)
{
    return &(window->rma_shared ? window->rma_shared : window->intra_node->shared)->rank[rank];
}

/* Whether the processes of the node share memory about this window. */
static int is_shared(const struct window *window)
{
    return window->rma_shared || window->intra_node;
}

static void set_unseen(const struct window *window, int rank)
{
    atomic_store_explicit(&shared_part(window, rank)->is_unseen, 1, memory_order_relaxed);
}

static int is_unseen(const struct window *window, int rank)
{
    return atomic_load_explicit(&shared_part(window, rank)->is_unseen, memory_order_relaxed);
}

/* Whether the file's pages may be pinned for long, so that a device writes to them. */
static int can_be_pinned(const struct storage_window *storage)
{
    struct statfs status;
    return fstatfs(storage->own.region.file.fd, &status) != 0 || status.f_type == TMPFS_MAGIC ||
           status.f_type == HUGETLBFS_MAGIC;
}

/* Whether all stores into this rank's part are seen. */
static int is_seen(const struct window *window)
{
    const struct storage_window *storage = window->memory;
    if (storage->overlaps) /* through the other parts' mappings */
        return 0;
    if (window->group->is_one_space || storage->ranks == 1)
        return 1;
    return storage->written && access("/dev/xpmem", F_OK) != 0 && access("/dev/knem", F_OK) != 0 &&
           !(window->intra_node && can_be_pinned(storage));
}

/* ---- Tracking ---- */

/* Where the region's first byte is in the part. */
static uint64_t storage_at(const struct storage_part *part)
{
    return part->layout.storage_first ? 0 : part->layout.memory_length;
}

static struct storage_part *part_of(struct storage_window *storage, int rank)
{
    return rank == storage->rank ? &storage->own : &storage->others[rank];
}

/* A contiguous window: each process has mapped all of it, and stores through that mapping. */
static int has_mapped_whole(const struct storage_window *storage)
{
    return storage->written && storage->is_contiguous;
}

static void set_all_unseen(const struct window *window)
{
    for (int i = 0; i < window->group->ranks; i++)
        if (group_is_intra_node(window->group, i))
            set_unseen(window, i);
}

/* 0, or a negative number: stores into the region are not seen. */
static int track(const struct storage_window *storage, struct storage_region *region)
{
    static _Atomic int is_told; /* any thread that opens or uses a window sets it, relaxed */
    int result = storage->hints.is_untracked ? -ENOTSUP : storage_region_track(region);
    if (result == -EBUSY && !atomic_exchange_explicit(&is_told, 1, memory_order_relaxed))
        layer_message(
            storage->rank,
            "stores into %s are not tracked, since a userfaultfd of another library watches "
            "this memory: each commit reads and compares all of it; with libfabric set "
            "FI_MR_CACHE_MONITOR=memhooks",
            storage->hints.is_storage ? storage->hints.filename : "another rank's file");
    return result;
}

void storage_written_begin(struct window *window)
{
    struct storage_window *storage = window->memory;
    if (!is_shared(window))
        return;
    (void)pthread_once(&forks_once, watch_forks);
    storage->forks = atomic_load_explicit(&forks, memory_order_relaxed);
    int is_tracked = is_seen(window);
    if (is_tracked)
        is_tracked =
            track(storage, has_mapped_whole(storage) ? &storage->whole : &storage->own.region) == 0;
    if (!is_tracked && has_mapped_whole(storage))
        set_all_unseen(window);
    else if (!is_tracked)
        set_unseen(window, storage->rank);
}

/* Any thread. Without the mutex two of them might track one region. */
void storage_written_await(struct window *window, int rank)
{
    struct storage_window *storage = window->memory;
    if (!storage->kept || !storage->written || storage->is_contiguous || rank == storage->rank ||
        storage->others[rank].region.is_borrowed || is_unseen(window, rank))
        return;
    pthread_mutex_lock(&storage->mutex);
    if (track(storage, &storage->others[rank].region) < 0)
        set_unseen(window, rank);
    pthread_mutex_unlock(&storage->mutex);
}

/* ---- A commit ---- */

/* Adds ranges of a region, whose first byte is byte `at` of the part; of these the storage part's.
 */
static void add_ranges(struct storage_window *storage, int rank, int64_t at,
                       const struct storage_ranges *ranges)
{
    const struct storage_part *part = part_of(storage, rank);
    int64_t first = (int64_t)storage_at(part);
    int64_t last = first + (int64_t)part->layout.storage_length;
    for (size_t i = 0; i < ranges->count; i++) {
        int64_t begin = at + (int64_t)ranges->range[i].offset;
        int64_t end = begin + (int64_t)ranges->range[i].length;
        begin = begin < first ? first : begin;
        end = end > last ? last : end;
        if (begin < end)
            add_pages(storage->written[rank], (uint64_t)begin, (uint64_t)end);
    }
}

static void tell_whole(struct window *window, struct storage_ranges *ranges)
{
    struct storage_window *storage = window->memory;
    if (!storage->whole.changes)
        return; /* then all parts are unseen */
    if (storage_region_changes(&storage->whole, ranges) != 0) {
        set_all_unseen(window);
        return;
    }
    for (int i = 0; i < storage->ranks; i++)
        add_ranges(storage, i,
                   (int64_t)(storage->whole.file_offset - part_of(storage, i)->layout.file_offset),
                   ranges);
}

static void tell_part(struct window *window, int rank, struct storage_ranges *ranges)
{
    struct storage_window *storage = window->memory;
    struct storage_part *part = part_of(storage, rank);
    if (!part->region.changes)
        return; /* nothing was stored into it here, or it is unseen */
    if (storage_region_changes(&part->region, ranges) == 0)
        add_ranges(storage, rank, (int64_t)storage_at(part), ranges);
    else
        set_unseen(window, rank);
}

void storage_written_tell(struct window *window)
{
    struct storage_window *storage = window->memory;
    struct storage_ranges ranges = {0};
    if (!is_shared(window))
        return;
    if (storage->forks != atomic_load_explicit(&forks, memory_order_relaxed))
        set_all_unseen(window);
    if (has_mapped_whole(storage))
        tell_whole(window, &ranges);
    else if (storage->written)
        for (int i = 0; i < storage->ranks; i++)
            if (i != storage->rank)
                tell_part(window, i, &ranges);
    free(ranges.range);
}

/* Moves the pages of this rank's map to the ranges. 0 or -ENOMEM. */
static int collect_pages(struct window *window, struct storage_ranges *ranges)
{
    struct storage_window *storage = window->memory;
    _Atomic uint64_t *map = storage->written[storage->rank];
    size_t words = words_of(storage_part_size(&storage->own));
    for (size_t i = 0; i < words; i++) {
        uint64_t word = atomic_load_explicit(&map[i], memory_order_relaxed);
        if (word)
            word = atomic_exchange_explicit(&map[i], 0, memory_order_relaxed);
        for (; word; word &= word - 1) {
            uint64_t page = i * BITS + (uint64_t)__builtin_ctzll(word);
            if (storage_ranges_add(ranges, page * VERSIONS_PAGE, VERSIONS_PAGE) < 0) {
                set_unseen(window, storage->rank);
                return -ENOMEM;
            }
        }
    }
    return 0;
}

int storage_written_take(struct window *window, struct storage_ranges *ranges)
{
    struct storage_window *storage = window->memory;
    const struct storage_part *own = &storage->own;
    uint64_t at = storage_at(own);
    int result = 0;
    ranges->count = 0;
    if (!is_shared(window) || is_unseen(window, storage->rank))
        result = 1;
    else if (!has_mapped_whole(storage))
        result = storage_region_changes(&storage->own.region, ranges);
    if (result == 0 && storage->written) {
        add_ranges(storage, storage->rank, (int64_t)at, ranges);
        ranges->count = 0;
        return collect_pages(window, ranges);
    }
    for (size_t i = 0; result == 0 && i < ranges->count; i++)
        ranges->range[i].offset += at;
    if (result != 1)
        return result;
    ranges->count = 0;
    result =
        own->layout.storage_length ? storage_ranges_add(ranges, at, own->layout.storage_length) : 0;
    return result < 0 ? result : 1;
}
