/* src/task/inherit.c: see inherit.h. The keeper clones for the root, but has its own limits, nice
 * value, affinity and memory policy, those of the time when it was made. */
#include "task/inherit.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raw_syscall.h"
#include "space/registry.h"

static void fill_limits(struct birth *birth, const struct onespace_spawn_attr *attr, int from_root)
{
    for (unsigned i = 0; i < BIRTH_LIMITS && i < RLIM_NLIMITS; i++) {
        struct rlimit wanted, present;
        if (attr->limits)
            wanted = attr->limits[i];
        else if (!from_root || getrlimit(i, &wanted) != 0)
            continue;
        if (from_root)
            present = birth->space->keeper_limits[i];
        if ((from_root || getrlimit(i, &present) == 0) &&
            memcmp(&wanted, &present, sizeof(wanted)) == 0)
            continue;
        birth->limits[i] = wanted;
        birth->limit_mask |= 1u << i;
    }
}

static void fill_affinity(struct birth *birth, const struct onespace_spawn_attr *attr,
                          int from_root)
{
    if (attr->cpus) {
        birth->cpu_bytes = (uint32_t)(attr->cpus_size < sizeof(birth->cpus) ? attr->cpus_size
                                                                            : sizeof(birth->cpus));
        memcpy(birth->cpus, attr->cpus, birth->cpu_bytes);
    } else if (from_root) {
        long size = syscall(SYS_sched_getaffinity, 0, sizeof(birth->cpus), birth->cpus);
        birth->cpu_bytes = size > 0 ? (uint32_t)size : 0;
    }
}

static void fill_nice(struct birth *birth, const struct onespace_spawn_attr *attr, int from_root)
{
    birth->nice = attr->nice;
    if (attr->nice == INT32_MIN && from_root) {
        errno = 0;
        int nice = getpriority(PRIO_PROCESS, 0);
        int keeper = getpriority(PRIO_PROCESS, (id_t)atomic_load(&birth->space->keeper_pid));
        if (errno == 0 && nice != keeper)
            birth->nice = nice;
    }
}

static void fill_policy(struct birth *birth, int from_root)
{
    birth->policy_mode = -1;
    int mode;
    if (from_root &&
        syscall(SYS_get_mempolicy, &mode, birth->policy_nodes, 8 * sizeof(birth->policy_nodes),
                NULL, 0) == 0 &&
        mode != 0)
        birth->policy_mode = mode;
}

uint64_t inherit_signals_of(const sigset_t *set)
{
    uint64_t bits = 0;
    for (int signal = 1; signal <= 64; signal++)
        if (sigismember(set, signal) == 1)
            bits |= UINT64_C(1) << (signal - 1);
    return bits;
}

uint64_t inherit_ignored_signals(void)
{
    uint64_t ignored = 0;
    for (int signal = 1; signal <= 64; signal++) {
        struct space_sigaction action;
        if (raw(__NR_rt_sigaction, signal, NULL, &action, 8) == 0 &&
            action.handler == (uintptr_t)SIG_IGN)
            ignored |= UINT64_C(1) << (signal - 1);
    }
    return ignored;
}

/* The newborn starts with the signals ignored that its kernel parent (the keeper) or, when a task
 * spawns, the spawner has ignored; a task's SIGSEGV and SIGBUS are ours for the kernel. */
static void fill_ignored(struct birth *birth, const struct onespace_spawn_attr *attr, int from_root)
{
    uint64_t faults = UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1);
    uint64_t mine = inherit_ignored_signals();
    uint64_t present = from_root ? birth->space->keeper_ignored : mine & ~faults;
    uint64_t wanted = attr->ignored_signals ? inherit_signals_of(attr->ignored_signals) : mine;
    birth->ignore = wanted & ~present;
    birth->unignore = present & ~wanted;
}

void inherit_fill(struct birth *birth, const struct onespace_spawn_attr *attr,
                  const struct space_slot *spawner)
{
    int is_thread = (birth->flags & ONESPACE_SPAWN_THREAD) != 0; /* the kernel copies it all */
    int from_root = spawner == &birth->space->slots[0] && !is_thread;
    fill_ignored(birth, attr, from_root);
    fill_limits(birth, attr, from_root);
    fill_affinity(birth, attr, from_root);
    fill_nice(birth, attr, from_root);
    fill_policy(birth, from_root);
}
