/* src/host/room/cgroup.h: the control groups of a process, and the machine's memory. */
#ifndef ONESPACE_HOST_ROOM_CGROUP_H
#define ONESPACE_HOST_ROOM_CGROUP_H

#include <stdint.h>

/* Calls `visit` with the directory of the process's group for a controller, then with that of each
 * ancestor. pid: 0 for the caller. Version 1 where that has the controller, else version 2. In a
 * container the group's path may not be visible: then only the mount point's files are there. */
void cgroup_each(int pid, const char *controller,
                 void (*visit)(const char *directory, void *context), void *context);

/* The number in a file of a group: 0, or -1 when it is not there or says "max". */
int cgroup_number(const char *directory, const char *name, uint64_t *value);
/* The same for a line "KEY NUMBER" of that file. */
int cgroup_line(const char *directory, const char *name, const char *key, uint64_t *value);

/* Bytes of memory that the group has in use, and its limit: 0, or -1 when there is none. Cached
 * files that nobody has used lately are given back before anyone is ended: they do not count. */
int cgroup_memory(const char *directory, uint64_t *used, uint64_t *limit);

/* A number of kB from /proc/meminfo, in bytes; 0 when it is not told. */
uint64_t cgroup_machine(const char *key);

#endif
