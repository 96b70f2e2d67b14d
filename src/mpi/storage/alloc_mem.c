/* src/mpi/storage/alloc_mem.c: MPI_Alloc_mem on storage. */
#include "mpi/storage/storage_window.h"

#include <errno.h>
#include <stdlib.h>

struct block {
    struct storage_part part;
    struct storage_hints hints;
    size_t size;
    int has_device_writes; /* see storage_window.h; into all memory of this kind */
    int flushers;          /* threads that flush it; it is not freed meanwhile */
    struct block *next;
};

struct attached {
    MPI_Win handle;
    char *base;
    struct attached *next;
};

/* Guards both lists; never held across MPI or a flush. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t unused = PTHREAD_COND_INITIALIZER;
static struct block *blocks;
static struct attached *attachments;
static _Atomic int
    count; /* of blocks: changed under the mutex; read relaxed, as a hint whether to look */

int storage_memory_is_used(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed) > 0;
}

static int own_rank(void)
{
    int rank = 0;
    if (pmpi_has_world())
        pmpi()->Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

/* ---- Allocation ---- */

static double resolve_factor(const struct storage_hints *hints, size_t size)
{
    uint64_t available = storage_memory_available() / 10 * 9;
    if (hints->factor != STORAGE_FACTOR_AUTO)
        return hints->factor;
    return size <= available ? 0 : 1 - (double)available / (double)size;
}

/* A rank that frees its memory may remove the file between the two (storage_alloc_unlink). */
static int open_and_lock(struct storage_file *file, const struct storage_hints *hints,
                         struct storage_range range, struct storage_error *error)
{
    enum { TRIES = 16 };
    int result = -ESTALE;
    for (int tries = 0; result == -ESTALE && tries < TRIES; tries++) {
        storage_file_close(file);
        result = storage_file_open(file, hints, error);
        if (result == 0)
            result = storage_file_lock(file, range, 1, error);
    }
    return result;
}

static int map_block(struct block *block, struct storage_error *error)
{
    struct storage_part *part = &block->part;
    struct storage_file *file = &part->region.file;
    int result =
        storage_layout_divide(&part->layout, &block->hints,
                              resolve_factor(&block->hints, block->size), block->size, error);
    struct storage_range range = {part->layout.file_offset, part->layout.storage_length};
    if (result == 0 && range.length)
        result = open_and_lock(file, &block->hints, range, error);
    if (result == 0 && range.length)
        result = storage_file_reserve(file, range, error);
    if (result == 0)
        result = storage_part_map(part, -1, block->hints.style, error);
    block->has_device_writes = process_uses_rdma();
    if (result < 0)
        storage_file_revert(file, range.offset + range.length);
    return result;
}

static void free_block(struct block *block)
{
    struct storage_file file = block->part.region.file;
    storage_part_unmap(&block->part);
    storage_file_close(&file);
    storage_hints_clear(&block->hints);
    free(block);
}

/* *made stays NULL if the hints do not ask for storage. */
static int make_block(size_t size, MPI_Info info, struct block **made, struct storage_error *error)
{
    struct block *block = calloc(1, sizeof(*block));
    if (!block)
        return -ENOMEM;
    block->part.region.file.fd = -1;
    block->size = size;
    int result = storage_info_read(&block->hints, info, error);
    int is_wanted = block->hints.is_storage;
    if (result == 0 && is_wanted)
        result = map_block(block, error);
    if (result == 0 && is_wanted)
        *made = block;
    else
        free_block(block);
    return result;
}

int storage_memory_allocate(size_t size, MPI_Info info, void **base)
{
    struct storage_error error = {""};
    struct block *block = NULL;
    int result = make_block(size, info, &block, &error);
    *base = NULL;
    if (result < 0)
        return storage_report(own_rank(), "MPI_Alloc_mem", result, &error);
    if (!block)
        return MPI_SUCCESS;
    pthread_mutex_lock(&mutex);
    block->next = blocks;
    blocks = block;
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&mutex);
    *base = block->part.base;
    return MPI_SUCCESS;
}

/* ---- Durability ---- */

static int is_inside(const struct block *block, const char *address)
{
    return address >= block->part.base && address < block->part.base + block->size;
}

/* Flushes the bytes of the block in [from, to). */
static int flush_block(struct block *block, const char *from, const char *to,
                       struct storage_error *error)
{
    struct storage_region *region = &block->part.region;
    const char *begin = region->base, *end = begin + region->length;
    from = from < begin ? begin : from;
    to = to > end ? end : to;
    if (!region->length || from >= to)
        return 0;
    const struct storage_range range = {(uint64_t)(from - begin), (uint64_t)(to - from)};
    if (block->has_device_writes)
        device_writes_mark_dirty(region, range);
    return storage_region_flush(region, region->file.fd, range, error);
}

/* The first block after `after` in the list that overlaps [from, to), pinned until unpin_block().
 */
