/* src/storage/region/memory_part.c: memory beside storage, at contiguous addresses. */
#include "storage/region/region.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "cgroup/cgroup.h"

/* ---- Available memory ---- */

static void visit_group(const char *directory, void *context)
{
    uint64_t used, limit, *least = context;
    if (cgroup_memory(directory, &used, &limit) != 0)
        return;
    uint64_t left = limit > used ? limit - used : 0;
    *least = left < *least ? left : *least;
}

uint64_t storage_memory_available(void)
{
    uint64_t least = machine_memory("MemAvailable");
    cgroup_each(0, "memory", visit_group, &least);
    return least;
}

/* ---- Parts ---- */

/* One reservation of addresses takes both mappings. They meet at a page boundary; so when storage
 * follows memory, its first byte has to begin a page of the file. */

enum { HUGE_PAGES_MIN_BYTES = 4 << 20 };

int storage_layout_divide(struct storage_layout *layout, const struct storage_hints *hints,
                          double factor, uint64_t size, struct storage_error *error)
{
    uint64_t page = storage_page_size(), offset = hints->offset;
    double share = (double)size * factor; /* may be more than size, which a double rounds */
    uint64_t wanted = factor >= 1 || share >= (double)size ? size : (uint64_t)share;
    wanted = wanted > size ? size : wanted;
    *layout = (struct storage_layout){offset, size, 0, hints->storage_first};
    if (wanted == size)
        return 0;
    if (wanted == 0)
        layout->storage_length = 0;
    else if (hints->storage_first)
        layout->storage_length = storage_page_up(offset % page + wanted) - offset % page;
    else
        layout->storage_length = size - ((size - wanted) & -page);
    if (layout->storage_length > size)
        layout->storage_length = size;
    layout->memory_length = size - layout->storage_length;
    if (hints->storage_first || !layout->memory_length || !layout->storage_length ||
        offset % page == 0)
        return 0;
    return storage_fail(error, -EINVAL,
                        "the hint storage_alloc_offset has the value \"%llu\": where storage "
                        "follows memory, allowed is a multiple of %llu; or set "
                        "storage_alloc_order to storage_first, or storage_alloc_factor to 1",
                        (unsigned long long)offset, (unsigned long long)page);
}

static int reserve(struct storage_part *part, uint64_t length, unsigned style,
                   struct storage_error *error)
{
    const struct storage_layout *layout = &part->layout;
    uint64_t memory = storage_page_up(layout->memory_length), page = storage_page_size();
    uint64_t offset = part->region.is_copy ? memory : layout->file_offset / page * page;
    part->reservation_length = storage_page_up(length);
    part->reservation = storage_reserve(part->reservation_length, offset,
                                        layout->storage_first ? 0 : memory, style);
    if (part->reservation)
        return 0;
    int result = -errno;
    return storage_fail(error, result,
                        "cannot reserve %llu bytes of addresses: %s; see `ulimit -v`",
                        (unsigned long long)length, strerror(-result));
}

static int map_memory(char *at, uint64_t length, int memory, struct storage_error *error)
{
    int flags = memory < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    if (mmap(at, length, PROT_READ | PROT_WRITE, flags | MAP_FIXED, memory, 0) == MAP_FAILED) {
        int result = -errno;
        return storage_fail(error, result,
                            "cannot map %llu bytes of memory: %s; ask for less, or see "
                            "vm.overcommit_memory and `ulimit -v`",
                            (unsigned long long)length, strerror(-result));
    }
    if (length >= HUGE_PAGES_MIN_BYTES)
        (void)madvise(at, length, MADV_HUGEPAGE); /* a hint only */
    return 0;
}

/* at NULL: anywhere. */
static int map_storage(struct storage_part *part, void *at, int memory, unsigned style,
                       struct storage_error *error)
{
    const struct storage_layout *layout = &part->layout;
    return part->region.is_copy
               ? storage_region_map_copy(&part->region, layout->file_offset, layout->storage_length,
                                         at, memory, storage_page_up(layout->memory_length), style,
                                         error)
               : storage_region_map(&part->region, layout->file_offset, layout->storage_length, at,
                                    style, error);
}

/* Maps both, or memory alone. */
static int map_both(struct storage_part *part, int memory, unsigned style,
                    struct storage_error *error)
{
    const struct storage_layout *layout = &part->layout;
    uint64_t inside = layout->storage_first && layout->storage_length
                          ? layout->file_offset % storage_page_size()
                          : 0;
    int result =
        reserve(part, inside + layout->memory_length + layout->storage_length, style, error);
    if (result < 0)
        return result;
    part->base = (char *)part->reservation + inside;
    char *first = part->base;
    char *second = first + (layout->storage_first ? layout->storage_length : layout->memory_length);
    result =
        map_memory(layout->storage_first ? second : first, layout->memory_length, memory, error);
    if (result == 0 && layout->storage_length)
        result = map_storage(part, layout->storage_first ? first : second, memory, style, error);
    return result;
}

int storage_part_map(struct storage_part *part, int memory, unsigned style,
                     struct storage_error *error)
{
    const struct storage_layout *layout = &part->layout;
    int result;
    if (layout->memory_length) {
        result = map_both(part, memory, style, error);
    } else {
        result = map_storage(part, NULL, memory, style, error);
        part->base = part->region.base;
    }
    if (result < 0)
        storage_part_unmap(part);
    return result;
}

void storage_part_unmap(struct storage_part *part)
{
    storage_region_unmap(&part->region);
    if (part->reservation)
        munmap(part->reservation, part->reservation_length);
    part->reservation = NULL;
    part->base = NULL;
}
