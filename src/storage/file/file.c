/* src/storage/file/file.c: opens, creates, locks, reserves and removes the file under a window. */
#include "storage/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

int storage_fail(struct storage_error *error, int result, const char *format, ...)
{
    va_list list;
    if (!error)
        return result;
    va_start(list, format);
    vsnprintf(error->text, sizeof(error->text), format, list);
    va_end(list);
    return result;
}

/* ---- Stripes of a new file on Lustre ----
 *
 * Lustre accepts a layout only before the file has objects: the file is created with their creation
 * delayed, then an ioctl sets the layout (see lustre_user.h). */

#define LUSTRE_SUPER_MAGIC  0x0bd00bd0
#define LUSTRE_LAYOUT_MAGIC 0x0bd10bd0u
#define LUSTRE_DELAY_CREATE (O_NOCTTY | FASYNC)
#define LUSTRE_SET_STRIPES  _IOW('f', 154, long)

struct lustre_layout { /* struct lov_user_md_v1 without objects */
    uint32_t magic, pattern;
    uint64_t object_id, object_group;
    uint32_t stripe_size;
    uint16_t stripe_count, stripe_offset;
};
_Static_assert(sizeof(struct lustre_layout) == 32, "layout");

/* O_EXCL: a symbolic link is not followed. */
static int create_exclusive(struct storage_file *file, int flags)
{
    file->fd = openat(file->entry.directory, file->entry.name,
                      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | flags, 0600);
    return file->fd;
}

/* Creates the file exclusively, with the requested stripes where the file system has them. Returns
 * the descriptor, or -1 with errno. */
static int create_striped(struct storage_file *file, const struct storage_hints *hints)
{
    struct statfs about;
    if ((!hints->striping_factor && !hints->striping_unit) ||
        fstatfs(file->entry.directory, &about) != 0 || about.f_type != LUSTRE_SUPER_MAGIC)
        return create_exclusive(file, O_NOCTTY);
    struct lustre_layout layout = {
        .magic = LUSTRE_LAYOUT_MAGIC,
        .stripe_size = (uint32_t)hints->striping_unit, /* 0: the default, as for the count */
        .stripe_count = (uint16_t)hints->striping_factor,
        .stripe_offset = UINT16_MAX, /* anywhere */
    };
    int fd = create_exclusive(file, LUSTRE_DELAY_CREATE);
    if (fd >= 0 && ioctl(fd, LUSTRE_SET_STRIPES, &layout) == 0) {
        file->striping_factor = hints->striping_factor;
        file->striping_unit = hints->striping_unit;
    }
    return fd;
}

enum { CREATE_TRIES_MAX = 16, ZEROS_BYTES = 1 << 20 };

static int fail_errno(struct storage_error *error, const char *path, const char *what,
                      const char *fix)
{
    int result = errno ? -errno : -EIO;
    return storage_fail(error, result, "%s: %s: %s%s", path, what, strerror(-result), fix);
}

/* ---- Opening ----
 *
 * Everything that can fail must fail here, before anything is mapped: a store into a mapping has no
 * way to report that the disk is full. */

/* If several processes open the name at once, exactly one creates the file. */
static int open_or_create(struct storage_file *file, const struct storage_hints *hints,
                          const char **refusal)
{
    const struct storage_entry *entry = &file->entry;
    int result = storage_entry_find(&file->entry, file->path, refusal);
    if (result < 0)
        return result;
    for (int i = 0; i < CREATE_TRIES_MAX; i++) {
        result = storage_entry_open(entry->directory, entry->name, O_RDWR, 0, refusal);
        if (result >= 0)
            file->fd = result;
        if (result != -ENOENT)
            return result < 0 ? result : 0;
        file->is_created = create_striped(file, hints) >= 0;
        if (file->is_created)
            return fchmod(file->fd, hints->perm) < 0 ? -errno : 0;
        result = -errno;
        if (result != -EEXIST)
            return result;
    }
    return result; /* another process keeps creating and removing it */
}

static int read_device_size(struct storage_file *file, struct storage_error *error)
{
    uint64_t size;
    file->is_device = 1;
    if (ioctl(file->fd, BLKGETSIZE64, &size) < 0)
        return fail_errno(error, file->path, "cannot get the size of this block device", "");
    file->initial_size = size;
    return 0;
}

static int inspect_file(struct storage_file *file, struct storage_error *error)
{
    struct stat status;
    if (fstat(file->fd, &status) < 0)
        return fail_errno(error, file->path, "cannot stat this file", "");
    file->device = status.st_dev;
    file->inode = status.st_ino;
    file->mode = status.st_mode & 07777;
    file->initial_size = (uint64_t)status.st_size;
    if (S_ISBLK(status.st_mode))
        return read_device_size(file, error);
    return 0;
}

