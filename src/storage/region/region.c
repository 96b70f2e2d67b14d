/* src/storage/region/region.c: maps a range of a file, at any offset. */
#include "storage/region/region.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whether it matters where a mapping lies: whole entries of 2 MiB may fit into it. */
static int place_matters(size_t length, unsigned style)
{
    return length >= storage_folio_max() && (style & (STORAGE_SEQUENTIAL | STORAGE_VERSIONED));
}

void *storage_reserve(size_t length, uint64_t offset, size_t before, unsigned style)
{
    int is_aligned = (style & STORAGE_SEQUENTIAL) && !(style & STORAGE_VERSIONED);
    size_t page = storage_page_size();
    size_t unit = place_matters(length, style) ? storage_folio_max() : page;
    size_t reserved = length + unit - page;
    char *found =
        mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED)
        return NULL;
    uint64_t wanted = offset - before + (is_aligned ? 0 : page);
    size_t skipped = (size_t)(wanted - (uintptr_t)found) % unit;
    size_t behind = reserved - skipped - length;
    if (skipped)
        munmap(found, skipped);
    if (behind)
        munmap(found + skipped + length, behind);
    return found + skipped;
}

/* Maps whole pages at `at`, or anywhere if that is NULL. The address must be this task's own, which
 * MAP_SHARED alone does not guarantee: after an I/O error a page is mapped over. MAP_FAILED: errno
 * says why. */
static void *map_pages(void *at, size_t length, int fd, uint64_t offset, unsigned style)
{
    void *address = at;
    if (!at && place_matters(length, style)) {
        address = storage_reserve(length, offset, 0, style);
        if (!address && (style & STORAGE_VERSIONED))
            return MAP_FAILED;
    }
    void *mapping = mmap(address, length, PROT_READ | PROT_WRITE,
                         MAP_SHARED_VALIDATE | (address ? MAP_FIXED : 0), fd, (off_t)offset);
    if (mapping == MAP_FAILED && address && !at) {
        int saved_errno = errno;
        munmap(address, length);
        errno = saved_errno;
    }
    return mapping;
}

static int register_region(struct storage_region *region, struct storage_error *error)
{
    region->failed = &region->failed_here;
    int result = sigbus_register(region);
    if (result == 0)
        return 0;
    storage_region_unmap(region);
    return storage_fail(error, result,
                        "too many mappings of files to track in this process: free some windows");
}

static int set_mapping(struct storage_region *region, void *mapping, size_t whole, const void *at,
                       struct storage_error *error)
{
    region->mapping = mapping;
    region->mapping_length = whole;
    region->in_reservation = at != NULL;
    region->base = (char *)mapping + region->file_offset % storage_page_size();
    return register_region(region, error);
}

int storage_region_map(struct storage_region *region, uint64_t file_offset, size_t length, void *at,
                       unsigned style, struct storage_error *error)
{
    uint64_t inside = file_offset % storage_page_size();
    region->file_offset = file_offset;
    region->length = length;
    region->failed = &region->failed_here;
    if (length == 0)
        return 0;
    size_t whole = (size_t)storage_page_up(inside + length);
    void *mapping = map_pages(at ? (char *)at - inside : NULL, whole, region->file.fd,
                              file_offset - inside, style);
    if (mapping == MAP_FAILED) {
        int result = -errno;
        return storage_fail(error, result, "%s: cannot map %zu bytes of this file: %s%s",
                            region->file.path ? region->file.path : "another rank's file", length,
                            strerror(-result),
                            result == -ENOMEM ? "; see `ulimit -v` and vm.max_map_count" : "");
    }
    /* Hints: where the kernel ignores the first, pages are small. */
    if (style & STORAGE_SEQUENTIAL)
        (void)madvise(mapping, whole, MADV_HUGEPAGE);
    else if (!(style & STORAGE_REVERSE_SEQUENTIAL))
        (void)madvise(mapping, whole, MADV_RANDOM);
    region->style = style;
    if (style & (STORAGE_READ_ONCE | STORAGE_WRITE_ONCE))
        region->direct = storage_direct_new(); /* NULL is fine */
    return set_mapping(region, mapping, whole, at, error);
}

int storage_region_map_copy(struct storage_region *region, uint64_t file_offset, size_t length,
                            void *at, int memory, uint64_t memory_offset, unsigned style,
                            struct storage_error *error)
{
    uint64_t inside = file_offset % storage_page_size();
    size_t whole = (size_t)storage_page_up(inside + length);
    region->file_offset = file_offset;
    region->length = length;
    region->failed = &region->failed_here;
    region->is_copy = 1;
    if (length == 0)
        return 0;
    void *mapping = map_pages(at ? (char *)at - inside : NULL, whole, memory, memory_offset, style);
    if (mapping == MAP_FAILED) {
        int result = -errno;
        return storage_fail(error, result,
                            "cannot map %zu bytes of memory: %s; ask for less, or see "
                            "vm.overcommit_memory and `ulimit -v`",
                            length, strerror(-result));
    }
    return set_mapping(region, mapping, whole, at, error);
}

int storage_region_read(struct storage_region *region, struct storage_error *error)
{
    size_t done = 0;
    while (done < region->length) {
        uint64_t at = region->file_offset + done;
        ssize_t got = pread(region->file.fd, region->base + done, region->length - done, (off_t)at);
        int result = got == 0 ? -EIO : got > 0 ? 0 : errno == EFAULT ? -ENOMEM : -errno;
        if (result < 0 && result != -EINTR)
            return storage_fail(error, result, "%s: cannot read byte %llu of this file: %s",
                                region->file.path, (unsigned long long)at,
                                got < 0 ? strerror(-result) : "another program has truncated it");
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

int storage_region_view(struct storage_region *region, uint64_t file_offset, size_t length,
                        void *base, struct storage_error *error)
{
    uint64_t inside = (uintptr_t)base % storage_page_size();
    region->file_offset = file_offset;
    region->length = length;
    region->failed = &region->failed_here;
    if (length == 0)
        return 0;
    region->mapping_length = (size_t)storage_page_up(inside + length);
    region->mapping = (char *)base - inside;
    region->is_view = 1;
    region->base = base;
    return register_region(region, error);
}

void storage_region_unmap(struct storage_region *region)
{
    if (!region->mapping)
        return;
    sigbus_unregister(region);
    storage_region_untrack(region);
    storage_direct_free(region->direct);
    region->direct = NULL;
    if (region->in_reservation)
        /* If it fails, the range stays mapped, which is harmless. */
        (void)mmap(region->mapping, region->mapping_length, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else if (!region->is_view)
        munmap(region->mapping, region->mapping_length);
    region->mapping = NULL;
    region->base = NULL;
}
