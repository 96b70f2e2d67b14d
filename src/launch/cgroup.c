/* src/launch/cgroup.c: control groups and the OOM killer: see capacity.h. */
#include "launch/capacity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/proc.h"
#include "space/registry.h"

/* ---- Groups and their files ---- */

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

/* Like cgroup_number, for a line "KEY NUMBER" of the file. */
static int read_line(const char *directory, const char *name, const char *key, uint64_t *value)
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
        (void)read_line(directory, "memory.stat", "inactive_file", &cached);
    else if (cgroup_number(directory, "memory.limit_in_bytes", &maximum) == 0 &&
             cgroup_number(directory, "memory.usage_in_bytes", &current) == 0)
        (void)read_line(directory, "memory.stat", "total_inactive_file", &cached);
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
    struct limit_search search = {names, used, CAPACITY_UNLIMITED};
    cgroup_each(0, controller, visit_limit, &search);
    return search.lowest;
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

/* ---- The OOM killer ---- */

/* The tasks' memory is read when three quarters of the limit are in use, and again after each
 * sixteenth: reading the sizes of all mappings of a large space is slow. */
enum { SAMPLE_FROM_PERCENT = 75, SAMPLE_STEP = 16 };

static uint64_t oom_kills(const char *directory)
{
    uint64_t kills = 0;
    if (read_line(directory, "memory.events.local", "oom_kill", &kills) != 0 &&
        read_line(directory, "memory.events", "oom_kill", &kills) != 0)
        (void)read_line(directory, "memory.oom_control", "oom_kill", &kills);
    return kills;
}

static void visit_memory(const char *directory, void *context)
{
    struct oom_watch *watch = context;
    uint64_t used, limit;
    if (!watch->directory[0])
        snprintf(watch->directory, sizeof(watch->directory), "%s", directory);
    if (cgroup_memory(directory, &used, &limit) != 0 || limit >= watch->limit)
        return;
    snprintf(watch->limited, sizeof(watch->limited), "%s", directory);
    watch->limit = limit;
}

void oom_watch_begin(struct oom_watch *watch, int pid)
{
    *watch = (struct oom_watch){.pid = pid, .limit = machine_memory("MemTotal")};
    cgroup_each(pid, "memory", visit_memory, watch);
    watch->kills = oom_kills(watch->directory);
}

int oom_watch_is_limited(const struct oom_watch *watch)
{
    return watch->limited[0] != 0;
}

/* The process of a slot, or 0 where this process may not read another one's memory. */
static int pid_of_slot(int pid, unsigned slot)
{
    int32_t found = 0;
    uintptr_t address = LAYOUT_REGISTRY + offsetof(struct space, pids) + slot * sizeof(int32_t);
    struct iovec local = {&found, sizeof(found)}, remote = {(void *)address, sizeof(found)};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof(found) ? found : 0;
}

/* Finds the task with most resident memory in its range. */
static void find_largest_task(struct oom_watch *watch)
{
    static uint64_t resident[LAYOUT_SLOTS + 1]; /* kB; the last is for memory in no range */
    char line[512];
    struct proc_mapping mapping;
    uint64_t size;
    unsigned slot = LAYOUT_SLOTS, largest = 0;
    snprintf(line, sizeof(line), "/proc/%d/smaps", watch->pid);
    FILE *smaps = fopen(line, "re");
    memset(resident, 0, sizeof(resident));
    while (smaps && fgets(line, sizeof(line), smaps)) {
        if (sscanf(line, "Rss: %" SCNu64, &size) == 1)
            resident[slot] += size;
        else if (proc_parse_mapping(line, &mapping))
            slot = layout_slot_of(mapping.start);
    }
    if (smaps)
        fclose(smaps);
    for (slot = 1; slot < LAYOUT_SLOTS; slot++)
        largest = resident[slot] > resident[largest] || largest == 0 ? slot : largest;
    int pid = resident[largest] ? pid_of_slot(watch->pid, largest) : 0;
    if (pid > 0) {
        watch->largest_pid = pid;
        watch->largest = resident[largest] * 1024;
    }
}

void oom_watch_sample(struct oom_watch *watch)
{
    uint64_t used, limit;
    if (!watch->limited[0] || cgroup_memory(watch->limited, &used, &limit) != 0)
        return;
    watch->limit = limit; /* it may have been changed */
    if (used < limit / 100 * SAMPLE_FROM_PERCENT || used < watch->sampled + limit / SAMPLE_STEP)
        return;
    watch->sampled = used;
    find_largest_task(watch);
}

int oom_watch_explain(const struct oom_watch *watch, char *message, size_t size)
{
    char largest[128] = "";
    uint64_t kills = watch->directory[0] ? oom_kills(watch->directory) : 0;
    if (kills <= watch->kills || !watch->limited[0])
        return 0;
    if (watch->largest_pid)
        snprintf(largest, sizeof(largest), "; of its tasks pid %d used most, %" PRIu64 " MiB",
                 watch->largest_pid, watch->largest >> 20);
    snprintf(message, size,
             "the kernel has ended the whole space, all tasks of it, since the memory of its "
             "control group was used up: %.300s has a limit of %" PRIu64 " MiB, and oom_kill of "
             "%.300s went from %" PRIu64 " to %" PRIu64
             "%s; ask for more memory, or start fewer ranks on the node",
             watch->limited, watch->limit >> 20, watch->directory, watch->kills, kills, largest);
    return 1;
}