/* The directory entry must be durable, too, also that of an older file, whose creator may have died
 * before it was. Costs nothing if it is durable already. */
static int sync_directory(const struct storage_file *file)
{
    if (storage_fsync(file->entry.directory) == 0 || errno == EINVAL || errno == ENOTSUP)
        return 0; /* some file systems have nothing to flush there */
    if (errno != EBADF)
        return -1;
    errno = EACCES; /* the directory cannot be read: O_PATH */
    return file->is_created ? -1 : 0;
}

int storage_file_open(struct storage_file *file, const struct storage_hints *hints,
                      struct storage_error *error)
{
    *file = (struct storage_file){.fd = -1};
    file->path = strdup(hints->filename);
    if (!file->path)
        return storage_fail(error, -ENOMEM, "out of memory");
    const char *refusal;
    int result = open_or_create(file, hints, &refusal);
    if (result < 0 && refusal)
        (void)storage_fail(error, result, "%s: %s", file->path, refusal);
    else if (result < 0)
        (void)storage_fail(error, result,
                           "%s: cannot open or create this file: %s; the hint "
                           "storage_alloc_filename names it",
                           file->path, strerror(-result));
    if (result == 0)
        result = inspect_file(file, error);
    if (result == 0 && !file->is_device && sync_directory(file) < 0)
        result = fail_errno(error, file->path, "cannot make its directory entry durable", "");
    if (result < 0 && !file->inode) { /* storage_file_revert needs its inode and initial size */
        if (file->is_created)
            (void)unlinkat(file->entry.directory, file->entry.name, 0);
        if (file->fd >= 0)
            close(file->fd);
        file->fd = -1;
    }
    return result;
}

/* ---- Locks ---- */

static int set_lock(int fd, struct flock *lock)
{
    int result;
    while ((result = fcntl(fd, F_OFD_SETLK, lock)) != 0 && errno == EINTR)
        ;
    return result == 0 ? 0 : errno == EACCES || errno == EAGAIN ? -EWOULDBLOCK : -errno;
}

int storage_lock(int fd, struct flock *lock)
{
    int result = set_lock(fd, lock);
    int has_no_locks =
        result == -ENOLCK || result == -EINVAL || result == -EOPNOTSUPP || result == -ENOSYS;
    return has_no_locks ? 0 : result;
}

int storage_file_lock(struct storage_file *file, struct storage_range range, int is_shared,
                      struct storage_error *error)
{
    struct flock lock = {
        .l_type = is_shared ? F_RDLCK : F_WRLCK,
        .l_whence = SEEK_SET,
        .l_start = (off_t)range.offset,
        .l_len = (off_t)range.length, /* 0 would be: to the end */
    };
    unsigned long long first = range.offset, last = range.offset + range.length - 1;
    int result = range.length ? storage_lock(file->fd, &lock) : 0;
    if (result == 0 && range.length && !file->is_device)
        result = storage_entry_check(file->entry.directory, file->entry.name, file->fd);
    if (result == -ESTALE)
        return storage_fail(error, result,
                            "%s: another window or job has removed this file since it was opened: "
                            "try again",
                            file->path);
    if (result == -EWOULDBLOCK)
        return storage_fail(error, result,
                            "%s: bytes %llu to %llu are in use by another window or another job: "
                            "free that window, wait for that job, or use another file or offset",
                            file->path, first, last);
    if (result != 0)
        return storage_fail(error, result,
                            "%s: bytes %llu to %llu cannot be locked against other jobs: %s: check "
                            "the file system, or use another one",
                            file->path, first, last, strerror(-result));
    return 0;
}

static void unlock(int fd)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    (void)storage_lock(fd, &all);
}

int storage_lock_alone(int fd)
{
    enum { TRIES = 100 };
    static const struct timespec pause = {.tv_nsec = 10000000};
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    unlock(fd); /* or each of two ranks would wait for the other */
    int result = set_lock(fd, &all);
    for (int tries = 0; result == -EWOULDBLOCK && tries < TRIES; tries++) {
        nanosleep(&pause, NULL);
        result = set_lock(fd, &all);
    }
    return result == 0;
}

/* ---- Space ---- */

int storage_size_is_forbidden(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur;
}

int storage_file_is_short(int fd, uint64_t end)
{
    struct stat status;
    return fstat(fd, &status) == 0 && storage_status_is_short(&status, end);
}

