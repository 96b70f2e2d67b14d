/* cmd/lib/files.c: see files.h. */
#include "cmd/lib/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int file_read_line(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    int error = errno;
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    return length < 0 ? -error : 0;
}

int file_read_process(int pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return file_read_line(path, text, size);
}

int file_contains(const char *path, const void *bytes, size_t size)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    void *file = fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > 0
                     ? mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                     : MAP_FAILED;
    close(fd);
    if (file == MAP_FAILED)
        return 0;
    int found = memmem(file, (size_t)stat.st_size, bytes, size) != NULL;
    munmap(file, (size_t)stat.st_size);
    return found;
}

const char *file_self(void)
{
    static char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[size > 0 ? size : 0] = 0;
    return size > 0 ? path : NULL;
}

const char *path_list(void)
{
    const char *list = getenv("PATH");
    return list ? list : "/bin:/usr/bin";
}

const char *path_next(const char **list, int *length)
{
    const char *directory = *list + strspn(*list, ":");
    *length = (int)strcspn(directory, ":");
    *list = directory + *length;
    return *length ? directory : NULL;
}

int path_find(const char *name, char path[PATH_MAX])
{
    struct stat status;
    int length;
    if (strchr(name, '/')) {
        snprintf(path, PATH_MAX, "%s", name);
        return 0;
    }
    for (const char *list = path_list(), *directory; (directory = path_next(&list, &length));)
        if (snprintf(path, PATH_MAX, "%.*s/%s", length, directory, name) < PATH_MAX &&
            stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0)
            return 0;
    path[0] = 0;
    return -ENOENT;
}
