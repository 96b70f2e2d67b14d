/* src/cgroup/cgroup.c: see cgroup.h. */
#include "cgroup/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The directory of the process's group for a controller; *mount_length is the length of the mount
 * point in it. 0 or -1. */
static int find_group(int pid, const char *controller, char directory[PATH_MAX],
                      size_t *mount_length)
{
    static const char mount[] = "/sys/fs/cgroup";
    char line[PATH_MAX], unified[PATH_MAX] = "", path[PATH_MAX] = "", name[64];
    snprintf(name, sizeof(name), "/proc/%d/cgroup", pid);
    FILE *file = fopen(pid ? name : "/proc/self/cgroup", "re");
    if (!file)
        return -1;
    while (fgets(line, sizeof(line), file)) { /* ID:CONTROLLER,CONTROLLER:PATH */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        if (!controllers[1])
            snprintf(unified, sizeof(unified), "%s", group);
        for (char *save, *word = strtok_r(controllers + 1, ",", &save); word;
             word = strtok_r(NULL, ",", &save))
            if (strcmp(word, controller) == 0)
                snprintf(path, sizeof(path), "%s", group);
    }
    fclose(file);
    if (!path[0] && !unified[0])
        return -1;
    *mount_length = (size_t)(path[0] ? snprintf(directory, PATH_MAX, "%s/%s", mount, controller)
                                     : snprintf(directory, PATH_MAX, "%s", mount));
    const char *below = path[0] ? path : unified;
    if (strlen(below) + *mount_length >= PATH_MAX)
        return -1;
    strcpy(directory + *mount_length, strcmp(below, "/") == 0 ? "" : below);
    return 0;
}

void cgroup_each(int pid, const char *controller,
                 void (*visit)(const char *directory, void *context), void *context)
{
    char directory[PATH_MAX];
    size_t mount_length;
    if (find_group(pid, controller, directory, &mount_length) < 0)
        return;
    for (;;) {
        visit(directory, context);
        if (strlen(directory) <= mount_length)
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

int cgroup_keyed_number(const char *directory, const char *name, const char *key, uint64_t *value)
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
    uint64_t maximum, current, cached = 0;
    if (cgroup_number(directory, "memory.max", &maximum) == 0 &&
        cgroup_number(directory, "memory.current", &current) == 0)
        (void)cgroup_keyed_number(directory, "memory.stat", "inactive_file", &cached);
    else if (cgroup_number(directory, "memory.limit_in_bytes", &maximum) == 0 &&
             cgroup_number(directory, "memory.usage_in_bytes", &current) == 0)
        (void)cgroup_keyed_number(directory, "memory.stat", "total_inactive_file", &cached);
    else
        return -1;
    *used = current > cached ? current - cached : 0;
    *limit = maximum;
    return 0;
}

struct limit_search {
    const char *const *names;
    const char *used;
    uint64_t lowest;
};

static void visit_limit(const char *directory, void *context)
{
    struct limit_search *search = context;
    uint64_t limit, used = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (cgroup_number(directory, search->names[i], &limit) != 0)
            continue;
        if (search->used)
            (void)cgroup_number(directory, search->used, &used); /* a missing file counts as 0 */
        uint64_t rest = limit > used ? limit - used : 0;
        search->lowest = rest < search->lowest ? rest : search->lowest;
    }
}

uint64_t cgroup_lowest_limit(const char *controller, const char *const names[2], const char *used)
{
    struct limit_search search = {names, used, UINT64_MAX};
    cgroup_each(0, controller, visit_limit, &search);
    return search.lowest;
}

uint64_t cgroup_memory_limit(void)
{
    static const char *const names[2] = {"memory.max", "memory.limit_in_bytes"};
    return cgroup_lowest_limit("memory", names, NULL);
}

uint64_t machine_memory(const char *key)
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
