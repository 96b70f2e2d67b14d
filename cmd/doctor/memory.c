/* cmd/doctor/memory.c: memory and resource limits, and whether a number of ranks fits. */
#include "cmd/doctor/doctor.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/clean/clean.h"
#include "cmd/lib/files.h"
#include "cmd/lib/output.h"
#include "launch/capacity.h"
#include "onespace.h"

/* ---- Mappings, overcommit, huge pages, control groups, shared memory ---- */

static void say_mappings(void)
{
    char text[64], fix[160];
    static const char subject[] = "vm.max_map_count";
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (file_read_line("/proc/sys/vm/max_map_count", text, sizeof(text)) != 0) {
        doctor_say(DOCTOR_WARNING, subject, "Mount /proc.", "cannot be read");
        return;
    }
    struct capacity capacity;
    uint64_t wanted = 1 << 18;
    capacity_estimate(CAPACITY_MAPPINGS, 4 * (unsigned)cores, &capacity);
    while (wanted < capacity.typical)
        wanted *= 2;
    snprintf(fix, sizeof(fix),
             "Raise it: sysctl -w vm.max_map_count=%" PRIu64 " (and in /etc/sysctl.d).", wanted);
    int few = capacity.ranks_typical < (unsigned)cores;
    doctor_say(
        few ? DOCTOR_WARNING : DOCTOR_GOOD, subject, few ? fix : NULL,
        "%s mappings for all tasks of a space together: about %u MPI ranks; this machine has %ld "
        "CPUs",
        text, capacity.ranks_typical, cores);
}

static void say_overcommit(void)
{
    char text[32], limit[OUTPUT_SHORT], used[OUTPUT_SHORT];
    static const char subject[] = "overcommit";
    file_read_line("/proc/sys/vm/overcommit_memory", text, sizeof(text));
    if (text[0] == '2')
        doctor_say(DOCTOR_WARNING, subject,
                   "sysctl -w vm.overcommit_memory=0, or keep enough room below the limit.",
                   "strict (2): what tasks reserve counts, not what they use; %s of %s are taken",
                   output_bytes(used, machine_memory("Committed_AS")),
                   output_bytes(limit, machine_memory("CommitLimit")));
    else
        doctor_say(DOCTOR_GOOD, subject, NULL, "%s",
                   text[0] == '1' ? "always allowed (1)" : "heuristic (0)");
}

static void say_huge_pages(void)
{
    char text[64], size[64], reserved[32];
    file_read_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text));
    char *chosen = strchr(text, '['), *end = chosen ? strchr(chosen, ']') : NULL;
    if (end)
        *end = 0;
    file_read_line("/proc/sys/vm/nr_hugepages", reserved, sizeof(reserved));
    uint64_t bytes = machine_memory("Hugepagesize");
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
    static const char *const pids_names[2] = {"pids.max", "pids.max"};
    char text[OUTPUT_SHORT], ranks[OUTPUT_SHORT];
    struct capacity capacity;
    uint64_t memory = cgroup_memory_limit(), pids = cgroup_lowest_limit("pids", pids_names, NULL);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    capacity_estimate(CAPACITY_MEMORY, (unsigned)cores, &capacity);
    if (memory < machine_memory("MemTotal"))
        doctor_say(DOCTOR_WARNING, "memory cgroup",
                   "Keep the job below it, or ask for more memory.",
                   "limited to %s, of which %ld MPI ranks, one for each CPU, take about %s without "
                   "their data; beyond it the kernel ends the whole space, not one task",
                   output_bytes(text, memory), cores, output_bytes(ranks, capacity.typical * 1024));
    else
        doctor_say(DOCTOR_GOOD, "memory cgroup", NULL,
                   "no limit below the machine's memory (%s); when that "
                   "is full the kernel ends a whole space, not one task",
                   output_bytes(text, machine_memory("MemTotal")));
    if (pids < (uint64_t)cores * 8)
        doctor_say(DOCTOR_WARNING, "pids cgroup", "Raise pids.max of the job or container.",
                   "%" PRIu64 " processes and threads at most", pids);
}

