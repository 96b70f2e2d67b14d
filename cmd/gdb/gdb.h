/* cmd/gdb/gdb.h: what the parts of `onespace gdb` share. */
#ifndef ONESPACE_CMD_GDB_GDB_H
#define ONESPACE_CMD_GDB_GDB_H

#include <limits.h>
#include <stdio.h>

#include "cmd/ps/ps.h"

struct gdb_job {
    const struct ps_space *space;
    const char *wanted; /* space or pid, as given */
    char directory[64]; /* for the scripts; removed when gdb has ended */
    char **argv;        /* gdb's: room for the scripts, then the user's words */
    unsigned argc;
};

/* script.c: prints the path as a word of one of gdb's commands that take file names, in quotes. 0,
 * or -EINVAL without a word: it is not absolute, or has control characters, of which a newline
 * would begin another command. */
int gdb_write_path(FILE *out, const char *path);

/* script.c: whether it is a member still: it has neither ended nor executed another program. */
int gdb_is_member(const struct ps_task *task);

/* script.c: writes the commands by which gdb attaches to each member, one file for each, so that an
 * error in one does not stop the next, and puts them into argv. 0 or -1, having said why. */
int gdb_write_scripts(struct gdb_job *job);
/* Prints the commands for the tasks that have no tracer yet. */
void gdb_print_added(const struct ps_space *space, const char *directory);

#endif
