/* src/launch/capacity.c: see capacity.h. */
#include "launch/capacity.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/raw.h"
#include "launch/identity.h"
#include "policy/policy.h"
#include "space/layout.h"
#include "space/member.h"
#include "space/registry.h"

/* ---- The mappings of the space of this process ---- */

struct mapping_count {
    uint64_t limit; /* vm.max_map_count, or UINT64_MAX if it cannot be read */
    uint64_t used;
    uint64_t largest; /* of the task that has most; 0: there is no task */
};

static uint64_t mapping_limit(void)
{
    uint64_t limit = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (!file)
        return UINT64_MAX;
    int read = fscanf(file, "%" SCNu64, &limit);
    fclose(file);
    return read == 1 ? limit : UINT64_MAX;
}

/* Reading the list blocks all changes of the space's mappings meanwhile. Allocates nothing. */
static void count_mappings(struct mapping_count *count)
{
    char buffer[16384];
    uint32_t per_slot[LAYOUT_SLOTS] = {0};
    struct proc_maps maps;
    struct proc_mapping mapping;
    *count = (struct mapping_count){.limit = mapping_limit()};
    if (proc_maps_open(&maps, 0, buffer, sizeof(buffer)) != 0)
        return;
    while (proc_maps_next(&maps, &mapping)) {
        unsigned slot = layout_slot_of(mapping.start);
        count->used++;
        if (slot > 0 && slot < LAYOUT_SLOTS && ++per_slot[slot] > count->largest)
            count->largest = per_slot[slot];
    }
    proc_maps_close(&maps);
}

/* Whether no more mappings are left than one failed start, or one freed block, returns. */
static int mappings_are_exhausted(const struct mapping_count *count)
{
    enum { MARGIN = 256 };
    return count->used + MARGIN >= count->limit;
}

/* ---- Needs ---- */

/* The needs of the space and of each rank. A static program has 10 mappings, a dynamic one 25, a
 * rank of MPICH 100, of Open MPI 165. A rank of Open MPI has three threads, and each rank has a
 * shim. The locked memory was measured with UCX's transport rc_verbs (tests/networks), without the
 * program's data. Where mappings are scarce, the shim makes a rank of Open MPI load less, which
 * then has 114 (mpi_defaults.c). */
struct need {
    uint64_t space, per_rank;
};
static const struct {
    const char *resource, *limit, *unit;
    struct need minimum, typical;
} needs[CAPACITY_RESOURCES] = {
    {"descriptors", "ulimit -Hn", "", {24, 1}, {24, 1}},
    {"mappings", "vm.max_map_count", "", {60, 10}, {100, 125}},
    {"processes", "ulimit -u and pids.max", "", {0, 1}, {4, 4}},
    {"memory", "the machine's memory and memory.max", " KiB", {4096, 128}, {32768, 8192}},
    {"locked memory", "ulimit -l, which counts the whole space", " KiB", {0, 0}, {0, 57536}},
};

static uint64_t needed(const struct need *need, uint64_t ranks)
{
    return need->space + ranks * need->per_rank;
}

static unsigned ranks_that_fit(const struct need *need, uint64_t available)
{
    if (need->per_rank == 0)
        return UINT_MAX;
    uint64_t ranks = available < need->space ? 0 : (available - need->space) / need->per_rank;
    return ranks < UINT_MAX ? (unsigned)ranks : UINT_MAX;
}

int capacity_mappings_are_scarce(unsigned ranks)
{
    static const struct need full = {100, 170};
    return needed(&full, ranks) > mapping_limit();
}

/* ---- What is available ---- */

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t available_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY)
        return CAPACITY_UNLIMITED;
    return limit.rlim_max;
}

/* Processes and threads of this user, as RLIMIT_NPROC counts them. */
static uint64_t count_users_threads(void)
{
    uint64_t count = 0;
    char path[64];
    struct stat status;
    DIR *list = opendir("/proc");
    for (struct dirent *entry; list && (entry = readdir(list));) {
        snprintf(path, sizeof(path), "/proc/%.16s/task", entry->d_name);
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && stat(path, &status) == 0 &&
            status.st_uid == getuid() && status.st_nlink > 2)
            count += status.st_nlink - 2;
    }
    if (list)
        closedir(list);
    return count;
}

