/* src/mpi/group/cpus.c: see cpus.h. */
#include "mpi/group/cpus.h"

#include <sys/syscall.h>
#include <unistd.h>

void cpus_add(struct cpus *cpus, int pid)
{
    unsigned long mask[sizeof(cpus->mask) / sizeof(cpus->mask[0])] = {0};
    cpus->processes++;
    /* Writes as many bytes as the kernel knows CPUs. A pid of 0 would be the caller. */
    if (pid <= 0 || syscall(SYS_sched_getaffinity, pid, sizeof(mask), mask) < 0) {
        cpus->has_unknown = 1;
        return;
    }
    for (unsigned i = 0; i < sizeof(mask) / sizeof(mask[0]); i++)
        cpus->mask[i] |= mask[i];
}

int cpus_are_fewer(const struct cpus *cpus)
{
    long count = cpus->has_unknown ? sysconf(_SC_NPROCESSORS_ONLN) : 0;
    for (unsigned i = 0; !cpus->has_unknown && i < sizeof(cpus->mask) / sizeof(cpus->mask[0]); i++)
        count += __builtin_popcountl(cpus->mask[i]);
    return cpus->processes > count;
}
