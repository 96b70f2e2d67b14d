/* src/storage/region/dirty_pages.c: finds the pages of a region that were stored into. */
#include "storage/region/region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From <linux/fs.h> and <linux/userfaultfd.h> since 6.7; older headers lack them. */
struct scan_region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, regions, regions_count, pages_max;
    uint64_t inverted, mask, any_of, returned;
};
#define SCAN                _IOWR('f', 16, struct scan)
#define SCAN_PROTECT        (1u << 0) /* PM_SCAN_WP_MATCHING */
#define SCAN_CHECK_PROTECT  (1u << 1) /* PM_SCAN_CHECK_WPASYNC */
#define PAGE_WRITTEN        (1u << 1) /* PAGE_IS_WRITTEN */
#define FEATURE_UNPOPULATED (1u << 13)
#define FEATURE_ASYNC       (1u << 15)
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { SCAN_REGIONS_MAX = 512 };

struct storage_changes {
    int fault, pagemap; /* descriptors */
};

static int register_region(struct storage_changes *changes, struct storage_region *region)
{
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURE_ASYNC | FEATURE_UNPOPULATED};
    struct uffdio_register range = {
        .range = {(uintptr_t)region->mapping, region->mapping_length},
        .mode = UFFDIO_REGISTER_MODE_WP,
    };
    changes->fault = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    changes->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (changes->fault < 0 || changes->pagemap < 0 || ioctl(changes->fault, UFFDIO_API, &api) < 0 ||
        ioctl(changes->fault, UFFDIO_REGISTER, &range) < 0)
        return errno == EBUSY ? -EBUSY : -ENOTSUP;
    return 0;
}

static void unregister_region(struct storage_changes *changes)
{
    if (changes->fault >= 0)
        close(changes->fault); /* this ends the protection, too */
    if (changes->pagemap >= 0)
        close(changes->pagemap);
    free(changes);
}

int storage_ranges_add(struct storage_ranges *ranges, uint64_t offset, uint64_t length)
{
    struct storage_range *last = ranges->count ? &ranges->range[ranges->count - 1] : NULL;
    if (last && last->offset + last->length == offset) {
        last->length += length;
        return 0;
    }
    if (ranges->count == ranges->capacity) {
        size_t capacity = ranges->capacity ? ranges->capacity * 2 : 64;
        void *grown = realloc(ranges->range, capacity * sizeof(*ranges->range));
        if (!grown)
            return -ENOMEM;
        ranges->range = grown;
        ranges->capacity = capacity;
    }
    ranges->range[ranges->count++] = (struct storage_range){offset, length};
    return 0;
}

/* Adds the pages [start, stop) as a range of the region, which may begin and end inside a page. */
static int add_pages(struct storage_ranges *ranges, const struct storage_region *region,
                     uint64_t start, uint64_t stop)
{
    uint64_t base = (uintptr_t)region->base, limit = base + region->length;
    start = start < base ? base : start;
    stop = stop > limit ? limit : stop;
    return start < stop ? storage_ranges_add(ranges, start - base, stop - start) : 0;
}

static int scan(const struct storage_region *region, struct storage_ranges *ranges)
{
    struct scan_region found[SCAN_REGIONS_MAX];
    struct scan scan = {
        .size = sizeof(scan),
        .flags = SCAN_PROTECT | SCAN_CHECK_PROTECT,
        .start = (uintptr_t)region->mapping,
        .end = (uintptr_t)region->mapping + region->mapping_length,
        .regions = (uintptr_t)found,
        .regions_count = SCAN_REGIONS_MAX,
        .mask = PAGE_WRITTEN,
        .returned = PAGE_WRITTEN,
    };
    while (scan.start < scan.end) {
        int count = ioctl(region->changes->pagemap, SCAN, &scan), result = 0;
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -ENOTSUP;
        for (int i = 0; ranges && result == 0 && i < count; i++)
            result = add_pages(ranges, region, found[i].start, found[i].end);
        if (result < 0)
            return result;
        scan.start = scan.walk_end;
    }
    return 0;
}

int storage_region_track(struct storage_region *region)
{
    if (region->changes || region->length == 0)
        return 0;
    struct storage_changes *changes = calloc(1, sizeof(*changes));
    if (!changes)
        return -ENOMEM;
    *changes = (struct storage_changes){-1, -1};
    int result = register_region(changes, region);
    region->changes = changes;
    if (result == 0)
        result =
            scan(region,
                 NULL); /* pages that were never touched count as written before the first scan */
    if (result < 0)
        storage_region_untrack(region);
    return result;
}

void storage_region_untrack(struct storage_region *region)
{
    if (region->changes)
        unregister_region(region->changes);
    region->changes = NULL;
}

int storage_region_changes(struct storage_region *region, struct storage_ranges *changes)
{
    changes->count = 0;
    if (region->length == 0)
        return 0;
    if (region->changes) {
        int result = scan(region, changes);
        if (result == 0)
            return 0;
        storage_region_untrack(region); /* the ranges found so far are lost */
        if (result != -ENOTSUP)
            return result;
        changes->count = 0;
    }
    int result = storage_ranges_add(changes, 0, region->length);
    return result < 0 ? result : 1;
}
