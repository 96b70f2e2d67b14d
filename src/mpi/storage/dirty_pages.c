/* src/mpi/storage/dirty_pages.c: which pages of a window on storage are dirty. */
#include "mpi/storage/storage_window.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/kernel.h"
#include "mpi/pmpi/message.h"
#include "mpi/rma/rma.h"
#include "storage/versions/slots.h"

enum { BITS_PER_WORD = 64 };

/* ---- Forks ---- */

/* Forks of this process. Any thread adds. Relaxed: the program itself waits for a child that stores
 * into a window before it commits. */
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

/* Words of a part's map, which has a bit for each page. */
static size_t map_words(size_t size)
{
    return (size / VERSIONS_PAGE + 1 + BITS_PER_WORD - 1) / BITS_PER_WORD;
}

size_t dirty_maps_size(const uint64_t *sizes, int ranks)
{
    size_t words = 0;
    for (int i = 0; i < ranks; i++)
        words += map_words(sizes[i]);
    return words * sizeof(uint64_t);
}

int dirty_maps_init(struct storage_window *storage, const uint64_t *sizes, void *maps)
{
    _Atomic uint64_t *next = maps;
    storage->dirty_maps = calloc((size_t)storage->ranks, sizeof(*storage->dirty_maps));
    if (!storage->dirty_maps)
        return -ENOMEM;
    for (int i = 0; i < storage->ranks; i++) {
        storage->dirty_maps[i] = next;
        next += map_words(sizes[i]);
    }
    return 0;
}

/* Relaxed: the ranks agree before the map is read. */
static void add_pages(_Atomic uint64_t *map, uint64_t begin, uint64_t end)
{
    for (uint64_t page = begin / VERSIONS_PAGE; page <= (end - 1) / VERSIONS_PAGE; page++)
        atomic_fetch_or_explicit(&map[page / BITS_PER_WORD], UINT64_C(1) << page % BITS_PER_WORD,
                                 memory_order_relaxed);
}

/* ---- Untracked stores ---- */

static struct rma_part *shared_part(const struct window *window, int rank)
{
    return &(window->rma_shared ? window->rma_shared : window->intra_node->shared)->rank[rank];
}

/* Whether the processes of the node share control memory. */
static int has_control_memory(const struct window *window)
{
    return window->rma_shared || window->intra_node;
}

static void set_untracked(const struct window *window, int rank)
{
    atomic_store_explicit(&shared_part(window, rank)->has_untracked_stores, 1,
                          memory_order_relaxed);
}

static int has_untracked(const struct window *window, int rank)
{
    return atomic_load_explicit(&shared_part(window, rank)->has_untracked_stores,
                                memory_order_relaxed);
}

/* ---- Writes by network devices ----
 *
 * MPI libraries register memory with the network; puts and messages of other nodes then go there
 * without the CPU. The kernel does not see such a write: the page is not dirty, msync writes
 * nothing, and the tracking of stores misses it. So in a window that spans nodes the part is a
 * copy, which is written as a whole; elsewhere all its pages are marked as dirty. */

int process_uses_rdma(void)
{
    /* The devices of libibverbs, Slingshot and Omni-Path. */
    static const char *const devices[] = {"/dev/infiniband/", "/dev/cxi", "/dev/hfi1"};
    char path[32];
    int found = 0;
    DIR *list = opendir("/proc/self/fd");
    for (struct dirent *entry; list && !found && (entry = readdir(list));) {
        ssize_t length = readlinkat(dirfd(list), entry->d_name, path, sizeof(path) - 1);
        path[length > 0 ? length : 0] = 0;
        for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
            found |= strncmp(path, devices[i], strlen(devices[i])) == 0;
    }
    if (list)
        closedir(list);
    return found;
}

int kernel_refuses_pinned_files(void)
{
    return kernel_version() >= KERNEL_VERSION(6, 5);
}

/* Puts from other nodes, and large messages that are received into the window. The library can only
 * receive the latter by RDMA where the kernel lets it pin the file's pages. A file in memory can be
 * pinned on every kernel. */
int device_writes_are_possible(const struct storage_window *storage)
{
    return storage->own.layout.storage_length && process_uses_rdma() &&
           (!group_is_one_node(storage->group) || !kernel_refuses_pinned_files() ||
            file_can_be_pinned(storage, 1));
}

