/* src/host/room/cgroup.c: see cgroup.h. */
#include "host/room/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The directory of the group for a controller. 0 or -1. *mount is the length of the part that is
 * the mount point. */
static int find_group(int pid, const char *controller, char directory[PATH_MAX], size_t *mount)
{
    char line[PATH_MAX], unified[PATH_MAX] = "", path[PATH_MAX] = "", name[64];
    snprintf(name, sizeof(name), "/proc/%d/cgroup", pid);
    FILE *file = fopen(pid ? name : "/proc/self/cgroup", "re");
    if (!file)
        return -1;
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *where = names ? strchr(names + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = 0;
        if (!names[1])
            snprintf(unified, sizeof(unified), "%s", where);
        for (char *save, *one = strtok_r(names + 1, ",", &save); one;
             one = strtok_r(NULL, ",", &save))
            if (strcmp(one, controller) == 0)
                snprintf(path, sizeof(path), "%s", where);
    }
    fclose(file);
    const char *base = "/sys/fs/cgroup";
    int length = path[0] ? snprintf(directory, PATH_MAX, "%s/%s", base, controller)
                         : snprintf(directory, PATH_MAX, "%s", base);
    *mount = (size_t)length;
    if (!path[0] && !unified[0])
        return -1;
    const char *below = path[0] ? path : unified;
    if (strlen(below) + *mount >= PATH_MAX)
        return -1;
    strcpy(directory + *mount, strcmp(below, "/") == 0 ? "" : below);
    return 0;
}

void cgroup_each(int pid, const char *controller,
                 void (*visit)(const char *directory, void *context), void *context)
{
    char directory[PATH_MAX];
    size_t mount;
    if (find_group(pid, controller, directory, &mount) < 0)
        return;
    for (;;) {
        visit(directory, context);
        if (strlen(directory) <= mount)
            break;
        *strrchr(directory, '/') = 0;
    }
}

static FILE *open_in(const char *directory, const char *name)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return fopen(path, "re");
}

int cgroup_number(const char *directory, const char *name, uint64_t *value)
{
    FILE *file = open_in(directory, name);
    uint64_t number;
    if (!file)
        return -1;
    int found = fscanf(file, "%" SCNu64, &number) == 1;
    fclose(file);
    if (found)
        *value = number;
    return found ? 0 : -1;
}

int cgroup_line(const char *directory, const char *name, const char *key, uint64_t *value)
{
    FILE *file = open_in(directory, name);
    char line[128], word[64];
    uint64_t number;
    int result = -1;
    while (file && result != 0 && fgets(line, sizeof(line), file))
        if (sscanf(line, "%63s %" SCNu64, word, &number) == 2 && strcmp(word, key) == 0) {
            *value = number;
            result = 0;
        }
    if (file)
        fclose(file);
    return result;
}

int cgroup_memory(const char *directory, uint64_t *used, uint64_t *limit)
{
    uint64_t most, taken, cached = 0;
    if (cgroup_number(directory, "memory.max", &most) == 0 &&
        cgroup_number(directory, "memory.current", &taken) == 0)
        (void)cgroup_line(directory, "memory.stat", "inactive_file", &cached);
    else if (cgroup_number(directory, "memory.limit_in_bytes", &most) == 0 &&
             cgroup_number(directory, "memory.usage_in_bytes", &taken) == 0)
        (void)cgroup_line(directory, "memory.stat", "total_inactive_file", &cached);
    else
        return -1;
    *used = taken > cached ? taken - cached : 0;
    *limit = most;
    return 0;
}

uint64_t cgroup_machine(const char *key)
{
    char line[128];
    uint64_t value = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
            value = strtoull(line + strlen(key) + 1, NULL, 10) * 1024;
    fclose(file);
    return value;
}
