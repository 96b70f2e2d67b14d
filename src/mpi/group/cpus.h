/* src/mpi/group/cpus.h: whether processes outnumber the CPUs that they may run on. Needs no MPI. */
#ifndef ONESPACE_MPI_GROUP_CPUS_H
#define ONESPACE_MPI_GROUP_CPUS_H

#include "base/raw.h"

/* Processes of this node and their CPUs; begin with zeros. */
struct cpus {
    int processes, has_unknown;
    struct cpu_mask allowed;
};

/* By its binding and control group. 0, or a process that has ended: its CPUs are unknown. */
void cpus_add(struct cpus *cpus, int pid);
/* Whether there are fewer CPUs than processes. What is unknown may be any CPU of the machine. */
int cpus_are_fewer(const struct cpus *cpus);

#endif