static void say_shared_memory(void)
{
    struct statvfs system;
    char size[OUTPUT_SHORT], left[OUTPUT_SHORT];
    if (statvfs("/dev/shm", &system) != 0) {
        doctor_say(
            DOCTOR_WARNING, "/dev/shm", "Mount a tmpfs there.",
            "%s: MPI libraries cannot start ranks that are processes without it; tasks need none",
            strerror(errno));
        return;
    }
    uint64_t bytes = (uint64_t)system.f_blocks * system.f_frsize;
    uint64_t available = (uint64_t)system.f_bavail * system.f_frsize;
    int small = bytes <= 64u << 20 || available < 16u << 20;
    doctor_say(small ? DOCTOR_WARNING : DOCTOR_GOOD, "/dev/shm",
               small
                   ? "Enlarge it (--shm-size for containers), or remove what is left behind in it."
                   : NULL,
               "%s, %s free%s", output_bytes(size, bytes), output_bytes(left, available),
               small ? ": MPI libraries put their segments there, and ranks that are processes die "
                       "when it is full; tasks' are memory of the space"
                     : "");
}

static void say_leftovers(void)
{
    struct leftover *items = NULL;
    char size[OUTPUT_SHORT];
    uint64_t bytes = 0;
    long count = leftovers_find(&items);
    for (long i = 0; i < count; i++)
        bytes += items[i].bytes;
    free(items);
    if (count > 0)
        doctor_say(DOCTOR_WARNING, "left behind", "List them: onespace clean. Then --remove.",
                   "%ld files or directories of ended MPI jobs, %s", count,
                   output_bytes(size, bytes));
}

void doctor_memory(void)
{
    say_mappings();
    say_overcommit();
    say_huge_pages();
    say_groups();
    say_shared_memory();
    say_leftovers();
}

/* ---- Resource limits (ulimit) ----
 *
 * The kernel counts memory per address space, so a limit on memory applies to the whole space. */

/* For the registry, the command and one small task. */
#define SPACE_MIN_BYTES (UINT64_C(256) << 20)

static void say_memory_limit(int resource, const char *subject, const char *fix)
{
    struct rlimit limit;
    char text[OUTPUT_SHORT];
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        doctor_say(DOCTOR_GOOD, subject, NULL, "unlimited");
    else
        doctor_say(limit.rlim_cur < SPACE_MIN_BYTES ? DOCTOR_WRONG : DOCTOR_WARNING, subject, fix,
                   "%s for all tasks of a space together, not for each",
                   output_bytes(text, limit.rlim_cur));
}

/* Memory that is registered with a network card is locked. */
static void say_locked_memory(void)
{
    struct rlimit limit;
    struct capacity capacity;
    char text[OUTPUT_SHORT], each[OUTPUT_SHORT];
    static const char subject[] = "ulimit -l";
    capacity_estimate(CAPACITY_LOCKED_MEMORY, 1, &capacity);
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        doctor_say(DOCTOR_GOOD, subject, NULL, "unlimited");
    else if (capacity.available == CAPACITY_UNLIMITED)
        doctor_say(
            DOCTOR_GOOD, subject, NULL,
            "%s, which does not limit you: there is no RDMA network, or you have CAP_IPC_LOCK",
            output_bytes(text, limit.rlim_cur));
    else
        doctor_say(DOCTOR_WARNING, subject,
                   "Lift it: ulimit -l unlimited (limits.conf, LimitMEMLOCK=infinity).",
                   "%s for all tasks of a space together, and an MPI rank that sends by RDMA takes "
                   "about %s",
                   output_bytes(text, limit.rlim_cur), output_bytes(each, capacity.typical * 1024));
}

