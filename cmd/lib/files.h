/* cmd/lib/files.h: what several subcommands read from files, and commands along PATH. */
#ifndef ONESPACE_CMD_LIB_FILES_H
#define ONESPACE_CMD_LIB_FILES_H

#include <limits.h>
#include <stddef.h>

/* Reads the first line of a small file, without the newline: 0 or -errno, and then text is empty.
 */
int file_read_line(const char *path, char *text, size_t size);

/* The same for a file below /proc/PID, such as "comm". */
int file_read_process(int pid, const char *name, char *text, size_t size);

/* Whether the file can be read and contains these bytes. */
int file_contains(const char *path, const void *bytes, size_t size);

/* The path of this command's own file; NULL: /proc cannot be read. */
const char *file_self(void);

/* Steps through a list of directories as in PATH: the next directory, which is not an empty text
 * and has *length bytes, or NULL at the end. */
const char *path_next(const char **list, int *length);

/* The value of PATH, or its default. */
const char *path_list(void);

/* Looks for a command as a shell does: a name with a slash is its path. 0, or -ENOENT, and then
 * path is empty. Links are not followed. */
int path_find(const char *name, char path[PATH_MAX]);

#endif