int file_can_be_pinned(const struct storage_window *storage, int unknown)
{
    const struct storage_file *file = &storage->own.region.file;
    struct statfs status;
    if (file->is_device)
        return 0;
    if (fstatfs(file->fd, &status) != 0)
        return unknown;
    return status.f_type == TMPFS_MAGIC || status.f_type == HUGETLBFS_MAGIC;
}

void device_writes_mark_dirty(const struct storage_region *region, struct storage_range range)
{
    enum { PAGES = 1024 };
    unsigned char is_resident[PAGES];
    uintptr_t page = storage_page_size();
    uintptr_t at = ((uintptr_t)region->base + range.offset) & -page;
    uintptr_t end = (uintptr_t)region->base + range.offset + range.length;
    if (kernel_refuses_pinned_files())
        return;
    while (at < end) {
        size_t pages = (end - at + page - 1) / page;
        pages = pages < PAGES ? pages : PAGES;
        int is_known = mincore((void *)at, pages * page, is_resident) == 0;
        for (size_t i = 0; i < pages; i++)
            /* An atomic store that changes nothing; volatile, or compilers may remove it. */
            if (!is_known || is_resident[i] & 1)
                atomic_fetch_or_explicit((volatile _Atomic char *)(at + i * page), 0,
                                         memory_order_relaxed);
        at += pages * page;
    }
}

/* Whether all stores into this rank's part can be tracked. */
static int all_stores_are_tracked(const struct window *window)
{
    const struct storage_window *storage = window->provider_data;
    if (storage->overlaps || storage->has_device_writes) /* through other mappings, or none */
        return 0;
    if (window->group->is_one_space || storage->ranks == 1)
        return 1;
    return storage->dirty_maps && access("/dev/xpmem", F_OK) != 0 &&
           access("/dev/knem", F_OK) != 0 &&
           !(window->intra_node && file_can_be_pinned(storage, 1));
}

/* ---- Tracking ---- */

/* Offset of the region's first byte in the part. */
static uint64_t region_offset(const struct storage_part *part)
{
    return part->layout.storage_first ? 0 : part->layout.memory_length;
}

static struct storage_part *part_of(struct storage_window *storage, int rank)
{
    return rank == storage->rank ? &storage->own : &storage->remote_parts[rank];
}

/* Whether each process has mapped all of a contiguous window, and stores through that mapping. */
static int has_mapped_whole(const struct storage_window *storage)
{
    return storage->dirty_maps && storage->is_contiguous;
}

static void set_all_untracked(const struct window *window)
{
    for (int i = 0; i < window->group->ranks; i++)
        if (group_is_intra_node(window->group, i))
            set_untracked(window, i);
}

/* 0, or a negative number: stores into the region are not tracked. */
static int track(const struct storage_window *storage, struct storage_region *region)
{
    static _Atomic int has_warned; /* any thread that opens or uses a window sets it, relaxed */
    int result = storage->hints.is_untracked ? -ENOTSUP : storage_region_track(region);
    if (result == -EBUSY && !atomic_exchange_explicit(&has_warned, 1, memory_order_relaxed))
        layer_message(
            storage->rank,
            "stores into %s are not tracked, since a userfaultfd of another library watches "
            "this memory: each commit reads and compares all of it; with libfabric set "
            "FI_MR_CACHE_MONITOR=memhooks",
            storage->hints.is_storage ? storage->hints.filename : "another rank's file");
    return result;
}

void dirty_tracking_begin(struct window *window)
{
    struct storage_window *storage = window->provider_data;
    if (!has_control_memory(window))
        return;
    (void)pthread_once(&forks_once, watch_forks);
    storage->fork_count = atomic_load_explicit(&forks, memory_order_relaxed);
    int is_tracked = all_stores_are_tracked(window);
    if (is_tracked)
        is_tracked = track(storage, has_mapped_whole(storage) ? &storage->whole_region
                                                              : &storage->own.region) == 0;
    if (!is_tracked && has_mapped_whole(storage))
        set_all_untracked(window);
    else if (!is_tracked)
        set_untracked(window, storage->rank);
}

