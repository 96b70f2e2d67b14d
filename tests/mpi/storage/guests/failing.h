/* failing.h: system calls on files of one directory that fail when the program says so.
 *
 * What is defined here comes before libc's for all libraries of the program (it is linked with
 * -rdynamic), so for the MPI layer too. Calls on other files are not counted and never fail. */
#ifndef ONESPACE_TESTS_MPI_STORAGE_GUESTS_FAILING_H
#define ONESPACE_TESTS_MPI_STORAGE_GUESTS_FAILING_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum call {
    CALL_OPEN,
    CALL_OPENAT,
    CALL_MKDIR,
    CALL_FCHMOD,
    CALL_FSTAT,
    CALL_FALLOCATE,
    CALL_FTRUNCATE,
    CALL_PWRITE,
    CALL_FSYNC,
    CALL_FDATASYNC,
    CALL_MSYNC,
    CALL_UNLINK,
    CALLS
};
static const char *const call_names[CALLS] = {"open",  "openat",    "mkdir",     "fchmod",
                                              "fstat", "fallocate", "ftruncate", "pwrite",
                                              "fsync", "fdatasync", "msync",     "unlink"};

static struct {
    const char *directory; /* NULL: nothing fails and nothing is counted */
    enum call call;
    unsigned number; /* of the call of its kind that fails, from 1 on; 0: none */
    int error, has_hit;
    unsigned counts[CALLS];
} failing;

static int is_below(const char *path)
{
    return failing.directory && strncmp(path, failing.directory, strlen(failing.directory)) == 0;
}

static int is_file_below(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = failing.directory ? readlink(link, path, sizeof(path) - 1) : -1;
    if (length < 0)
        return 0;
    path[length] = 0;
    return is_below(path);
}

/* Whether this call, which concerns the directory or not, is the one to fail. */
static int fails(enum call call, int concerns)
{
    if (!concerns || ++failing.counts[call] != failing.number || call != failing.call)
        return 0;
    failing.has_hit = 1;
    errno = failing.error;
    return 1;
}

#define NEXT(name)                                                                                 \
    ({                                                                                             \
        static __typeof__(&(name)) next;                                                           \
        if (!next)                                                                                 \
            next = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name);                                   \
        next;                                                                                      \
    })

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return fails(CALL_OPEN, is_below(path)) ? -1 : NEXT(open)(path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    int concerns = path[0] == '/' ? is_below(path) : is_file_below(directory);
    return fails(CALL_OPENAT, concerns) ? -1 : NEXT(openat)(directory, path, flags, mode);
}

#define FAILING(result, name, call, concerns, parameters, arguments)                               \
    result name parameters                                                                         \
    {                                                                                              \
        return fails(call, concerns) ? -1 : NEXT(name) arguments;                                  \
    }
FAILING(int, mkdirat, CALL_MKDIR, is_file_below(directory),
        (int directory, const char *path, mode_t mode), (directory, path, mode))
FAILING(int, unlinkat, CALL_UNLINK, is_file_below(directory),
        (int directory, const char *path, int flags), (directory, path, flags))
FAILING(int, fchmod, CALL_FCHMOD, is_file_below(fd), (int fd, mode_t mode), (fd, mode))
FAILING(int, fstat, CALL_FSTAT, is_file_below(fd), (int fd, struct stat *status), (fd, status))
FAILING(int, fallocate, CALL_FALLOCATE, is_file_below(fd),
        (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length))
FAILING(int, ftruncate, CALL_FTRUNCATE, is_file_below(fd), (int fd, off_t length), (fd, length))
FAILING(ssize_t, pwrite, CALL_PWRITE, is_file_below(fd),
        (int fd, const void *data, size_t size, off_t offset), (fd, data, size, offset))
FAILING(int, fsync, CALL_FSYNC, is_file_below(fd), (int fd), (fd))
FAILING(int, fdatasync, CALL_FDATASYNC, is_file_below(fd), (int fd), (fd))
/* Only the layer calls it. */
FAILING(int, msync, CALL_MSYNC, failing.directory != NULL, (void *at, size_t length, int flags),
        (at, length, flags))

#endif
