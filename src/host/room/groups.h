/* src/host/room/groups.h: limits of control groups. */
#ifndef ONESPACE_HOST_GROUPS_H
#define ONESPACE_HOST_GROUPS_H

#include <stdint.h>

#define GROUPS_UNLIMITED UINT64_MAX

/* The lowest limit that a controller ("memory", "pids") sets for this process's group or one of its
 * ancestors. names: of the file in version 2 and in version 1 of control groups. In a container the
 * group's path may not be visible: then the mount point counts. */
uint64_t groups_limit(const char *controller, const char *const names[2]);
/* The same of limit less `used`, a file of the same group, or NULL. */
uint64_t groups_left(const char *controller, const char *const names[2], const char *used);

#endif
