/* cmd/doctor/storage.c: the cost of MPI windows on storage in the file system of the current
 * directory, tried with an unnamed file, which disappears with the child that opened it. */
#include "cmd/doctor/doctor.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "storage/region/region.h"

enum { SIZE = 8 << 20, SMALL = 64 << 10, TIMEOUT_MS = 60000 };

/* The results of the child, which writes them as one line of numbers. */
struct storage_trial {
    long written; /* bytes, by a store of one */
    int is_reserved, can_direct, is_tracked, is_shared;
};

static const char *const directories[] = {".", "/var/tmp"};

static long written_bytes(void)
{
    char line[128];
    long bytes = 0;
    FILE *file = fopen("/proc/self/io", "re");
    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "write_bytes: %ld", &bytes);
    if (file)
        fclose(file);
    return bytes;
}

static int opens_again(int fd, int flags)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_CLOEXEC | flags);
    if (again >= 0)
        close(again);
    return again >= 0;
}

static int can_share(const char *directory, int fd)
{
    int other = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int is_shared = other >= 0 && ioctl(other, FICLONE, fd) == 0;
    if (other >= 0)
        close(other);
    return is_shared;
}

static int try_file(const char *directory, int fd, struct storage_trial *trial)
{
    struct storage_region region = {.file.fd = fd};
    struct storage_error error = {""};
    struct storage_range all = {0, SIZE};
    trial->is_reserved = fallocate(fd, 0, 0, SIZE) == 0;
    if (!trial->is_reserved && ftruncate(fd, SIZE) < 0)
        return -1;
    if (storage_region_map(&region, 0, SIZE, NULL, 0, &error) < 0)
        return -1;
    trial->is_tracked = storage_region_track(&region) == 0;
    long before = written_bytes();
    region.base[SIZE / 2] = 1;
    int result = storage_region_flush(&region, region.file.fd, all, &error);
    trial->written = written_bytes() - before;
    trial->can_direct = opens_again(fd, O_DIRECT);
    trial->is_shared = can_share(directory, fd);
    storage_region_unmap(&region);
    return result;
}

static void try_directory(int out, void *context)
{
    const char *directory = context;
    struct storage_trial trial = {0};
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && try_file(directory, fd, &trial) == 0)
        dprintf(out, "%ld %d %d %d %d\n", trial.written, trial.is_reserved, trial.can_direct,
                trial.is_tracked, trial.is_shared);
}

static const char *file_system_of(const char *directory, int *is_memory)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {{EXT4_SUPER_MAGIC, "ext4"},   {XFS_SUPER_MAGIC, "xfs"},
                 {BTRFS_SUPER_MAGIC, "btrfs"}, {TMPFS_MAGIC, "tmpfs"},
                 {RAMFS_MAGIC, "ramfs"},       {NFS_SUPER_MAGIC, "nfs"},
                 {0x0bd00bd0, "lustre"},       {OVERLAYFS_SUPER_MAGIC, "overlay"}};
    struct statfs status = {0};
    (void)statfs(directory, &status);
    unsigned long magic = (unsigned long)status.f_type;
    *is_memory = magic == TMPFS_MAGIC || magic == RAMFS_MAGIC;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].magic == magic)
            return known[i].name;
    return "a file system unknown here";
}

static void say(const char *directory, const struct storage_trial *trial)
{
    char place[4096], where[4200];
    int is_memory;
    const char *name = file_system_of(directory, &is_memory);
    if (!realpath(directory, place))
        snprintf(place, sizeof(place), "%s", directory);
    snprintf(where, sizeof(where), "%s (%s)", place, name);
    if (is_memory)
        doctor_say(DOCTOR_WARNING, "storage windows",
                   "Name files on a disk in storage_alloc_filename.",
                   "%s is memory: nothing there outlives the machine", where);
    else if (!trial->is_reserved)
        doctor_say(DOCTOR_WARNING, "storage windows",
                   "Put large windows on a file system with fallocate.",
                   "%s: the space of a new window is reserved by writing zeroes", where);
    else if (trial->written > SMALL)
        doctor_say(DOCTOR_WARNING, "storage windows",
                   "Put windows that are changed here and there on ext4 or XFS.",
                   "%s: a store of one byte writes %ld KiB", where, trial->written >> 10);
    else
        doctor_say(DOCTOR_GOOD, "storage windows", NULL,
                   "%s: space is reserved without writing, a store of one byte writes %ld KiB, "
                   "large transfers %s",
                   where, trial->written >> 10,
                   trial->can_direct ? "can use direct I/O (write_once, read_once)"
                                     : "go through the page cache");
    const char *copies =
        trial->is_shared ? "share what did not change (reflinks)" : "are whole: no reflinks";
    if (trial->is_tracked)
        doctor_say(DOCTOR_GOOD, "versions", NULL,
                   "%s: the kernel tells what has changed, versions %s", where, copies);
    else
        doctor_say(DOCTOR_WARNING, "versions",
                   "Use Linux 6.7 or later, and let the container's filter pass userfaultfd.",
                   "%s: what has changed is not known (PAGEMAP_SCAN), so each commit writes all of "
                   "the window",
                   where);
}

void doctor_storage(void)
{
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
        char answer[128];
        struct storage_trial trial;
        doctor_child(try_directory, (void *)directories[i], answer, sizeof(answer), TIMEOUT_MS);
        if (sscanf(answer, "%ld %d %d %d %d", &trial.written, &trial.is_reserved, &trial.can_direct,
                   &trial.is_tracked, &trial.is_shared) == 5) {
            say(directories[i], &trial);
            return;
        }
    }
    doctor_say(DOCTOR_WARNING, "storage windows",
               "Start it in a directory where windows are to lie.",
               "neither the current directory nor /var/tmp takes a file");
}
