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

enum { LINKS_MAX = 8 };

static int refuse(const char **refusal, const char *why)
{
    *refusal = why;
    return -EPERM;
}

/* ---- Finding a name ---- */

/* Opens the directory part of `path`, which is relative to `at`. */
static int open_directory(int at, const char *path)
{
    char part[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    if (length >= sizeof(part))
        return -ENAMETOOLONG;
    memcpy(part, path, length);
    part[length] = 0;
    int fd = openat(at, length ? part : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES)
        fd = openat(at, length ? part : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* 1: the entry is a symbolic link, and `target` has its content; 0: it is none, or does not exist.
 */
static int read_link(const struct storage_entry *entry, char target[PATH_MAX], const char **refusal)
{
    struct stat status;
    ssize_t length = 0;
    /* clang-tidy does not see that fill_entry has replaced the name that was freed.
     * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    int link = openat(entry->directory, entry->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (link < 0)
        return errno == ENOENT ? 0 : -errno;
    int result = fstat(link, &status) != 0 ? -errno : S_ISLNK(status.st_mode);
    if (result == 1 && status.st_uid != geteuid() && status.st_uid != 0)
        result = refuse(refusal, "this is a symbolic link of another user, and is not followed: "
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

static int fill_entry(struct storage_entry *entry, int at, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!*name)
        return *path ? -EISDIR : -ENOENT;
    int directory = open_directory(at, path);
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
    target[0] = 0;
    *refusal = NULL;
    int result = fill_entry(entry, AT_FDCWD, path);
    for (int links = 0; result == 0; links++) {
        struct storage_entry link = *entry;
        result = read_link(&link, target, refusal);
        if (result == 0)
            return 0;
        *entry = (struct storage_entry){-1, NULL};
        if (result == 1)
            result = links == LINKS_MAX ? -ELOOP : fill_entry(entry, link.directory, target);
        storage_entry_close(&link);
    }
    *entry = (struct storage_entry){-1, NULL};
    return result;
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
    mode_t mode = parent.st_mode;
    int is_expected_type = flags & O_DIRECTORY ? S_ISDIR(status.st_mode)
                                               : S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
    int is_own = status.st_uid == geteuid() || status.st_uid == parent.st_uid;
    int has_names = S_ISREG(status.st_mode) && status.st_nlink > 1;
    if (!is_expected_type) {
        *refusal = "this is neither a regular file nor a block device: remove it, or name another "
                   "one in storage_alloc_filename";
        return -EINVAL;
    }
    if ((mode & S_IWOTH || (mode & S_IWGRP && mode & S_ISVTX)) && (!is_own || has_names))
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
