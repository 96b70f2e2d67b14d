/* Prints which process read hwloc's topology, the binding of this process, and the topology as XML.
 * Arguments: HWLOC_TOPOLOGY_FLAG_* as a number; 1 to ask for objects of all types. */
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    char *cpus, *xml;
    int size;
    if (argc < 3 || hwloc_topology_init(&topology) != 0 ||
        hwloc_topology_set_flags(topology, strtoul(argv[1], NULL, 0)) != 0)
        return 2;
    if (atoi(argv[2]))
        hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology) != 0)
        return 3;
    if (!hwloc_topology_is_thissystem(topology) ||
        hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) != 0 ||
        hwloc_set_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) != 0 ||
        hwloc_topology_export_xmlbuffer(topology, &xml, &size, 0) != 0)
        return 4;
    hwloc_bitmap_asprintf(&cpus, bound);
    printf("read by %s\nbound to %s\n%s",
           hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "ProcessName"), cpus, xml);
    return 0;
}
