/* src/mpi/group/cpus.c: see cpus.h. */
#include "mpi/group/cpus.h"

#include <sys/syscall.h>
#include <unistd.h>

void cpus_add(struct cpus *cpus, int pid)
{
    struct cpu_mask own = {0};
    cpus->processes++;
    /* Writes as many bytes as the kernel knows CPUs. A pid of 0 would be the caller. */
    if (pid <= 0 || syscall(SYS_sched_getaffinity, pid, sizeof(own), &own) < 0)
        cpus->has_unknown = 1;
    else
        cpu_mask_or(&cpus->allowed, &own);
}

int cpus_are_fewer(const struct cpus *cpus)
{
    long count = cpus->has_unknown ? sysconf(_SC_NPROCESSORS_ONLN) : cpu_mask_count(&cpus->allowed);
    return cpus->processes > count;
}