static uint64_t available_processes(void)
{
    static const char *const names[2] = {"pids.max", "pids.max"};
    uint64_t in_group = cgroup_lowest_limit("pids", names, "pids.current");
    struct rlimit limit;
    if (getuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return in_group; /* the limit does not bind root */
    uint64_t used = count_users_threads();
    return lower(in_group, limit.rlim_cur > used ? limit.rlim_cur - used : 0);
}

/* KiB, or CAPACITY_UNLIMITED. The limit applies to the whole space. */
static uint64_t address_space_limit(void)
{
    struct rlimit limit;
    int is_set = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return is_set ? limit.rlim_cur / 1024 : CAPACITY_UNLIMITED;
}

/* KiB. A group counts with its whole limit, because much of its memory in use is page cache. */
static uint64_t available_memory(void)
{
    uint64_t group = cgroup_memory_limit();
    uint64_t free = (machine_memory("MemAvailable") + machine_memory("SwapFree")) / 1024;
    group = group == CAPACITY_UNLIMITED ? group : group / 1024;
    return lower(lower(free ? free : CAPACITY_UNLIMITED, group), address_space_limit());
}

/* Whether there is a network device whose driver pins the memory that is registered with it. */
static int has_rdma_device(void)
{
    static const char *const classes[] = {"/sys/class/infiniband", "/sys/class/cxi"};
    int found = 0;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]) && !found; i++) {
        DIR *list = opendir(classes[i]);
        for (struct dirent *entry; list && !found && (entry = readdir(list));)
            found = entry->d_name[0] != '.';
        if (list)
            closedir(list);
    }
    return found;
}

/* In the user namespace of the machine: drivers ask for the capability there. */
static int has_lock_capability(void)
{
    unsigned from = 1, to = 1, count = 0;
    FILE *map = fopen("/proc/self/uid_map", "re");
    int is_known = map && fscanf(map, "%u %u %u", &from, &to, &count) == 3;
    if (map)
        fclose(map);
    int is_initial = !is_known || (from == 0 && to == 0 && count == UINT32_MAX);
    return is_initial && proc_status_has_bits(0, "CapEff:", UINT64_C(1) << CAP_IPC_LOCK);
}

/* KiB. The kernel counts what drivers pin for each address space. */
static uint64_t available_locked_memory(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        has_lock_capability() || !has_rdma_device())
        return CAPACITY_UNLIMITED;
    return limit.rlim_cur / 1024;
}

/* ---- Estimates and messages ---- */

/* Rounds up to a power of two, for limits that people type. */
static uint64_t rounded(uint64_t value)
{
    uint64_t power = 1024;
    while (power < value)
        power *= 2;
    return power;
}

static void set_fix(enum capacity_resource resource, struct capacity *capacity)
{
    size_t size = sizeof(capacity->fix);
    uint64_t wanted = rounded(capacity->typical);
    if (resource == CAPACITY_DESCRIPTORS)
        snprintf(capacity->fix, size,
                 "raise it: ulimit -Hn %" PRIu64 " (limits.conf, LimitNOFILE=)", wanted);
    else if (resource == CAPACITY_MAPPINGS)
        snprintf(capacity->fix, size, "raise it: sysctl -w vm.max_map_count=%" PRIu64,
                 wanted < 262144 ? 262144 : wanted);
    else if (resource == CAPACITY_PROCESSES)
        snprintf(capacity->fix, size,
                 "raise whichever binds: ulimit -u %" PRIu64
                 ", or the cgroup's pids.max (TasksMax=)",
                 wanted);
    else if (resource == CAPACITY_LOCKED_MEMORY)
        snprintf(capacity->fix, size,
                 "lift it: ulimit -l unlimited (limits.conf, LimitMEMLOCK=infinity)");
    else if (address_space_limit() != CAPACITY_UNLIMITED)
        snprintf(capacity->fix, size, "lift it: ulimit -v unlimited");
    else
        snprintf(capacity->fix, size, "ask for more memory, or start fewer ranks on the node");
}

void capacity_estimate(enum capacity_resource resource, unsigned ranks, struct capacity *capacity)
{
    static uint64_t (*const available[CAPACITY_RESOURCES])(void) = {
        available_descriptors, mapping_limit, available_processes, available_memory,
        available_locked_memory};
    *capacity = (struct capacity){.resource = needs[resource].resource,
                                  .limit = needs[resource].limit,
                                  .unit = needs[resource].unit,
                                  .available = available[resource](),
                                  .minimum = needed(&needs[resource].minimum, ranks),
                                  .typical = needed(&needs[resource].typical, ranks)};
    if (resource == CAPACITY_MEMORY && address_space_limit() != CAPACITY_UNLIMITED)
        capacity->limit = "ulimit -v, which counts the whole space";
    capacity->ranks_minimum = ranks_that_fit(&needs[resource].minimum, capacity->available);
    capacity->ranks_typical = ranks_that_fit(&needs[resource].typical, capacity->available);
    set_fix(resource, capacity);
}

