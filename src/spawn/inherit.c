/* src/spawn/inherit.c: the attributes that a task inherits from its spawner, although the reaper
 * may clone it.
 *
 * The reaper clones for the root, but has limits, nice value, affinity and memory policy of its
 * own: the root's when the reaper was made; of descriptors, the root's hard limit. */
#include "spawn/spawn.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/raw.h"

static void fill_limits(struct child *child, const struct onespace_spawn_attr *attr, int by_reaper)
{
    for (unsigned i = 0; i < CHILD_LIMITS && i < RLIM_NLIMITS; i++) {
        struct rlimit wanted, present;
        if (attr->limits)
            wanted = attr->limits[i];
        else if (!by_reaper || getrlimit(i, &wanted) != 0)
            continue;
        if (by_reaper)
            present = child->space->reaper_limits[i];
        if ((by_reaper || getrlimit(i, &present) == 0) &&
            memcmp(&wanted, &present, sizeof(wanted)) == 0)
            continue;
        child->limits[i] = wanted;
        child->limit_mask |= 1u << i;
    }
}

static void fill_affinity(struct child *child, const struct onespace_spawn_attr *attr,
                          int by_reaper)
{
    if (attr->cpus) {
        child->cpu_bytes = (uint32_t)(attr->cpus_size < sizeof(child->cpus) ? attr->cpus_size
                                                                            : sizeof(child->cpus));
        memcpy(child->cpus, attr->cpus, child->cpu_bytes);
        child->must_set_affinity = 1;
    } else if (by_reaper) {
        long size = syscall(SYS_sched_getaffinity, 0, sizeof(child->cpus), child->cpus);
        child->cpu_bytes = size > 0 ? (uint32_t)size : 0;
    }
}

static void fill_nice(struct child *child, const struct onespace_spawn_attr *attr, int by_reaper)
{
    child->nice = attr->nice;
    if (attr->nice == INT32_MIN && by_reaper) {
        errno = 0;
        int nice = getpriority(PRIO_PROCESS, 0);
        if (errno == 0)
            child->nice = nice;
    }
}

static void fill_policy(struct child *child, int by_reaper)
{
    child->policy_mode = -1;
    int mode;
    if (by_reaper && syscall(SYS_get_mempolicy, &mode, child->policy_nodes,
                             8 * sizeof(child->policy_nodes), NULL, 0) == 0)
        child->policy_mode = mode;
}

uint64_t signal_set_bits(const sigset_t *set)
{
    uint64_t bits = 0;
    for (int signal = 1; signal <= SIGNAL_MAX; signal++)
        if (sigismember(set, signal) == 1)
            bits |= signal_bit(signal);
    return bits;
}

uint64_t ignored_signals_of_process(void)
{
    uint64_t ignored = 0;
    for (int signal = 1; signal <= SIGNAL_MAX; signal++) {
        struct space_sigaction action;
        if (raw(__NR_rt_sigaction, signal, NULL, &action, ARCH_SIGNAL_SET_BYTES) == 0 &&
            action.handler == (uintptr_t)SIG_IGN)
            ignored |= signal_bit(signal);
    }
    return ignored;
}

/* The child starts with those signals ignored that its parent process ignores: the reaper, or the
 * spawner if that is a task. */
static void fill_ignored(struct child *child, const struct onespace_spawn_attr *attr, int by_reaper)
{
    uint64_t mine = ignored_signals_of_process();
    uint64_t present = by_reaper ? child->space->reaper_ignored : mine;
    uint64_t wanted = attr->ignored_signals ? signal_set_bits(attr->ignored_signals) : mine;
    child->ignore = wanted & ~present;
    child->unignore = present & ~wanted;
}

void child_inherit(struct child *child, const struct onespace_spawn_attr *attr, int by_reaper)
{
    fill_ignored(child, attr, by_reaper);
    fill_limits(child, attr, by_reaper);
    fill_affinity(child, attr, by_reaper);
    fill_nice(child, attr, by_reaper);
    fill_policy(child, by_reaper);
}