static struct block *pin_next_block(const struct block *after, const char *from, const char *to)
{
    struct block *block;
    pthread_mutex_lock(&mutex);
    for (block = after ? after->next : blocks; block; block = block->next)
        if (block->part.base < to && from < block->part.base + block->size)
            break;
    if (block)
        block->flushers++;
    pthread_mutex_unlock(&mutex);
    return block;
}

static void unpin_block(struct block *block)
{
    pthread_mutex_lock(&mutex);
    if (--block->flushers == 0)
        pthread_cond_broadcast(&unused);
    pthread_mutex_unlock(&mutex);
}

static int flush_range(const char *from, const char *to, int *is_ours, struct storage_error *error)
{
    int outcome = 0;
    for (struct block *block = pin_next_block(NULL, from, to), *next; block; block = next) {
        int result = flush_block(block, from, to, error);
        *is_ours = 1;
        outcome = outcome < 0 ? outcome : result;
        next = pin_next_block(block, from, to);
        unpin_block(block);
    }
    return outcome;
}

/* Flushes all blocks that are attached to a dynamic window. */
static int flush_attached(MPI_Win handle, int *is_ours, struct storage_error *error)
{
    int outcome = 0;
    for (size_t i = 0;; i++) {
        char *base = NULL;
        size_t at = 0;
        pthread_mutex_lock(&mutex);
        for (struct attached *attached = attachments; attached && !base; attached = attached->next)
            if (attached->handle == handle && at++ == i)
                base = attached->base;
        pthread_mutex_unlock(&mutex);
        if (!base)
            return outcome;
        struct block *block = pin_next_block(NULL, base, base + 1);
        if (!block)
            continue;
        *is_ours = 1;
        int result = flush_block(block, block->part.base, block->part.base + block->size, error);
        outcome = outcome < 0 ? outcome : result;
        unpin_block(block);
    }
}

int storage_memory_sync(MPI_Win handle, int *is_ours)
{
    struct storage_error error = {""};
    char *base = NULL;
    MPI_Aint *size = NULL;
    int has_base = 0, has_size = 0, result = 0;
    atomic_thread_fence(memory_order_seq_cst);
    pmpi()->Win_get_attr(handle, MPI_WIN_BASE, &base, &has_base);
    pmpi()->Win_get_attr(handle, MPI_WIN_SIZE, &size, &has_size);
    if (has_base && has_size && base && *size > 0)
        result = flush_range(base, base + *size, is_ours, &error);
    int attached_result = flush_attached(handle, is_ours, &error);
    return storage_report(own_rank(), "MPI_Win_sync", result < 0 ? result : attached_result,
                          &error);
}

/* ---- Freeing ---- */

static int close_block(struct block *block, const char *call)
{
    struct storage_error error = {""};
    int result = 0;
    if (block->hints.unlink && block->part.region.file.fd >= 0)
        result = storage_file_unlink(&block->part.region.file, &error);
    else if (!block->hints.discard)
        result = flush_block(block, block->part.base, block->part.base + block->size, &error);
    int class = storage_report(own_rank(), call, result, &error);
    free_block(block);
    return class;
}

/* Removes the block at `base` from the list when no thread flushes it. NULL: there is none. base
 * NULL: any block. */
static struct block *remove_block(const void *base)
{
    struct block *found = NULL;
    pthread_mutex_lock(&mutex);
    for (struct block **at = &blocks; *at && !found;) {
        if (base && !is_inside(*at, base)) {
            at = &(*at)->next;
        } else if ((*at)->flushers) {
            pthread_cond_wait(&unused, &mutex);
            at = &blocks;
        } else {
            found = *at;
            *at = found->next;
            atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

int storage_memory_free(void *base, int *is_ours)
{
    struct block *block = base && storage_memory_is_used() ? remove_block(base) : NULL;
    *is_ours = block != NULL;
    return block ? close_block(block, "MPI_Free_mem") : MPI_SUCCESS;
}

int storage_memory_free_all(void)
{
    int outcome = MPI_SUCCESS;
    for (struct block *block = remove_block(NULL); block; block = remove_block(NULL)) {
        int result = close_block(block, "MPI_Finalize");
        outcome = outcome == MPI_SUCCESS ? result : outcome;
    }
    return outcome;
}

/* ---- Dynamic windows ---- */

void storage_memory_attach(MPI_Win handle, void *base)
{
    if (!storage_memory_is_used())
        return;
    struct block *block = pin_next_block(NULL, base, (char *)base + 1);
    struct attached *attached = block ? malloc(sizeof(*attached)) : NULL;
    if (block)
        unpin_block(block);
    if (attached) {
        pthread_mutex_lock(&mutex);
        *attached = (struct attached){handle, base, attachments};
        attachments = attached;
        pthread_mutex_unlock(&mutex);
    }
}

void storage_memory_detach(MPI_Win handle, const void *base)
{
    pthread_mutex_lock(&mutex);
    for (struct attached **at = &attachments; *at;) {
        struct attached *attached = *at;
        if (attached->handle != handle || (base && attached->base != base)) {
            at = &attached->next;
            continue;
        }
        *at = attached->next;
        free(attached);
        if (base)
            break; /* it may be attached twice */
    }
    pthread_mutex_unlock(&mutex);
}
