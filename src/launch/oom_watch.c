/* src/launch/oom_watch.c: detects that the OOM killer ended a space: see capacity.h. */
#include "launch/capacity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/proc.h"
#include "space/registry.h"

/* The tasks' memory is read when three quarters of the limit are in use, and again after each
 * sixteenth: reading the sizes of all mappings of a large space is slow. */
enum { SAMPLE_FROM_PERCENT = 75, SAMPLE_STEP = 16 };

static uint64_t oom_kills(const char *directory)
{
    uint64_t kills = 0;
    if (cgroup_keyed_number(directory, "memory.events.local", "oom_kill", &kills) != 0 &&
        cgroup_keyed_number(directory, "memory.events", "oom_kill", &kills) != 0)
        (void)cgroup_keyed_number(directory, "memory.oom_control", "oom_kill", &kills);
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
             "the kernel has killed all tasks of the space, because its memory cgroup ran out of "
             "memory: %.300s has a limit of %" PRIu64 " MiB, and oom_kill of "
             "%.300s went from %" PRIu64 " to %" PRIu64
             "%s; ask for more memory, or start fewer ranks on the node",
             watch->limited, watch->limit >> 20, watch->directory, watch->kills, kills, largest);
    return 1;
}
