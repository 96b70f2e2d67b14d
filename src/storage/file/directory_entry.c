/* src/storage/file/directory_entry.c: names of files, in directories to which other users may
 * write. */
#include "storage/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 16 };

static int refuse(const char **refusal, const char *why)
{
    *refusal = why;
    return -EPERM;
}

/* ---- Finding a name ---- */

/* Whether users who do not work together with its owner may write to a directory of this mode. */
static int is_open_to_others(mode_t mode)
{
    return mode & S_IWOTH || (mode & S_IWGRP && mode & S_ISVTX);
}

/* Whether another user may have placed the link to redirect this job. The users of a project may
 * share a link on the way to the file's directory. */
static int is_foreign(int directory, const struct stat *link, int is_file)
{
    struct stat parent;
    if (link->st_uid == geteuid() || link->st_uid == 0)
        return 0;
    return is_file || fstat(directory, &parent) != 0 ||
           (link->st_uid != parent.st_uid && is_open_to_others(parent.st_mode));
}

/* 1: the entry, the file or a directory on the way to it, is a symbolic link, and `target` has its
 * content; 0: it is none, or does not exist. */
static int read_link(int directory, const char *name, int is_file, char target[PATH_MAX],
                     const char **refusal)
{
    struct stat status;
    ssize_t length = 0;
    int link = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (link < 0)
        return errno == ENOENT ? 0 : -errno;
    int result = fstat(link, &status) != 0 ? -errno : S_ISLNK(status.st_mode);
    if (result == 1 && is_foreign(directory, &status, is_file))
        result =
            refuse(refusal, "a symbolic link of another user leads there, and is not followed: "
                            "remove it, or name the file that it leads to in "
                            "storage_alloc_filename");
    if (result == 1 && (length = readlinkat(link, "", target, PATH_MAX)) < 0)
        result = -errno;
    if (result == 1 && length == PATH_MAX)
        result = -ENAMETOOLONG;
    if (result == 1)
        target[length] = 0;
    close(link);
    return result;
}

static int walk(int at, const char *path, size_t length, unsigned *links, const char **refusal);

/* Opens a directory within another, whose name has `size` bytes; it may be a link. */
static int enter(int directory, const char *text, size_t size, unsigned *links,
                 const char **refusal)
{
    char name[NAME_MAX + 1], target[PATH_MAX];
    if (size > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, text, size);
    name[size] = 0;
    int result = read_link(directory, name, 0, target, refusal);
    if (result < 0)
        return result;
    if (result == 1)
        return ++*links > LINKS_MAX ? -ELOOP
                                    : walk(directory, target, strlen(target), links, refusal);
    int entered = openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return entered < 0 ? -errno : entered;
}

/* Opens the directory with the first `length` bytes of `path` as its name, relative to `at`, one
 * component after another, so that no link of another user is followed. By O_PATH; or -errno. */
static int walk(int at, const char *path, size_t length, unsigned *links, const char **refusal)
{
    const char *end = path + length;
    int directory =
        openat(at, length && *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    for (;;) {
        while (path < end && *path == '/')
            path++;
        const char *slash = memchr(path, '/', (size_t)(end - path));
        size_t size = (size_t)((slash ? slash : end) - path);
        if (size == 0)
            return directory;
        int next = enter(directory, path, size, links, refusal);
        close(directory);
        if (next < 0)
            return next;
        directory = next;
        path += size;
    }
}

/* Opens the directory part of `path`, which is relative to `at`. */
static int open_directory(int at, const char *path, unsigned *links, const char **refusal)
{
    const char *slash = strrchr(path, '/');
    int directory = walk(at, path, slash ? (size_t)(slash - path) + 1 : 0, links, refusal);
    if (directory < 0)
        return directory;
    int readable = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = -errno;
    if (readable < 0 && result == -EACCES)
        return directory;
    close(directory);
    return readable < 0 ? result : readable;
}

static int fill_entry(struct storage_entry *entry, int at, const char *path, unsigned *links,
                      const char **refusal)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!*name)
        return *path ? -EISDIR : -ENOENT;
    int directory = open_directory(at, path, links, refusal);
    if (directory < 0)
        return directory;
    *entry = (struct storage_entry){directory, strdup(name)};
    if (entry->name)
        return 0;
    close(directory);
    return -ENOMEM;
}