/* The mutex keeps two threads from tracking one region. */
void dirty_tracking_before_store(struct window *window, int rank)
{
    struct storage_window *storage = window->provider_data;
    if (!storage->versions_kept || !storage->dirty_maps || storage->is_contiguous ||
        rank == storage->rank || storage->remote_parts[rank].region.is_view ||
        has_untracked(window, rank))
        return;
    pthread_mutex_lock(&storage->mutex);
    if (track(storage, &storage->remote_parts[rank].region) < 0)
        set_untracked(window, rank);
    pthread_mutex_unlock(&storage->mutex);
}

/* ---- A commit ---- */

/* Adds to the rank's map the ranges of a region whose first byte is byte `at` of the part, as far
 * as they are in the storage part. */
static void add_ranges(struct storage_window *storage, int rank, int64_t at,
                       const struct storage_ranges *ranges)
{
    const struct storage_part *part = part_of(storage, rank);
    int64_t first = (int64_t)region_offset(part);
    int64_t last = first + (int64_t)part->layout.storage_length;
    for (size_t i = 0; i < ranges->count; i++) {
        int64_t begin = at + (int64_t)ranges->range[i].offset;
        int64_t end = begin + (int64_t)ranges->range[i].length;
        begin = begin < first ? first : begin;
        end = end > last ? last : end;
        if (begin < end)
            add_pages(storage->dirty_maps[rank], (uint64_t)begin, (uint64_t)end);
    }
}

static void publish_whole(struct window *window, struct storage_ranges *ranges)
{
    struct storage_window *storage = window->provider_data;
    if (!storage->whole_region.changes)
        return; /* all parts are untracked */
    if (storage_region_changes(&storage->whole_region, ranges) != 0) {
        set_all_untracked(window);
        return;
    }
    for (int i = 0; i < storage->ranks; i++)
        add_ranges(
            storage, i,
            (int64_t)(storage->whole_region.file_offset - part_of(storage, i)->layout.file_offset),
            ranges);
}

static void publish_part(struct window *window, int rank, struct storage_ranges *ranges)
{
    struct storage_window *storage = window->provider_data;
    struct storage_part *part = part_of(storage, rank);
    if (!part->region.changes)
        return; /* no store from this process, or untracked */
    if (storage_region_changes(&part->region, ranges) == 0)
        add_ranges(storage, rank, (int64_t)region_offset(part), ranges);
    else
        set_untracked(window, rank);
}

void dirty_pages_publish(struct window *window)
{
    struct storage_window *storage = window->provider_data;
    struct storage_ranges ranges = {0};
    if (!has_control_memory(window))
        return;
    if (storage->fork_count != atomic_load_explicit(&forks, memory_order_relaxed))
        set_all_untracked(window);
    if (has_mapped_whole(storage))
        publish_whole(window, &ranges);
    else if (storage->dirty_maps)
        for (int i = 0; i < storage->ranks; i++)
            if (i != storage->rank)
                publish_part(window, i, &ranges);
    free(ranges.range);
}

/* Moves the pages of this rank's map to the ranges. 0 or -ENOMEM. */
static int collect_pages(struct window *window, struct storage_ranges *ranges)
{
    struct storage_window *storage = window->provider_data;
    _Atomic uint64_t *map = storage->dirty_maps[storage->rank];
    size_t words = map_words(storage_part_size(&storage->own));
    for (size_t i = 0; i < words; i++) {
        uint64_t word = atomic_load_explicit(&map[i], memory_order_relaxed);
        if (word)
            word = atomic_exchange_explicit(&map[i], 0, memory_order_relaxed);
        for (; word; word &= word - 1) {
            uint64_t page = i * BITS_PER_WORD + (uint64_t)__builtin_ctzll(word);
            if (storage_ranges_add(ranges, page * VERSIONS_PAGE, VERSIONS_PAGE) < 0) {
                set_untracked(window, storage->rank);
                return -ENOMEM;
            }
        }
    }
    return 0;
}

int dirty_pages_take(struct window *window, struct storage_ranges *ranges)
{
    struct storage_window *storage = window->provider_data;
    const struct storage_part *own = &storage->own;
    uint64_t at = region_offset(own);
    int result = 0;
    ranges->count = 0;
    if (!has_control_memory(window) || has_untracked(window, storage->rank))
        result = 1;
    else if (!has_mapped_whole(storage))
        result = storage_region_changes(&storage->own.region, ranges);
    if (result == 0 && storage->dirty_maps) {
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
