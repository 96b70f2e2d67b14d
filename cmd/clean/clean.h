/* cmd/clean/clean.h: what jobs of this user have left behind. */
#ifndef ONESPACE_CMD_CLEAN_CLEAN_H
#define ONESPACE_CMD_CLEAN_CLEAN_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct leftover {
    char path[PATH_MAX];
    const char *kind; /* which library makes such files */
    int is_directory;
    uint64_t bytes; /* of memory or disk */
    time_t changed; /* the last change */
    int is_removed; /* by the command */
};

/* Finds segments in /dev/shm and session directories in TMPDIR and /tmp that belong to this user,
 * that no process uses, and that were not changed in the last minute. Returns their number; the
 * caller frees *found. -errno: out of memory, or /dev/shm cannot be listed. */
long leftovers_find(struct leftover **found);

#endif
