/* src/storage/region/available.c: how much memory there is to fill. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "storage/region/region.h"

/* The number after `name` in a file of lines "NAME NUMBER"; with name NULL the first number. */
static uint64_t number_in(const char *path, const char *name, uint64_t otherwise)
{
    char line[256];
    uint64_t found = otherwise;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        size_t length = name ? strlen(name) : 0;
        if (name && strncmp(line, name, length) != 0)
            continue;
        if (sscanf(line + length, "%" SCNu64, &found) != 1)
            found = otherwise; /* such as "max" */
        break;
    }
    if (file)
        fclose(file);
    return found;
}

/* What is left below one limit. Inactive page cache counts as free, since it can be dropped. */
static uint64_t left_in(const char *directory, const char *limit_name, const char *usage_name)
{
    char limit_path[4200], usage_path[4200], stat_path[4200];
    snprintf(limit_path, sizeof(limit_path), "%s/%s", directory, limit_name);
    snprintf(usage_path, sizeof(usage_path), "%s/%s", directory, usage_name);
    snprintf(stat_path, sizeof(stat_path), "%s/memory.stat", directory);
    uint64_t limit = number_in(limit_path, NULL, UINT64_MAX);
    uint64_t usage = number_in(usage_path, NULL, 0),
             files = number_in(stat_path, "inactive_file ", 0);
    if (limit == UINT64_MAX)
        return limit;
    usage = usage > files ? usage - files : 0;
    return limit > usage ? limit - usage : 0;
}

/* The least that is left from this process's cgroup up to the root of the hierarchy. */
static uint64_t least_above(const char *root, char *group, const char *limit, const char *usage)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        char directory[4096];
        snprintf(directory, sizeof(directory), "%s%s", root, group);
        uint64_t left = left_in(directory, limit, usage);
        least = left < least ? left : least;
        char *last = strrchr(group, '/');
        if (!last || !group[0])
            return least;
        *last = 0;
    }
}

/* Lines of /proc/self/cgroup: "0::/group" (version 2), "N:...memory...:/group" (version 1). */
static uint64_t left_in_cgroup(void)
{
    char line[4096];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        uint64_t left = UINT64_MAX;
        if (!names[1])
            left = least_above("/sys/fs/cgroup", group, "memory.max", "memory.current");
        else if (strstr(names + 1, "memory"))
            left = least_above("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                               "memory.usage_in_bytes");
        least = left < least ? left : least;
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t storage_memory_available(void)
{
    uint64_t machine = number_in("/proc/meminfo", "MemAvailable:", 0) * 1024;
    uint64_t group = left_in_cgroup();
    return group < machine ? group : machine;
}
