/* src/spawn/memory_file.c: see memory_file.h. */
#include "spawn/spawn.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

int memory_file_create(const char *name, unsigned flags, size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
        return -EFBIG; /* ftruncate would raise SIGXFSZ */
    int fd = memfd_create(name, MFD_CLOEXEC | flags);
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
        return fd;
    int error = -errno;
    if (fd >= 0)
        close(fd);
    return error;
}
