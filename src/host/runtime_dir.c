/* src/host/runtime_dir.c: see runtime_dir.h. */
#include "host/runtime_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_private_directory(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_mode & 077) == 0;
}

void runtime_dir_name(char *path, size_t size)
{
    const char *given = getenv("XDG_RUNTIME_DIR");
    if (given && given[0] == '/' && is_private_directory(given) && strlen(given) < 48)
        snprintf(path, size, "%s/onespace", given);
    else
        snprintf(path, size, "/tmp/onespace-%u", (unsigned)geteuid());
}

int runtime_dir_open(char *path, size_t size, char *message, size_t message_size)
{
    runtime_dir_name(path, size);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        int error = errno;
        snprintf(message, message_size, "cannot make %s: %s" RUNTIME_DIR_FIX, path,
                 strerror(error));
        return -error;
    }
    if (!is_private_directory(path)) {
        snprintf(
            message, message_size,
            "%s is not a directory that only you can use: remove it, or set XDG_RUNTIME_DIR to a "
            "directory of yours with mode 0700",
            path);
        return -EPERM;
    }
    return 0;
}

int runtime_dir_lock(const char *path)
{
    struct stat opened, named;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? -ESTALE : -errno;
    while (flock(fd, LOCK_EX) != 0) {
        if (errno == EINTR)
            continue;
        int error = errno;
        close(fd);
        return -error;
    }
    if (fstat(fd, &opened) != 0 || stat(path, &named) != 0 || opened.st_dev != named.st_dev ||
        opened.st_ino != named.st_ino) {
        close(fd);
        return -ESTALE;
    }
    return fd;
}
