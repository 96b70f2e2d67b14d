/* cmd/gdb/gdb.h: what the parts of `onespace gdb` share. */
#ifndef ONESPACE_CMD_GDB_GDB_H
#define ONESPACE_CMD_GDB_GDB_H

#include <limits.h>

#include "cmd/ps/ps.h"

struct gdb_job {
    const struct ps_space *space;
    const char *wanted; /* space or pid, as given */
    char folder[64];    /* for the scripts; removed when gdb has ended */
    char **argv;        /* gdb's: room for the scripts, then the user's words */
    unsigned argc;
};

/* gdb_script.c: writes the commands by which gdb attaches to each member, a file each, so that an
 * error in one does not keep it from the next, and puts them into argv. 0 or -1, having said why.
 */
int gdb_write_scripts(struct gdb_job *job);
/* Prints those for the tasks that nobody traces yet. */
void gdb_print_added(const struct ps_space *space, const char *folder);

/* gdb.c: the process that traces this one, or 0. */
int gdb_tracer(int pid);

/* gdb_program.c: a file that gdb does not take for the root's program although the task's, at
 * `path`, is the same; in `folder`. 0 or -errno. */
int gdb_copy_program(const char *path, const char *folder, int pid, char copy[PATH_MAX]);

#endif
