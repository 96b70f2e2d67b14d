/* cmd/lib/driver.h: subcommands that are Python programs, installed beside the command. */
#ifndef ONESPACE_CMD_LIB_DRIVER_H
#define ONESPACE_CMD_LIB_DRIVER_H

/* Executes the program at `path` below share/onespace/bench, or, from the build tree, below its
 * source tree's bench. words: room for the interpreter and the program, then the program's
 * arguments, then NULL; the strings must live until then. ONESPACE_BIN tells the program which
 * command this is. Returns only when that fails: it has said why, and the value is the exit status.
 */
int driver_become(const char *subcommand, const char *path, char **words);

#endif
