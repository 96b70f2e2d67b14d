/* src/task/spawn/memory_file.h: files in memory that processes outside the space find by name. */
#ifndef ONESPACE_TASK_MEMORY_FILE_H
#define ONESPACE_TASK_MEMORY_FILE_H

#include <stddef.h>

/* A close-on-exec descriptor of a file of that size; flags: MFD_*. -EFBIG when the limit on file
 * sizes (ulimit -f), which counts here too, is smaller; otherwise -errno. */
int memory_file(const char *name, unsigned flags, size_t size);

#endif
