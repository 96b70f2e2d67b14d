/* tests/power/blockdisk.c: a disk whose every write and flush is known, for tests of power loss.
 *
 *   blockdisk IMAGE TRACE MOUNTPOINT
 *
 * A file system in user space (libfuse) with two files. `disk` is IMAGE; a loop device on it can be
 * given to ext4 or XFS, and a flush of that block device arrives here as an fsync. Writes and
 * flushes are carried out and appended to TRACE. `control` takes commands, one per write:
 *
 *   mark TEXT      appends a mark to the trace: what the disk had been told when TEXT became true
 *   fail write N   after N more writes, all writes fail with EIO
 *   fail read N    likewise reads
 *   fail flush N   likewise flushes
 *   heal           nothing fails any more
 *
 * TRACE is a sequence of struct trace_entry, each followed by `length` bytes. One thread serves all
 * requests, so the trace's order is the order in which they were carried out: whatever stands
 * before a flush was on the device when the flush returned, whatever stands behind the last flush
 * may be lost. Runs in the foreground until it is unmounted. */
#define FUSE_USE_VERSION 35
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRACE_WRITE = 1, TRACE_FLUSH = 2, TRACE_MARK = 3 };

/* As tests/power/power.py reads it: little-endian, no padding. */
struct trace_entry {
    uint32_t kind;
    uint32_t length;
    uint64_t offset;
};
_Static_assert(sizeof(struct trace_entry) == 16, "power.py relies on it");

enum { FAIL_WRITE, FAIL_READ, FAIL_FLUSH, FAIL_KINDS };
static const char *const fail_names[FAIL_KINDS] = {"write", "read", "flush"};

static int image, trace;
static off_t image_size;
static long until_failure[FAIL_KINDS] = {-1, -1, -1}; /* -1: never */

/* What cannot be logged must not seem to have happened: the test would blame the program. */
static void append(uint32_t kind, uint64_t offset, const void *data, uint32_t length)
{
    struct trace_entry entry = {kind, length, offset};
    if (write(trace, &entry, sizeof(entry)) != (ssize_t)sizeof(entry) ||
        write(trace, data, length) != (ssize_t)length) {
        perror("blockdisk: trace");
        exit(1);
    }
}

static int fails(int kind)
{
    if (until_failure[kind] < 0)
        return 0;
    if (until_failure[kind] == 0)
        return 1;
    until_failure[kind]--;
    return 0;
}

static int is_disk(const char *path)
{
    return strcmp(path, "/disk") == 0;
}

static int is_control(const char *path)
{
    return strcmp(path, "/control") == 0;
}

static int disk_getattr(const char *path, struct stat *stat, struct fuse_file_info *file)
{
    (void)file;
    memset(stat, 0, sizeof(*stat));
    if (strcmp(path, "/") == 0) {
        stat->st_mode = S_IFDIR | 0755;
        stat->st_nlink = 2;
        return 0;
    }
    if (!is_disk(path) && !is_control(path))
        return -ENOENT;
    stat->st_mode = S_IFREG | 0600;
    stat->st_nlink = 1;
    stat->st_size = is_disk(path) ? image_size : 0;
    return 0;
}

static int disk_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                        struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
    (void)path, (void)offset, (void)file, (void)flags;
    fill(buffer, "disk", NULL, 0, 0);
    fill(buffer, "control", NULL, 0, 0);
    return 0;
}

static int disk_open(const char *path, struct fuse_file_info *file)
{
    if (!is_disk(path) && !is_control(path))
        return -ENOENT;
    file->direct_io = 1; /* nothing is kept by the kernel between the loop device and the trace */
    return 0;
}

static int disk_truncate(const char *path, off_t size, struct fuse_file_info *file)
{
    (void)size, (void)file;
    return is_control(path) ? 0 : -EPERM; /* shells open it with O_TRUNC */
}

static int disk_read(const char *path, char *buffer, size_t size, off_t offset,
                     struct fuse_file_info *file)
{
    (void)file;
    if (!is_disk(path))
        return 0;
    if (fails(FAIL_READ))
        return -EIO;
    ssize_t got = pread(image, buffer, size, offset);
    return got < 0 ? -errno : (int)got;
}

static int obey(const char *text, size_t size)
{
    char command[256];
    int count;
    snprintf(command, sizeof(command), "%.*s", (int)size, text);
    command[strcspn(command, "\n")] = 0;
    if (strncmp(command, "mark ", 5) == 0) {
        append(TRACE_MARK, 0, command + 5, (uint32_t)strlen(command + 5));
        return (int)size;
    }
    if (strcmp(command, "heal") == 0) {
        for (int i = 0; i < FAIL_KINDS; i++)
            until_failure[i] = -1;
        return (int)size;
    }
    for (int i = 0; i < FAIL_KINDS; i++)
        if (strncmp(command, "fail ", 5) == 0 &&
            strncmp(command + 5, fail_names[i], strlen(fail_names[i])) == 0 &&
            sscanf(command + 5 + strlen(fail_names[i]), " %d", &count) == 1) {
            until_failure[i] = count;
            return (int)size;
        }
    return -EINVAL;
}

static int disk_write(const char *path, const char *data, size_t size, off_t offset,
                      struct fuse_file_info *file)
{
    (void)file;
    if (is_control(path))
        return obey(data, size);
    if (offset >= image_size)
        return -ENOSPC;
    if ((off_t)size > image_size - offset)
        size = (size_t)(image_size - offset);
    if (fails(FAIL_WRITE))
        return -EIO;
    ssize_t put = pwrite(image, data, size, offset);
    if (put < 0)
        return -errno;
    append(TRACE_WRITE, (uint64_t)offset, data, (uint32_t)put);
    return (int)put;
}

static int disk_fsync(const char *path, int data_only, struct fuse_file_info *file)
{
    (void)data_only, (void)file;
    if (!is_disk(path))
        return 0;
    if (fails(FAIL_FLUSH))
        return -EIO;
    append(TRACE_FLUSH, 0, NULL, 0);
    return 0;
}

static const struct fuse_operations operations = {
    .getattr = disk_getattr,
    .readdir = disk_readdir,
    .open = disk_open,
    .truncate = disk_truncate,
    .read = disk_read,
    .write = disk_write,
    .fsync = disk_fsync,
};

int main(int argc, char **argv)
{
    struct stat stat;
    if (argc != 4) {
        fprintf(stderr, "usage: blockdisk IMAGE TRACE MOUNTPOINT\n");
        return 2;
    }
    image = open(argv[1], O_RDWR | O_CLOEXEC);
    trace = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (image < 0 || trace < 0 || fstat(image, &stat) != 0) {
        fprintf(stderr, "blockdisk: %s: %m\n", image < 0 ? argv[1] : argv[2]);
        return 1;
    }
    image_size = stat.st_size;
    char *arguments[] = {argv[0], "-f", "-s", argv[3], NULL};
    return fuse_main(4, arguments, &operations, NULL);
}
