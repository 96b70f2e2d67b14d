/* src/host/runtime_dir.c: see runtime_dir.h.
 *
 * Where there is no XDG_RUNTIME_DIR, any user may have made /tmp/onespace-UID before, and only that
 * user may remove it from a sticky /tmp. Then the directory is /tmp/onespace-UID.TIME, whose name
 * cannot be known beforehand. Processes of the user that start at the same time agree on one
 * without a lock, which others could hold:
 *
 * - TIME is that of the attempt. An attempt that takes longer than MAKE_MS is undone and repeated.
 * - The directory of the earliest attempt counts, but not before SETTLE_MS after it: by then each
 *   earlier attempt has succeeded or is undone.
 *
 * Such a directory is used until the last host removes it, even if /tmp/onespace-UID becomes free.
 */
#include "host/runtime_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"

enum { MAKE_MS = 50, SETTLE_MS = 100, TRIES = 100, TIME_DIGITS = 16 };

#define TMP    "/tmp"
#define PREFIX "onespace-"

static int is_private(const struct stat *status)
{
    return S_ISDIR(status->st_mode) && status->st_uid == geteuid() && (status->st_mode & 077) == 0;
}

/* 0: it is a directory that only this user can use. -EACCES: it is another user's. -EPERM: it is
 * this user's, but something else. Or another -errno. */
static int check(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return -errno;
    return is_private(&status) ? 0 : status.st_uid != geteuid() ? -EACCES : -EPERM;
}

/* Whether the user has a directory for such things, which others cannot write to. */
static int is_given(char *path, size_t size)
{
    const char *given = getenv("XDG_RUNTIME_DIR");
    int is_usable = given && given[0] == '/' && check(given) == 0 && strlen(given) < 48;
    if (is_usable)
        snprintf(path, size, "%s/onespace", given);
    else
        snprintf(path, size, TMP "/" PREFIX "%u", (unsigned)geteuid());
    return is_usable;
}

static void name_timed(char *path, size_t size, uint64_t time_ns)
{
    snprintf(path, size, TMP "/" PREFIX "%u.%0*" PRIx64, (unsigned)geteuid(), TIME_DIGITS, time_ns);
}

/* The earliest of this user's directories with a time: 0, or -ENOENT. */
static int find_timed(char *path, size_t size, uint64_t *time_ns)
{
    char prefix[32], candidate[64];
    int length = snprintf(prefix, sizeof(prefix), PREFIX "%u.", (unsigned)geteuid());
    DIR *list = opendir(TMP);
    *time_ns = UINT64_MAX;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        char *end;
        if (strncmp(entry->d_name, prefix, (size_t)length) != 0)
            continue;
        uint64_t its = strtoull(entry->d_name + length, &end, 16);
        name_timed(candidate, sizeof(candidate), its);
        if (!*end && its < *time_ns && check(candidate) == 0)
            *time_ns = its;
    }
    if (list)
        closedir(list);
    if (*time_ns == UINT64_MAX)
        return -ENOENT;
    name_timed(path, size, *time_ns);
    return 0;
}

/* 0 or -errno; *made_ns is the time of a directory that this process has made, or 0. */
static int make_timed(uint64_t *made_ns)
{
    char path[64];
    uint64_t begin = futex_now_ns();
    name_timed(path, sizeof(path), begin);
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST ? 0 : -errno;
    if (futex_now_ns() - begin > MAKE_MS * UINT64_C(1000000))
        rmdir(path);
    else
        *made_ns = begin;
    return 0;
}

static int open_timed(char *path, size_t size)
{
    static const struct timespec settle = {.tv_nsec = SETTLE_MS * 1000000};
    uint64_t first, again, made = 0;
    char own[64];
    int result = -EAGAIN;
    for (int tries = 0; tries < TRIES && result == -EAGAIN; tries++) {
        int error = 0;
        if (find_timed(path, size, &first) < 0) {
            error = make_timed(&made);
            result = error < 0 ? error : -EAGAIN;
            continue;
        }
        if (futex_now_ns() - first < SETTLE_MS * UINT64_C(1000000))
            nanosleep(&settle, NULL);
        if (find_timed(path, size, &again) == 0 && again == first)
            result = 0;
    }
    name_timed(own, sizeof(own), made);
    if (made && (result < 0 || made != first))
        rmdir(own);
    return result;
}

int runtime_dir_find(char *path, size_t size)
{
    uint64_t time_ns;
    int is_usable = is_given(path, size), result = check(path);
    return result == 0 || is_usable ? result : find_timed(path, size, &time_ns);
}

int runtime_dir_open(char *path, size_t size, char *message, size_t message_size)
{
    char other[64];
    int result = runtime_dir_find(path, size);
    if (result == 0)
        return 0;
    int is_usable = is_given(path, size);
    int error = mkdir(path, 0700) == 0 ? 0 : errno;
    result = check(path);
    if (result == 0)
        return 0;
    if (result == -EACCES && !is_usable) {
        error = -open_timed(other, sizeof(other));
        if (error == 0)
            snprintf(path, size, "%s", other);
        else
            snprintf(message, message_size,
                     "%s is another user's, and no other directory can be made in " TMP
                     ": %s" RUNTIME_DIR_FIX,
                     path, strerror(error));
        return error == 0 ? 0 : -EPERM;
    }
    if (result != -ENOENT) {
        snprintf(
            message, message_size,
            "%s is not a directory that only you can use: remove it, or set XDG_RUNTIME_DIR to a "
            "directory of yours with mode 0700",
            path);
        return -EPERM;
    }
    snprintf(message, message_size, "cannot make %s: %s" RUNTIME_DIR_FIX, path, strerror(error));
    return error == 0 || error == EEXIST ? -ESTALE : -error;
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
    if (opened.st_uid != geteuid()) {
        close(fd);
        return -EPERM;
    }
    return fd;
}
