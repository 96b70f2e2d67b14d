/* src/storage/region/region.c: maps a range of a file, at any offset. */
#include "storage/region/region.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A hint: where the kernel ignores it, pages are small. */
static void advise(void *mapping, size_t length, unsigned style)
{
    if (style & STORAGE_SEQUENTIAL)
        (void)madvise(mapping, length, MADV_HUGEPAGE);
    else if (!(style & STORAGE_REVERSE_SEQUENTIAL))
        (void)madvise(mapping, length, MADV_RANDOM);
}

/* Reserves an address range of `length` bytes that is congruent to `offset` modulo the huge page
 * size; NULL: let mmap choose. The surplus is unmapped. */
static void *place_for(uint64_t offset, size_t length)
{
    size_t huge = storage_huge(), room = length + huge;
    if (length < huge)
        return NULL;
    char *found = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED)
        return NULL;
    size_t before = (size_t)(offset - (uintptr_t)found) % huge, behind = room - before - length;
    if (before)
        munmap(found, before);
    if (behind)
        munmap(found + before + length, behind);
    return found + before;
}

static int mapping_failed(const struct storage_region *region, size_t length, int result,
                          struct storage_error *error)
{
    return storage_fail(error, result, "%s: cannot map %zu bytes of this file: %s%s",
                        region->file.path ? region->file.path : "another rank's file", length,
                        strerror(-result),
                        result == -ENOMEM ? "; see `ulimit -v` and vm.max_map_count" : "");
}

static int guard(struct storage_region *region, struct storage_error *error)
{
    region->failed = &region->failed_here;
    int result = storage_guard(region);
    if (result == 0)
        return 0;
    storage_region_unmap(region);
    return storage_fail(error, result,
                        "more mappings of files than this process can guard: free some windows");
}

int storage_region_map(struct storage_region *region, uint64_t file_offset, size_t length, void *at,
                       unsigned style, struct storage_error *error)
{
    uint64_t inside = file_offset % storage_page();
    region->file_offset = file_offset;
    region->length = length;
    region->failed = &region->failed_here;
    if (length == 0)
        return 0;
    size_t whole = (size_t)((inside + length + storage_page() - 1) & -storage_page());
    void *place = at                           ? (char *)at - inside
                  : style & STORAGE_SEQUENTIAL ? place_for(file_offset - inside, whole)
                                               : NULL;
    /* At an address of this task's own, which MAP_SHARED alone may not give: after an I/O error a
     * page is mapped over. */
    void *mapping =
        mmap(place, whole, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | (place ? MAP_FIXED : 0),
             region->file.fd, (off_t)(file_offset - inside));
    if (mapping == MAP_FAILED) {
        int result = -errno;
        if (place && !at)
            munmap(place, whole);
        return mapping_failed(region, length, result, error);
    }
    advise(mapping, whole, style);
    region->mapping = mapping;
    region->mapping_length = whole;
    region->is_placed = at != NULL;
    region->base = (char *)mapping + inside;
    region->style = style;
    if (style & (STORAGE_READ_ONCE | STORAGE_WRITE_ONCE))
        region->direct = storage_direct_new(); /* NULL is fine */
    return guard(region, error);
}

int storage_region_borrow(struct storage_region *region, uint64_t file_offset, size_t length,
                          void *base, struct storage_error *error)
{
    uint64_t inside = (uintptr_t)base % storage_page();
    region->file_offset = file_offset;
    region->length = length;
    region->failed = &region->failed_here;
    if (length == 0)
        return 0;
    region->mapping_length = (size_t)((inside + length + storage_page() - 1) & -storage_page());
    region->mapping = (char *)base - inside;
    region->is_borrowed = 1;
    region->base = base;
    return guard(region, error);
}

void storage_region_unmap(struct storage_region *region)
{
    if (!region->mapping)
        return;
    storage_unguard(region);
    storage_untrack(region);
    storage_direct_free(region->direct);
    region->direct = NULL;
    if (region->is_placed)
        /* If it fails the window stays mapped, which harms nobody. */
        (void)mmap(region->mapping, region->mapping_length, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else if (!region->is_borrowed)
        munmap(region->mapping, region->mapping_length);
    region->mapping = NULL;
    region->base = NULL;
}
