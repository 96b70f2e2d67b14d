/* src/agent/beside.c: files in the agent's directory: the other libraries of onespace. */
#include "agent/agent.h"

#include <fcntl.h>

#include "base/text.h"

extern int dladdr(const void *, Dl_info *) WEAK; /* libc's */

/* The agent itself may have been named through a descriptor. */
int sibling_path(const char *name, char *path, size_t size)
{
    Dl_info self;
    if (!dladdr || !dladdr((void *)&sibling_path, &self) || !self.dli_fname)
        return -1;
    long length = raw(__NR_readlinkat, AT_FDCWD, self.dli_fname, path, size - 1);
    if (length < 0 || path[0] != '/')
        length = text_append_max(path, self.dli_fname, size - 1) - path;
    path[length] = 0;
    char *file = path + (text_basename(path) - path);
    if (file == path || (size_t)(file - path) + text_length(name) >= size)
        return -1;
    text_append(file, name);
    return 0;
}
