/* cmd/doctor/memory.c: mappings, overcommit, huge pages, memory cgroups, shared memory. */
#include "cmd/doctor/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/lib/output.h"
#include "host/room/cgroup.h"
#include "host/room/groups.h"
#include "host/room/room.h"

/* Mappings of one MPI rank: about 100 with MPICH, 165 with Open MPI. */
enum { RANK_MAPPINGS = 170 };

static void say_mappings(void)
{
    char text[64], fix[160];
    static const char subject[] = "vm.max_map_count";
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (doctor_read("/proc/sys/vm/max_map_count", text, sizeof(text)) != 0) {
        doctor_say(DOCTOR_WARNING, subject, "Mount /proc.", "cannot be read");
        return;
    }
    long most = atol(text), ranks = most / RANK_MAPPINGS;
    long wanted = 1 << 18;
    while (wanted < 4 * cores * RANK_MAPPINGS)
        wanted *= 2;
    snprintf(fix, sizeof(fix), "Raise it: sysctl -w vm.max_map_count=%ld (and in /etc/sysctl.d).",
             wanted);
    int few = ranks < cores;
    doctor_say(
        few ? DOCTOR_WARNING : DOCTOR_GOOD, subject, few ? fix : NULL,
        "%ld mappings for all tasks of a space together: about %ld MPI ranks; this machine has %ld "
        "CPUs",
        most, ranks, cores);
}

static void say_overcommit(void)
{
    char text[32], limit[OUTPUT_SHORT], used[OUTPUT_SHORT];
    static const char subject[] = "overcommit";
    doctor_read("/proc/sys/vm/overcommit_memory", text, sizeof(text));
    if (text[0] == '2')
        doctor_say(DOCTOR_WARNING, subject,
                   "sysctl -w vm.overcommit_memory=0, or keep enough room below the limit.",
                   "strict (2): what tasks reserve counts, not what they use; %s of %s are taken",
                   output_bytes(used, cgroup_machine("Committed_AS")),
                   output_bytes(limit, cgroup_machine("CommitLimit")));
    else
        doctor_say(DOCTOR_GOOD, subject, NULL, "%s",
                   text[0] == '1' ? "always allowed (1)" : "heuristic (0)");
}

static void say_huge_pages(void)
{
    char text[64], size[64], reserved[32];
    doctor_read("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text));
    char *chosen = strchr(text, '['), *end = chosen ? strchr(chosen, ']') : NULL;
    if (end)
        *end = 0;
    doctor_read("/proc/sys/vm/nr_hugepages", reserved, sizeof(reserved));
    uint64_t bytes = cgroup_machine("Hugepagesize");
    output_bytes(size, bytes);
    if (!chosen)
        doctor_say(DOCTOR_WARNING, "huge pages", "Use a kernel with CONFIG_TRANSPARENT_HUGEPAGE.",
                   "no transparent ones: large data take more page faults; %s reserved",
                   reserved[0] ? reserved : "0");
    else if (strcmp(chosen + 1, "never") == 0)
        doctor_say(DOCTOR_WARNING, "huge pages",
                   "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
                   "transparent ones are switched off: large data take more page faults; %s of %s "
                   "reserved",
                   reserved, size);
    else
        doctor_say(DOCTOR_GOOD, "huge pages", NULL, "transparent: %s; %s of %s reserved",
                   chosen + 1, reserved, size);
}

static void say_groups(void)
{
    static const char *const memory_names[2] = {"memory.max", "memory.limit_in_bytes"};
    static const char *const pids_names[2] = {"pids.max", "pids.max"};
    char text[OUTPUT_SHORT], ranks[OUTPUT_SHORT];
    struct room room;
    uint64_t memory = groups_limit("memory", memory_names), pids = groups_limit("pids", pids_names);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    room_look(ROOM_MEMORY, (unsigned)cores, &room);
    if (memory < cgroup_machine("MemTotal"))
        doctor_say(DOCTOR_WARNING, "memory cgroup",
                   "Keep the job below it, or ask for more memory.",
                   "limited to %s, of which %ld MPI ranks, one for each CPU, take about %s without "
                   "their data; beyond it the kernel ends the whole space, not one task",
                   output_bytes(text, memory), cores, output_bytes(ranks, room.likely * 1024));
    else
        doctor_say(DOCTOR_GOOD, "memory cgroup", NULL,
                   "no limit below the machine's memory (%s); when that "
                   "is full the kernel ends a whole space, not one task",
                   output_bytes(text, cgroup_machine("MemTotal")));
    if (pids < (uint64_t)cores * 8)
        doctor_say(DOCTOR_WARNING, "pids cgroup", "Raise pids.max of the job or container.",
                   "%" PRIu64 " processes and threads at most", pids);
}

static void say_shared_memory(void)
{
    struct statvfs system;
    char size[OUTPUT_SHORT], left[OUTPUT_SHORT];
    if (statvfs("/dev/shm", &system) != 0) {
        doctor_say(DOCTOR_WARNING, "/dev/shm", "Mount a tmpfs there.",
                   "%s: MPI libraries cannot start ranks on one node without it", strerror(errno));
        return;
    }
    uint64_t bytes = (uint64_t)system.f_blocks * system.f_frsize;
    uint64_t available = (uint64_t)system.f_bavail * system.f_frsize;
    int small = bytes <= 64u << 20 || available < 16u << 20;
    doctor_say(
        small ? DOCTOR_WARNING : DOCTOR_GOOD, "/dev/shm",
        small ? "Enlarge it (--shm-size for containers), or remove what is left behind in it."
              : NULL,
        "%s, %s free%s", output_bytes(size, bytes), output_bytes(left, available),
        small ? ": MPI libraries put their segments there, and ranks die when it is full" : "");
}

void doctor_memory(void)
{
    say_mappings();
    say_overcommit();
    say_huge_pages();
    say_groups();
    say_shared_memory();
}
