/* src/cgroup/cgroup.h: control groups, version 2 and version 1, and the machine's memory. */
#ifndef ONESPACE_CGROUP_CGROUP_H
#define ONESPACE_CGROUP_CGROUP_H

#include <stdint.h>

/* Calls `visit` with the directory of the process's group for a controller, then with that of each
 * ancestor. pid: 0 for the caller. Uses version 1 where that has the controller, else version 2. In
 * a container the group's path may not be visible; then only the mount point is visited. */
void cgroup_each(int pid, const char *controller,
                 void (*visit)(const char *directory, void *context), void *context);

/* The number in a file of a group: 0, or -1 when the file is missing or says "max". */
int cgroup_number(const char *directory, const char *name, uint64_t *value);
/* The same for the line "KEY NUMBER" of the file. */
int cgroup_keyed_number(const char *directory, const char *name, const char *key, uint64_t *value);

/* The lowest limit that a controller ("memory", "pids") sets for this process's group or one of its
 * ancestors, or UINT64_MAX. names: of the file in version 2 and in version 1. used: subtract the
 * number in this file of the same group; or NULL. */
uint64_t cgroup_lowest_limit(const char *controller, const char *const names[2], const char *used);

/* The lowest limit of memory, in bytes, or UINT64_MAX. */
uint64_t cgroup_memory_limit(void);

/* Bytes of memory that the group uses, and its limit: 0, or -1 when there is no limit. Cached files
 * that were not used lately do not count: the kernel reclaims them before it kills a process. */
int cgroup_memory(const char *directory, uint64_t *used, uint64_t *limit);

/* A number of kB from /proc/meminfo, in bytes; 0 when it is missing. */
uint64_t machine_memory(const char *key);

#endif
