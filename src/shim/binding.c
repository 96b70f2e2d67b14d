/* src/shim/binding.c: see binding.h. hwloc tells cores, caches and the CPUs that this process may
 * use. */
#include "shim/binding.h"

#include <errno.h>
#include <hwloc/glibc-sched.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/hwloc.h"

static int bind_to_core(int number, int count, cpu_set_t *cpus, char *message, size_t size)
{
    hwloc_topology_t topology;
    if (hwloc_load(message, size) != 0)
        return -EINVAL;
    if (hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0) {
        snprintf(message, size, "cannot read the machine's topology");
        return -EINVAL;
    }
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    hwloc_bitmap_t *sets = calloc((size_t)count, sizeof(*sets));
    int result = -ENOMEM;
    snprintf(message, size, "--cpu-bind core: cannot divide the machine among %d tasks", count);
    if (sets && hwloc_distrib(topology, &root, 1, sets, (unsigned)count, INT_MAX, 0) == 0) {
        hwloc_bitmap_singlify(sets[number]);
        hwloc_cpuset_to_glibc_sched_affinity(topology, sets[number], cpus, sizeof(*cpus));
        result = 1;
    }
    for (int i = 0; sets && i < count; i++)
        hwloc_bitmap_free(sets[i]);
    free(sets);
    hwloc_topology_destroy(topology);
    return result;
}

static int bind_to_list(const char *list, int number, cpu_set_t *cpus, char *message, size_t size)
{
    int listed[CPU_SETSIZE], count = 0;
    for (const char *at = list; *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end != at && *end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
        }
        if (end == at || first < 0 || last < first || last >= CPU_SETSIZE ||
            (*end && *end != ',')) {
            snprintf(message, size,
                     "--cpu-bind %s: not 'none', 'core' or a list of CPUs such as 0,2-4", list);
            return -EINVAL;
        }
        for (long cpu = first; cpu <= last && count < CPU_SETSIZE; cpu++)
            listed[count++] = (int)cpu;
        at = *end ? end + 1 : end;
    }
    if (count == 0) {
        snprintf(message, size, "--cpu-bind: the list of CPUs is empty");
        return -EINVAL;
    }
    CPU_ZERO(cpus);
    CPU_SET(listed[number % count], cpus);
    return 1;
}

int binding_find(const char *policy, int number, int count, cpu_set_t *cpus, char *message,
                 size_t size)
{
    if (!policy || strcmp(policy, "none") == 0)
        return 0;
    if (strcmp(policy, "core") == 0)
        return bind_to_core(number, count, cpus, message, size);
    return bind_to_list(policy, number, cpus, message, size);
}