int storage_status_is_short(const struct stat *status, uint64_t end)
{
    return S_ISREG(status->st_mode) && (uint64_t)status->st_size < end;
}

int storage_fsync(int fd)
{
    int result;
    while ((result = fsync(fd)) < 0 && errno == EINTR)
        ;
    return result;
}

int storage_fdatasync(int fd)
{
    int result;
    while ((result = fdatasync(fd)) < 0 && errno == EINTR)
        ;
    return result;
}

static int write_zeros(int fd, uint64_t from, uint64_t to)
{
    char *zeros = calloc(1, ZEROS_BYTES);
    int result = zeros ? 0 : -1;
    while (result == 0 && from < to) {
        size_t size = to - from < ZEROS_BYTES ? (size_t)(to - from) : ZEROS_BYTES;
        ssize_t written = pwrite(fd, zeros, size, (off_t)from);
        if (written < 0 && errno != EINTR)
            result = -1;
        from += written > 0 ? (uint64_t)written : 0;
    }
    free(zeros);
    return result;
}

/* One byte that is no file's, which is locked while holes are filled: what another rank has stored
 * into a hole since it was found would be overwritten. */
static void lock_holes(int fd, short type)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = INT64_MAX - 1, .l_len = 1};
    while (fcntl(fd, F_OFD_SETLKW, &lock) != 0 && errno == EINTR)
        ;
}

/* For file systems without fallocate: writes zeroes into holes, which changes only the allocation.
 * The caller has locked the holes. */
static int fill_holes(int fd, uint64_t from, uint64_t to)
{
    while (from < to) {
        off_t hole = lseek(fd, (off_t)from, SEEK_HOLE);
        uint64_t start = hole < 0 ? from : (uint64_t)hole; /* `from` is beyond the end of file */
        if (start >= to)
            return 0;
        off_t data = lseek(fd, (off_t)start, SEEK_DATA);
        uint64_t end = data < 0 || (uint64_t)data > to ? to : (uint64_t)data;
        if (write_zeros(fd, start, end) < 0)
            return -1;
        from = end;
    }
    return 0;
}

union extents {
    struct fiemap map;
    char space[sizeof(struct fiemap) + 32 * sizeof(struct fiemap_extent)];
};

/* Reads what extents there are from `at` on: how many; 0: none, or it is not known. */
static unsigned read_extents(int fd, uint64_t at, uint64_t end, union extents *extents)
{
    extents->map = (struct fiemap){.fm_start = at, .fm_length = end - at, .fm_extent_count = 32};
    return ioctl(fd, FS_IOC_FIEMAP, &extents->map) < 0 ? 0 : extents->map.fm_mapped_extents;
}

/* Whether every byte has space on the device already. Reserving again would change the file's
 * metadata, which the next flush would write although nothing was stored. Returns 0 if the file
 * system cannot report it, and for extents that are compressed or shared with another file. */
static int is_reserved(int fd, struct storage_range range)
{
    enum { HARMLESS = FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_UNWRITTEN };
    union extents extents;
    uint64_t at = range.offset, end = at + range.length;
    if (storage_file_is_short(fd, end))
        return 0;
    while (at < end) {
        unsigned count = read_extents(fd, at, end, &extents);
        for (unsigned i = 0; i < count; i++) {
            const struct fiemap_extent *extent = &extents.map.fm_extents[i];
            uint64_t stop = extent->fe_logical + extent->fe_length;
            if (extent->fe_logical > at || stop <= at || extent->fe_flags & ~(unsigned)HARMLESS)
                return 0;
            at = stop;
        }
        if (count == 0)
            return 0;
    }
    return 1;
}

static int unshare_extent(int fd, uint64_t at, uint64_t stop)
{
    int result;
    do
        result = fallocate(fd, FALLOC_FL_UNSHARE_RANGE, (off_t)at, (off_t)(stop - at));
    while (result < 0 && errno == EINTR);
    return result == 0 || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL ? 0 : -1;
}

/* Gives bytes that are shared with a copy of the file (cp on XFS) space of their own. Where the
 * file system cannot, a store may find the disk full (docs/storage.md). One extent at a time,
 * because XFS wants space for the whole range that it is given. */