int capacity_check(enum capacity_root root, unsigned ranks, char *message, size_t size)
{
    struct capacity capacity;
    const struct space *space = space_mine(); /* a host that could make none refuses all ranks */
    uint32_t allowed = space ? space->tasks_max : 0;
    int result = 0;
    if (allowed && ranks > allowed) {
        snprintf(message, size,
                 "%u ranks are more than the %u tasks of one space that max_tasks in %s allows",
                 ranks, allowed, POLICY_FILE);
        return -EAGAIN;
    }
    for (unsigned resource = 0; resource < CAPACITY_RESOURCES; resource++) {
        if (resource == CAPACITY_DESCRIPTORS && root == CAPACITY_STANDALONE)
            continue;
        capacity_estimate(resource, ranks, &capacity);
        if (capacity.minimum > capacity.available) {
            snprintf(message, size,
                     "%u ranks do not fit on this node: they need %" PRIu64 "%s %s at least, and "
                     "there are %" PRIu64 " (%s), enough for %u; %s",
                     ranks, capacity.minimum, capacity.unit, capacity.resource, capacity.available,
                     capacity.limit, capacity.ranks_minimum, capacity.fix);
            return -EAGAIN;
        }
        if (result || capacity.typical <= capacity.available || root == CAPACITY_STANDALONE)
            continue;
        snprintf(message, size,
                 "%u ranks of an MPI program may not fit on this node: they take about %" PRIu64
                 "%s %s, and there are %" PRIu64 " (%s), enough for about %u; %s",
                 ranks, capacity.typical, capacity.unit, capacity.resource, capacity.available,
                 capacity.limit, capacity.ranks_typical, capacity.fix);
        result = 1;
    }
    return result;
}

int capacity_describe_mappings(unsigned running, unsigned ranks, char *message, size_t size)
{
    struct mapping_count count;
    struct capacity capacity;
    size_t length = strlen(message);
    count_mappings(&count);
    capacity_estimate(CAPACITY_MAPPINGS, ranks, &capacity);
    /* A rank of this program needs at least what the largest has now. */
    if (2 * ranks * count.largest > capacity.typical)
        capacity.typical = 2 * ranks * count.largest;
    set_fix(CAPACITY_MAPPINGS, &capacity);
    length += (size_t)snprintf(message + length, size - length,
                               "%sout of mappings (vm.max_map_count): %u of %u ranks run",
                               length ? ": " : "", running, ranks);
    if (count.largest && length < size)
        length += (size_t)snprintf(message + length, size - length,
                                   ", and the largest has %" PRIu64 " of %" PRIu64
                                   ", which is enough for %" PRIu64 " such",
                                   count.largest, count.limit, count.limit / count.largest);
    if (length < size)
        snprintf(message + length, size - length, "; %s", capacity.fix);
    return mappings_are_exhausted(&count);
}

void capacity_explain_error(int error, unsigned started, unsigned ranks, char *message, size_t size)
{
    enum { NEARLY_EXHAUSTED = 64 };
    struct mapping_count count;
    struct capacity capacity;
    enum capacity_resource resource = CAPACITY_MEMORY;
    size_t length = strlen(message);
    if (error == -EMFILE || error == -ENFILE) {
        resource = CAPACITY_DESCRIPTORS;
    } else if (error == -EAGAIN) {
        resource = CAPACITY_PROCESSES;
    } else if (error != -ENOMEM) {
        return;
    } else {
        count_mappings(&count);
        if (mappings_are_exhausted(&count)) {
            (void)capacity_describe_mappings(started, ranks, message, size);
            return;
        }
    }
    capacity_estimate(resource, ranks, &capacity);
    if (resource == CAPACITY_PROCESSES && capacity.available > NEARLY_EXHAUSTED)
        return; /* the space is full, or the rank was killed */
    snprintf(message + length, size - length, "%sout of %s (%s): %u of %u ranks run; %s",
             length ? ": " : "", capacity.resource, capacity.limit, started, ranks, capacity.fix);
}

/* ---- CPUs ---- */

static struct cpu_mask usable_cpus; /* by at least one task */
static int task_count, cpu_count;

/* A task that runs others counts them for itself alone. */
static void publish_oversubscription(void)
{
    if (onespace_self() != ONESPACE_ROOT)
        return;
    atomic_store_explicit(&space_registry()->oversubscribed, task_count > cpu_count,
                          memory_order_relaxed);
}

void oversubscription_add(const void *cpus, size_t size)
{
    struct cpu_mask own = {0};
    if (size == 0)
        syscall(SYS_sched_getaffinity, 0, sizeof(own), &own);
    else
        memcpy(&own, cpus, size < sizeof(own) ? size : sizeof(own));
    cpu_mask_or(&usable_cpus, &own);
    cpu_count = cpu_mask_count(&usable_cpus);
    task_count++;
    publish_oversubscription();
}

void oversubscription_remove(void)
{
    task_count--;
    publish_oversubscription();
}