static void say_files(void)
{
    enum { LEAST = 1024 };
    struct rlimit limit;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    getrlimit(RLIMIT_NOFILE, &limit);
    /* The host has one for each rank, and launchers a few. */
    rlim_t wanted = (rlim_t)cores * 8 > LEAST ? (rlim_t)cores * 8 : LEAST;
    int few = limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted;
    doctor_say(few ? DOCTOR_WARNING : DOCTOR_GOOD, "ulimit -n",
               few ? "Raise it: ulimit -n 65536 (or limits.conf, LimitNOFILE=)." : NULL,
               "%llu open files%s", (unsigned long long)limit.rlim_cur,
               few ? ": too few for a rank on every CPU" : "");
}

static void say_processes(void)
{
    struct rlimit limit;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    getrlimit(RLIMIT_NPROC, &limit);
    int few = limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (rlim_t)cores * 16;
    if (limit.rlim_cur == RLIM_INFINITY)
        doctor_say(DOCTOR_GOOD, "ulimit -u", NULL, "unlimited");
    else
        doctor_say(few ? DOCTOR_WARNING : DOCTOR_GOOD, "ulimit -u",
                   few ? "Raise it: ulimit -u 16384 (or limits.conf, TasksMax=)." : NULL,
                   "%llu processes and threads of this user", (unsigned long long)limit.rlim_cur);
}

static void say_stack(void)
{
    struct rlimit limit;
    char text[OUTPUT_SHORT];
    getrlimit(RLIMIT_STACK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        doctor_say(DOCTOR_WARNING, "ulimit -s",
                   "Name a size if that is too small: onespace run --stack 64M.",
                   "unlimited, which a task cannot have: each gets 8M");
    else
        doctor_say(DOCTOR_GOOD, "ulimit -s", NULL, "%s of main stack for each task",
                   output_bytes(text, limit.rlim_cur));
}

void doctor_limits(void)
{
    say_memory_limit(RLIMIT_AS, "ulimit -v", "Lift it: ulimit -v unlimited.");
    say_memory_limit(RLIMIT_DATA, "ulimit -d", "Lift it: ulimit -d unlimited.");
    say_locked_memory();
    say_files();
    say_processes();
    say_stack();
}

/* ---- Whether a number of ranks fits on this node ---- */

/* The programs' own data need memory, too: a quarter of it should stay free. */
enum { SPARE_MEMORY_DIVISOR = 4 };

static void say_capacity(enum capacity_resource resource, const struct capacity *capacity,
                         unsigned ranks)
{
    char fix[sizeof(capacity->fix) + 2], available[64];
    uint64_t spare = resource == CAPACITY_MEMORY ? capacity->available / SPARE_MEMORY_DIVISOR : 0;
    enum doctor_status status = capacity->minimum > capacity->available           ? DOCTOR_WRONG
                                : capacity->typical > capacity->available - spare ? DOCTOR_WARNING
                                                                                  : DOCTOR_GOOD;
    snprintf(fix, sizeof(fix), "%c%s.", toupper((unsigned char)capacity->fix[0]),
             capacity->fix + 1);
    if (capacity->available == CAPACITY_UNLIMITED)
        snprintf(available, sizeof(available), "there is no limit");
    else
        snprintf(available, sizeof(available), "%" PRIu64 "%s there: about %u MPI ranks",
                 capacity->available, capacity->unit, capacity->ranks_typical);
    doctor_say(status, capacity->resource, status == DOCTOR_GOOD ? NULL : fix,
               "%u ranks need %" PRIu64 "%s at least, those of an MPI program about %" PRIu64
               "%s; %s (%s)",
               ranks, capacity->minimum, capacity->unit, capacity->typical, capacity->unit,
               available, capacity->limit);
}

void doctor_ranks(unsigned ranks)
{
    struct capacity capacity;
    if (ranks > ONESPACE_TASKS_MAX)
        doctor_say(DOCTOR_WRONG, "tasks", "Start fewer ranks on the node.",
                   "%u ranks: one space holds %d", ranks, ONESPACE_TASKS_MAX);
    for (unsigned resource = 0; resource < CAPACITY_RESOURCES; resource++) {
        capacity_estimate(resource, ranks, &capacity);
        say_capacity(resource, &capacity, ranks);
    }
}