static int unshare(int fd, struct storage_range range)
{
    union extents extents;
    uint64_t at = range.offset, end = at + range.length;
    for (unsigned count = 1; count > 0 && at < end;) {
        count = read_extents(fd, at, end, &extents);
        for (unsigned i = 0; i < count; i++) {
            const struct fiemap_extent *extent = &extents.map.fm_extents[i];
            uint64_t begin = extent->fe_logical, stop = begin + extent->fe_length;
            begin = begin < at ? at : begin;
            stop = stop > end ? end : stop;
            if (extent->fe_flags & FIEMAP_EXTENT_SHARED && begin < stop &&
                unshare_extent(fd, begin, stop) < 0)
                return -1;
            at = stop > at ? stop : end;
        }
    }
    return 0;
}

static int reserve(int fd, struct storage_range range)
{
    int result;
    if (is_reserved(fd, range))
        return 0;
    int is_forbidden = storage_size_is_forbidden(range.offset + range.length);
    if (is_forbidden && storage_file_is_short(fd, range.offset + range.length)) {
        errno = EFBIG;
        return -1;
    }
    do
        result = fallocate(fd, 0, (off_t)range.offset, (off_t)range.length);
    while (result < 0 && errno == EINTR);
    if (result == 0)
        return unshare(fd, range);
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return result;
    if (is_forbidden) {
        errno = EFBIG;
        return -1;
    }
    /* Without a flush some file systems allocate space only at write-back. */
    lock_holes(fd, F_WRLCK);
    result = fill_holes(fd, range.offset, range.offset + range.length);
    if (result == 0)
        result = storage_fsync(fd);
    int saved = errno;
    lock_holes(fd, F_UNLCK);
    errno = saved;
    return result;
}

int storage_file_reserve(struct storage_file *file, struct storage_range range,
                         struct storage_error *error)
{
    uint64_t end = range.offset + range.length;
    if (range.length == 0)
        return 0;
    if (end > INT64_MAX || end < range.offset)
        return storage_fail(error, -EFBIG,
                            "%s: offset %llu and %llu bytes are more than a file has", file->path,
                            (unsigned long long)range.offset, (unsigned long long)range.length);
    if (file->is_device)
        return end <= file->initial_size
                   ? 0
                   : storage_fail(error, -ENOSPC,
                                  "%s: bytes %llu to %llu do not lie on this block device of %llu "
                                  "bytes: ask for less, or use a smaller offset",
                                  file->path, (unsigned long long)range.offset,
                                  (unsigned long long)end - 1,
                                  (unsigned long long)file->initial_size);
    if (reserve(file->fd, range) < 0) {
        int saved_errno = errno;
        char what[96];
        snprintf(what, sizeof(what), "cannot reserve bytes %llu to %llu of this file",
                 (unsigned long long)range.offset, (unsigned long long)end - 1);
        errno = saved_errno;
        return fail_errno(error, file->path, what,
                          saved_errno == ENOSPC || saved_errno == EDQUOT
                              ? "; free space, ask for a smaller window, or name a file elsewhere"
                          : saved_errno == EFBIG ? "; raise the limit on the size of files "
                                                   "(ulimit -f), or ask for a smaller window"
                                                 : "");
    }
    return 0;
}

/* ---- Removing and closing ---- */

void storage_file_revert(struct storage_file *file, uint64_t end)
{
    struct stat status;
    int is_changed = file->fd >= 0 && !file->is_device &&
                     (file->is_created || !storage_file_is_short(file->fd, file->initial_size + 1));
    if (!is_changed)
        return;
    int is_alone = storage_lock_alone(file->fd);
    uint64_t size = fstat(file->fd, &status) == 0 ? (uint64_t)status.st_size : UINT64_MAX;
    int is_ours = is_alone && (size <= end || size <= file->initial_size);
    if (file->is_created && (is_ours || size == 0))
        (void)storage_file_unlink(file, NULL);
    else if (is_ours && size > file->initial_size)
        (void)!ftruncate(file->fd, (off_t)file->initial_size);
    if (is_alone)
        unlock(file->fd); /* for the other ranks, which revert it, too */
}

int storage_file_unlink(const struct storage_file *file, struct storage_error *error)
{
    const struct storage_entry *entry = &file->entry;
    if (file->is_device)
        return 0;
    int result = storage_entry_check(entry->directory, entry->name, file->fd);
    if (result == 0 && unlinkat(entry->directory, entry->name, 0) < 0)
        result = errno == ENOENT ? -ESTALE : -errno;
    if (result == 0 || result == -ESTALE)
        return 0; /* or removed, or the name now belongs to another file */
    return storage_fail(error, result, "%s: cannot remove this file: %s", file->path,
                        strerror(-result));
}

void storage_file_close(struct storage_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    storage_entry_close(&file->entry);
    free(file->path);
    *file = (struct storage_file){.fd = -1};
}
