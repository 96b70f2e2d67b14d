/* src/launch/cpu_binding.c: --cpu-bind. hwloc tells cores, caches and the CPUs that this process
 * may use. */
#include "launch/launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <hwloc/glibc-sched.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- hwloc ----
 *
 * hwloc is loaded only when a rank is bound to a core. A shim stays in memory beside each task, and
 * hwloc with the libraries that it needs would be a seventh of its memory.
 *
 * hwloc's inline functions call the others by name, so those are defined here and call the loaded
 * ones. */

#if HWLOC_API_VERSION < 0x00020000 || HWLOC_API_VERSION >= 0x00030000
#error "name the library of this version of hwloc"
#endif

#define LIBRARY "libhwloc.so.15" /* of all versions 2.x */

/* FUNCTION(result, name without hwloc_, parameters, arguments) */
#define HWLOC_FUNCTIONS(FUNCTION)                                                                  \
    FUNCTION(int, topology_init, (hwloc_topology_t * topology), (topology))                        \
    FUNCTION(int, topology_load, (hwloc_topology_t topology), (topology))                          \
    FUNCTION(void, topology_destroy, (hwloc_topology_t topology), (topology))                      \
    FUNCTION(hwloc_obj_t, get_obj_by_depth, (hwloc_topology_t topology, int depth, unsigned idx),  \
             (topology, depth, idx))                                                               \
    FUNCTION(int, obj_type_is_normal, (hwloc_obj_type_t type), (type))                             \
    FUNCTION(hwloc_bitmap_t, bitmap_dup, (hwloc_const_bitmap_t bitmap), (bitmap))                  \
    FUNCTION(void, bitmap_free, (hwloc_bitmap_t bitmap), (bitmap))                                 \
    FUNCTION(int, bitmap_or,                                                                       \
             (hwloc_bitmap_t res, hwloc_const_bitmap_t bitmap1, hwloc_const_bitmap_t bitmap2),     \
             (res, bitmap1, bitmap2))                                                              \
    FUNCTION(int, bitmap_singlify, (hwloc_bitmap_t bitmap), (bitmap))                              \
    FUNCTION(int, bitmap_first, (hwloc_const_bitmap_t bitmap), (bitmap))                           \
    FUNCTION(int, bitmap_next, (hwloc_const_bitmap_t bitmap, int prev), (bitmap, prev))            \
    FUNCTION(int, bitmap_weight, (hwloc_const_bitmap_t bitmap), (bitmap))

#define LOADED(result, name, parameters, arguments) static __typeof__(hwloc_##name) *loaded_##name;
HWLOC_FUNCTIONS(LOADED)

#define DEFINE(result, name, parameters, arguments)                                                \
    result hwloc_##name parameters                                                                 \
    {                                                                                              \
        return loaded_##name arguments;                                                            \
    }
HWLOC_FUNCTIONS(DEFINE)

static int hwloc_load(char *message, size_t size)
{
#define ADDRESS(result, name, parameters, arguments) {"hwloc_" #name, &loaded_##name},
    static const struct {
        const char *name;
        void *function; /* a pointer to one */
    } wanted[] = {HWLOC_FUNCTIONS(ADDRESS)};
    static void *library;
    if (!library)
        library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (!(*(void **)wanted[i].function = dlsym(library, wanted[i].name)))
            library = NULL;
    if (library)
        return 0;
    snprintf(message, size, "--cpu-bind core needs hwloc: %s", dlerror());
    return -1;
}

/* ---- Binding ---- */

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
    if (sets && hwloc_distrib(topology, &root, 1, sets, (unsigned)count, INT_MAX, 0) == 0) {
        hwloc_bitmap_singlify(sets[number]);
        hwloc_cpuset_to_glibc_sched_affinity(topology, sets[number], cpus, sizeof(*cpus));
        result = 1;
    } else {
        snprintf(message, size, "--cpu-bind core: cannot divide the machine among %d tasks", count);
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

int cpu_binding_find(const char *policy, int number, int count, cpu_set_t *cpus, char *message,
                     size_t size)
{
    if (!policy || strcmp(policy, "none") == 0)
        return 0;
    if (strcmp(policy, "core") == 0)
        return bind_to_core(number, count, cpus, message, size);
    return bind_to_list(policy, number, cpus, message, size);
}