int storage_entry_find(struct storage_entry *entry, const char *path, const char **refusal)
{
    char target[PATH_MAX];
    unsigned links = 0;
    target[0] = 0;
    *refusal = NULL;
    int result = fill_entry(entry, AT_FDCWD, path, &links, refusal);
    while (result == 0) {
        struct storage_entry link = *entry;
        /* clang-tidy does not see that fill_entry has replaced the name that was freed.
         * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        result = read_link(link.directory, link.name, 1, target, refusal);
        if (result == 0)
            return 0;
        *entry = (struct storage_entry){-1, NULL};
        if (result == 1)
            result = ++links > LINKS_MAX
                         ? -ELOOP
                         : fill_entry(entry, link.directory, target, &links, refusal);
        storage_entry_close(&link);
    }
    *entry = (struct storage_entry){-1, NULL};
    return result;
}

int storage_entry_check(int directory, const char *name, int fd)
{
    struct stat opened, named;
    if (fstat(fd, &opened) != 0 || fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? -ESTALE : -errno;
    return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino ? 0 : -ESTALE;
}

void storage_entry_close(struct storage_entry *entry)
{
    if (entry->name)
        close(entry->directory);
    free(entry->name); /* NOLINT(clang-analyzer-unix.Malloc) as above */
    *entry = (struct storage_entry){-1, NULL};
}

/* ---- Opening ---- */

static int check_file(int directory, int fd, int flags, const char **refusal)
{
    struct stat parent, status;
    if (fstat(directory, &parent) != 0 || fstat(fd, &status) != 0)
        return -errno;
    int is_expected_type = flags & O_DIRECTORY ? S_ISDIR(status.st_mode)
                                               : S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
    int is_own = status.st_uid == geteuid() || status.st_uid == parent.st_uid;
    int has_names = S_ISREG(status.st_mode) && status.st_nlink > 1;
    if (!is_expected_type) {
        *refusal = "this is neither a regular file nor a block device: remove it, or name another "
                   "one in storage_alloc_filename";
        return -EINVAL;
    }
    if (is_open_to_others(parent.st_mode) && (!is_own || has_names))
        return refuse(refusal, "other users may write to its directory, and it belongs to one of "
                               "them or has another name: remove it, or use a directory of your "
                               "own");
    return 0;
}

/* O_NONBLOCK: opening a FIFO for reading would wait for a writer. But with that flag open also
 * fails with EWOULDBLOCK while another process, or a client of this machine's NFS server, has a
 * lease on the file (fcntl(2), F_SETLEASE), which the kernel then recalls. So this tries again
 * until the holder has returned the lease or the kernel has revoked it. */
static int open_after_lease(int directory, const char *name, int flags, mode_t mode)
{
    enum { LEASE_MAX_S = 120, INTERVAL_US = 10000 };
    int fd, tries = LEASE_MAX_S * (1000000 / INTERVAL_US);
    flags |= O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    while ((fd = openat(directory, name, flags, mode)) < 0 && errno == EWOULDBLOCK && tries-- > 0)
        usleep(INTERVAL_US);
    return fd;
}

int storage_entry_open(int directory, const char *name, int flags, mode_t mode,
                       const char **refusal)
{
    *refusal = NULL;
    int fd = open_after_lease(directory, name, flags, mode);
    if (fd < 0 && errno == EWOULDBLOCK)
        return refuse(refusal, "another process, or a client of this machine's NFS server, has a "
                               "lease on it and does not return it: end that process, or use "
                               "another file");
    if (fd < 0)
        return errno != ELOOP ? -errno
                              : refuse(refusal, "this is a symbolic link, and none is followed "
                                                "here: remove it");
    int result = check_file(directory, fd, flags, refusal);
    if (result == 0)
        return fd;
    close(fd);
    return result;
}
