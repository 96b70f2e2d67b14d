/* cmd/gdb/program.c: copies a program so that gdb can tell it from the original.
 *
 * Whatever process of a space gdb attaches to, the kernel reports the root's program headers. gdb
 * compares them with those of the file that it was given; if they agree, it assumes that the file
 * is loaded where the root's program is. For a task that runs the root's file this is wrong. A copy
 * with another p_align of PT_GNU_STACK, which has no effect, makes them differ. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/gdb/gdb.h"
#include "cmd/lib/user.h"

static int copy_bytes(int from, int to)
{
    struct stat stat;
    if (fstat(from, &stat) != 0)
        return -errno;
    for (off_t left = stat.st_size; left > 0;) {
        ssize_t done = sendfile(to, from, NULL, (size_t)left);
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        left -= done;
    }
    return 0;
}

static int alter(int fd)
{
    Elf64_Ehdr header;
    Elf64_Phdr entry;
    if (pread(fd, &header, sizeof(header), 0) != sizeof(header))
        return -ENOEXEC;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        off_t at = (off_t)(header.e_phoff + i * sizeof(entry));
        if (pread(fd, &entry, sizeof(entry), at) != sizeof(entry))
            return -ENOEXEC;
        if (entry.p_type != PT_GNU_STACK)
            continue;
        entry.p_align += 16;
        return pwrite(fd, &entry, sizeof(entry), at) == sizeof(entry) ? 0 : -errno;
    }
    return -ENOEXEC;
}

int gdb_copy_program(const char *path, const char *directory, int pid, char copy[PATH_MAX])
{
    const char *name = strrchr(path, '/');
    snprintf(copy, PATH_MAX, "%s/%d-%.64s", directory, pid, name ? name + 1 : path);
    int from = user_open_regular(path);
    if (from < 0)
        return from;
    int to = open(copy, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int result = to < 0 ? -errno : copy_bytes(from, to);
    if (result == -EEXIST) /* by an earlier onespace-attach */
        result = 0;
    else if (result == 0)
        result = alter(to);
    close(from);
    if (to >= 0)
        close(to);
    return result;
}
