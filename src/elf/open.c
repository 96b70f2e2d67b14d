/* src/elf/open.c: opens a file that is to be executed, with the checks of the kernel, and finds its
 * real path. */
#include "elf/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int elf_refuse_open(struct elf_problem *problem, int error)
{
    switch (error) {
    case ENOENT:
        return elf_refuse(problem, ENOENT, "Check the spelling, or install it.", "does not exist");
    case ENOTDIR:
        return elf_refuse(problem, ENOTDIR, "Check the spelling.",
                          "has a part of its path that is not a directory");
    case EACCES:
        return elf_refuse(problem, EACCES,
                          "Allow reading with chmod +r, and searching its directories with "
                          "chmod +x.",
                          "may not be read by this user");
    default:
        return elf_refuse(problem, error, "Check the path.", "cannot be opened: %s",
                          strerror(error));
    }
}

static int check_regular(const struct stat *stat, struct elf_problem *problem)
{
    if (S_ISREG(stat->st_mode))
        return 0;
    return elf_refuse(problem, EACCES, "Give the path of a program.",
                      S_ISDIR(stat->st_mode) ? "is a directory" : "is not a regular file");
}

static int check_executable(int fd, int dirfd, const char *path, struct elf_problem *problem)
{
    int status = faccessat(fd, "", X_OK, AT_EACCESS | AT_EMPTY_PATH);
    /* Linux before 5.8, or a seccomp filter that does not know the newer call. */
    if (status != 0 && (errno == EINVAL || errno == ENOSYS || errno == EPERM))
        status = faccessat(dirfd, path, X_OK, AT_EACCESS);
    if (status == 0)
        return 0;
    struct statvfs system;
    if (fstatvfs(fd, &system) == 0 && (system.f_flag & ST_NOEXEC) != 0)
        return elf_refuse(problem, EACCES, "Copy it elsewhere, or mount without noexec.",
                          "is on a file system mounted noexec");
    return elf_refuse(problem, EACCES, "Allow it with chmod +x.", "is not executable by this user");
}

int elf_open_executable(int dirfd, const char *path, struct elf_problem *problem)
{
    struct stat stat;
    if (fstatat(dirfd, path, &stat, 0) != 0)
        return elf_refuse_open(problem, errno);
    int status = check_regular(&stat, problem);
    if (status != 0)
        return status;
    int fd = openat(dirfd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return elf_refuse_open(problem, errno);
    status =
        fstat(fd, &stat) != 0 ? elf_refuse_open(problem, errno) : check_regular(&stat, problem);
    if (status == 0)
        status = check_executable(fd, dirfd, path, problem);
    if (status == 0)
        return fd;
    close(fd);
    return status;
}

static bool same_file(int fd, const char *path)
{
    struct stat ours, theirs;
    return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

/* The path of the open file without links. /proc gives it whatever dirfd is; but for deleted and
 * unreachable files it gives a text that is no path, so the result is checked. */
int elf_real_path(int fd, int dirfd, const char *name, char out[PATH_MAX],
                  struct elf_problem *problem)
{
    char link[PATH_MAX + 64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, PATH_MAX);
    if (length > 0 && length < PATH_MAX) {
        out[length] = '\0';
        if (out[0] == '/' && same_file(fd, out))
            return 0;
    }
    if (name[0] == '/' || dirfd == AT_FDCWD)
        snprintf(link, sizeof(link), "%s", name);
    else
        snprintf(link, sizeof(link), "/proc/self/fd/%d/%s", dirfd, name);
    char *real = realpath(link, NULL);
    bool fits = real != NULL && strlen(real) < PATH_MAX && same_file(fd, real);
    if (fits)
        strcpy(out, real);
    free(real);
    return fits ? 0
                : elf_refuse(problem, ENOENT, "Give a file with a path, and mount /proc.",
                             "has no path by which it can be found again");
}
