/* src/storage/region/memory_part.c: memory beside storage, at contiguous addresses. */
#include "storage/region/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Available memory ---- */

/* The number after `name` in a file of lines "NAME NUMBER"; with name NULL the first number. */
static uint64_t read_number(const char *path, const char *name, uint64_t fallback)
{
    char line[256];
    uint64_t found = fallback;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        size_t length = name ? strlen(name) : 0;
        if (name && strncmp(line, name, length) != 0)
            continue;
        if (sscanf(line + length, "%" SCNu64, &found) != 1)
            found = fallback; /* such as "max" */
        break;
    }
    if (file)
        fclose(file);
    return found;
}

/* Memory left below one limit. Inactive page cache counts as free, because it can be dropped. */
static uint64_t left_below_limit(const char *directory, const char *limit_name,
                                 const char *usage_name)
{
    char limit_path[4200], usage_path[4200], stat_path[4200];
    snprintf(limit_path, sizeof(limit_path), "%s/%s", directory, limit_name);
    snprintf(usage_path, sizeof(usage_path), "%s/%s", directory, usage_name);
    snprintf(stat_path, sizeof(stat_path), "%s/memory.stat", directory);
    uint64_t limit = read_number(limit_path, NULL, UINT64_MAX);
    uint64_t usage = read_number(usage_path, NULL, 0),
             files = read_number(stat_path, "inactive_file ", 0);
    if (limit == UINT64_MAX)
        return limit;
    usage = usage > files ? usage - files : 0;
    return limit > usage ? limit - usage : 0;
}

/* The least memory left below any limit from this process's cgroup up to the root. */
static uint64_t min_left_in_hierarchy(const char *root, char *group, const char *limit,
                                      const char *usage)
{
    uint64_t min = UINT64_MAX;
    for (;;) {
        char directory[4096];
        snprintf(directory, sizeof(directory), "%s%s", root, group);
        uint64_t left = left_below_limit(directory, limit, usage);
        min = left < min ? left : min;
        char *last = strrchr(group, '/');
        if (!last || !group[0])
            return min;
        *last = 0;
    }
}

/* Lines of /proc/self/cgroup: "0::/group" (version 2), "N:...memory...:/group" (version 1). */
static uint64_t left_in_cgroup(void)
{
    char line[4096];
    uint64_t min = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        uint64_t left = UINT64_MAX;
        if (!names[1])
            left = min_left_in_hierarchy("/sys/fs/cgroup", group, "memory.max", "memory.current");
        else if (strstr(names + 1, "memory"))
            left = min_left_in_hierarchy("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                                         "memory.usage_in_bytes");
        min = left < min ? left : min;
    }
    if (file)
        fclose(file);
    return min;
}

uint64_t storage_memory_available(void)
{
    uint64_t machine = read_number("/proc/meminfo", "MemAvailable:", 0) * 1024;
    uint64_t group = left_in_cgroup();
    return group < machine ? group : machine;
}

/* ---- Parts ---- */

/* One reservation of addresses takes both mappings. They meet at a page boundary; so when storage
 * follows memory, its first byte has to begin a page of the file. */

enum { HUGE_PAGES_MIN_BYTES = 4 << 20 };

static uint64_t page_up(uint64_t bytes)
{
    uint64_t page = storage_page_size();
    return (bytes + page - 1) & -page;
}

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
        layout->storage_length = page_up(offset % page + wanted) - offset % page;
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

static int reserve(struct storage_part *part, uint64_t length, struct storage_error *error)
{
    part->reservation_length = page_up(length);
    part->reservation = mmap(NULL, part->reservation_length, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (part->reservation != MAP_FAILED)
        return 0;
    int result = -errno;
    part->reservation = NULL;
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

/* Maps both, or memory alone. */
static int map_both(struct storage_part *part, int memory, unsigned style,
                    struct storage_error *error)
{
    const struct storage_layout *layout = &part->layout;
    uint64_t inside = layout->storage_first && layout->storage_length
                          ? layout->file_offset % storage_page_size()
                          : 0;
    int result = reserve(part, inside + layout->memory_length + layout->storage_length, error);
    if (result < 0)
        return result;
    part->base = (char *)part->reservation + inside;
    char *first = part->base;
    char *second = first + (layout->storage_first ? layout->storage_length : layout->memory_length);
    result =
        map_memory(layout->storage_first ? second : first, layout->memory_length, memory, error);
    if (result == 0 && layout->storage_length)
        result = storage_region_map(&part->region, layout->file_offset, layout->storage_length,
                                    layout->storage_first ? first : second, style, error);
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
        result = storage_region_map(&part->region, layout->file_offset, layout->storage_length,
                                    NULL, style, error);
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
