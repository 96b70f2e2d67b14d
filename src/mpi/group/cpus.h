/* src/mpi/group/cpus.h: whether processes outnumber the CPUs that they may run on. Needs no MPI. */
#ifndef ONESPACE_MPI_GROUP_CPUS_H
#define ONESPACE_MPI_GROUP_CPUS_H

#include <sys/syscall.h>
#include <unistd.h>

#include "base/raw.h"

/* The processes of this node and the CPUs that they may run on; starts as zeros. */
struct cpu_demand {
    int processes, has_unknown;
    struct cpu_mask allowed;
};

/* Adds a process, with the CPUs that its affinity and its cgroup allow. The CPUs of pid 0, and of a
 * process that has ended, are unknown. */
static inline void cpu_demand_add(struct cpu_demand *demand, int pid)
{
    struct cpu_mask mask = {0};
    demand->processes++;
    /* The kernel writes as many bytes as it has CPUs. It takes a pid of 0 for the caller's. */
    if (pid <= 0 || syscall(SYS_sched_getaffinity, pid, sizeof(mask), &mask) < 0)
        demand->has_unknown = 1;
    else
        cpu_mask_or(&demand->allowed, &mask);
}

/* Whether there are fewer CPUs than processes. A process with unknown CPUs may use any of them. */
static inline int cpu_demand_exceeds_cpus(const struct cpu_demand *demand)
{
    long count =
        demand->has_unknown ? sysconf(_SC_NPROCESSORS_ONLN) : cpu_mask_count(&demand->allowed);
    return demand->processes > count;
}

#endif
