/* src/host/room/oom.c: see oom.h. */
#include "host/room/oom.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "host/room/cgroup.h"
#include "space/registry.h"

/* Looked at from three quarters of the limit on, and again when a sixteenth more is in use: reading
 * the sizes of all mappings of a large space takes a while. */
enum { NEARLY_PERCENT = 75, STEP = 16 };

static uint64_t kills_of(const char *directory)
{
    uint64_t kills = 0;
    if (cgroup_line(directory, "memory.events.local", "oom_kill", &kills) != 0 &&
        cgroup_line(directory, "memory.events", "oom_kill", &kills) != 0)
        (void)cgroup_line(directory, "memory.oom_control", "oom_kill", &kills);
    return kills;
}

static void visit(const char *directory, void *context)
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
    *watch = (struct oom_watch){.pid = pid, .limit = cgroup_machine("MemTotal")};
    cgroup_each(pid, "memory", visit, watch);
    watch->kills = kills_of(watch->directory);
}

int oom_watch_is_limited(const struct oom_watch *watch)
{
    return watch->limited[0] != 0;
}

/* The process of a slot, or 0: where a process may not read another's memory, it is not known. */
static int pid_of(int pid, unsigned slot)
{
    int32_t found = 0;
    uintptr_t place = LAYOUT_REGISTRY + offsetof(struct space, pids) + slot * sizeof(int32_t);
    struct iovec local = {&found, sizeof(found)}, remote = {(void *)place, sizeof(found)};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof(found) ? found : 0;
}

/* Which task has most resident memory in its range. */
static void find_most(struct oom_watch *watch)
{
    static uint64_t resident[LAYOUT_SLOTS + 1]; /* kB; the last is for what is in no range */
    char line[512];
    uintptr_t start;
    uint64_t size;
    unsigned slot = LAYOUT_SLOTS, most = 0;
    snprintf(line, sizeof(line), "/proc/%d/smaps", watch->pid);
    FILE *smaps = fopen(line, "re");
    memset(resident, 0, sizeof(resident));
    while (smaps && fgets(line, sizeof(line), smaps)) {
        if (sscanf(line, "Rss: %" SCNu64, &size) == 1)
            resident[slot] += size;
        else if (sscanf(line, "%" SCNxPTR "-", &start) == 1 && strchr(line, '-'))
            slot = layout_slot_of(start);
    }
    if (smaps)
        fclose(smaps);
    for (slot = 1; slot < LAYOUT_SLOTS; slot++)
        most = resident[slot] > resident[most] || most == 0 ? slot : most;
    int pid = resident[most] ? pid_of(watch->pid, most) : 0;
    if (pid > 0) {
        watch->most_pid = pid;
        watch->most = resident[most] * 1024;
    }
}

void oom_watch_look(struct oom_watch *watch)
{
    uint64_t used, limit;
    if (!watch->limited[0] || cgroup_memory(watch->limited, &used, &limit) != 0)
        return;
    watch->limit = limit; /* it may have been changed */
    if (used < limit / 100 * NEARLY_PERCENT || used < watch->seen + limit / STEP)
        return;
    watch->seen = used;
    find_most(watch);
}

static uint64_t mib(uint64_t bytes)
{
    return bytes >> 20;
}

int oom_watch_say(const struct oom_watch *watch, char *message, size_t size)
{
    char most[128] = "";
    uint64_t kills = watch->directory[0] ? kills_of(watch->directory) : 0;
    if (kills <= watch->kills || !watch->limited[0])
        return 0;
    if (watch->most_pid)
        snprintf(most, sizeof(most), "; of its tasks pid %d used most, %" PRIu64 " MiB",
                 watch->most_pid, mib(watch->most));
    snprintf(message, size,
             "the kernel has ended the whole space, all tasks of it, since the memory of its "
             "control group was used up: %.300s has a limit of %" PRIu64 " MiB, and oom_kill of "
             "%.300s went from %" PRIu64 " to %" PRIu64
             "%s; ask for more memory, or start fewer ranks on the node",
             watch->limited, mib(watch->limit), watch->directory, watch->kills, kills, most);
    return 1;
}
