/* src/interpose/own_files.c: the files of /proc/self that the kernel makes from what an address
 * space has once: the root's. A task that opens one of them gets its own: of exe the program, of
 * the others a file in memory with what they have when they are opened (those of its mappings:
 * own_maps.c).
 *
 * Only after the kernel has opened the root's, so that all errors are the kernel's. Where the
 * task's own cannot be had (no memory for it, RLIMIT_FSIZE), the descriptor stays the root's. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/resource.h>

#include "arch/copy.h"
#include "base/raw.h"
#include "base/text.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "space/child.h"

/* Entries of an auxiliary vector. */
enum { AUXV_MAX = 256 };

/* A piece of the task's memory. */
struct piece {
    uintptr_t from, to;
};

size_t interpose_auxv(const struct space_slot *self, const void **vector)
{
    uintptr_t auxv = ((const struct child *)self->child_record)->auxv;
    *vector = (const void *)auxv;
    for (size_t i = 0; i < AUXV_MAX; i++) {
        Elf64_auxv_t entry;
        if (arch_guarded_copy(&entry, (const void *)(auxv + i * sizeof(entry)), sizeof(entry)) != 0)
            return 0;
        if (entry.a_type == AT_NULL)
            return (i + 1) * sizeof(entry);
    }
    return 0;
}

/* What the file has: one piece, or two that follow one another. 0 if it is none of these. */
static int find_pieces(const struct space_slot *self, const char *file, struct piece pieces[2])
{
    const struct child *child = (const struct child *)self->child_record;
    const struct child_strings *strings = &child->strings;
    pieces[1] = (struct piece){0, 0};
    if (text_equal(file, "cmdline")) {
        pieces[0] = (struct piece){strings->name, strings->name_end};
        pieces[1] = (struct piece){strings->arguments, strings->environment};
    } else if (text_equal(file, "environ")) {
        pieces[0] = (struct piece){strings->environment, strings->end};
    } else if (text_equal(file, "auxv")) {
        const void *auxv;
        size_t size = interpose_auxv(self, &auxv);
        pieces[0] = (struct piece){(uintptr_t)auxv, (uintptr_t)auxv + size};
    } else {
        return 0;
    }
    return 1;
}

/* The kernel reads the memory: what the program has unmapped is an error, no fault. */
static int write_piece(long fd, struct piece piece)
{
    while (piece.from < piece.to) {
        long written = raw(__NR_write, fd, piece.from, piece.to - piece.from);
        if (written <= 0)
            return -1;
        piece.from += (uintptr_t)written;
    }
    return 0;
}

/* A file in memory, to be read from its beginning, or -errno. */
static long make_file(const struct piece pieces[2])
{
    struct rlimit limit;
    size_t size = pieces[0].to - pieces[0].from + (pieces[1].to - pieces[1].from);
    /* Writing beyond the limit would raise SIGXFSZ. */
    if (raw(__NR_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0 || limit.rlim_cur < size)
        return -1;
    long fd = raw(__NR_memfd_create, "proc", MFD_CLOEXEC);
    if (fd < 0)
        return fd;
    if (write_piece(fd, pieces[0]) == 0 && write_piece(fd, pieces[1]) == 0 &&
        raw(__NR_lseek, fd, 0, SEEK_SET) == 0)
        return fd;
    raw(__NR_close, fd);
    return -1;
}

/* The task's own file of that path, which the kernel has opened with these flags as `fd`: a
 * descriptor, or negative. */
static long open_own(const struct space_slot *self, const char *path, long flags, long fd)
{
    char text[PATH_PREFIX_MAX];
    struct piece pieces[2];
    const char *file = interpose_own_file(path, text);
    if (!file)
        return -1;
    if (text_equal(file, "exe"))
        return flags & O_NOFOLLOW
                   ? -1
                   : raw(__NR_openat, AT_FDCWD, interpose_program(self), flags | O_CLOEXEC);
    if (flags & O_PATH)
        return -1;
    return find_pieces(self, file, pieces) ? make_file(pieces) : interpose_own_maps(self, fd, file);
}

/* Where the root's file has taken the last descriptor that RLIMIT_NOFILE allows, the task's own
 * gets that one. */
static long open_instead(struct space_slot *self, long nr, const long a[6], long fd)
{
    const long *path = interpose_path(nr, a);
    raw(__NR_close, fd);
    long own = open_own(self, (const char *)path[0], path[1], -1);
    if (own < 0)
        return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (!(path[1] & O_CLOEXEC))
        raw(__NR_fcntl, own, F_SETFD, 0);
    return own;
}

long interpose_open(struct space_slot *self, long nr, const long a[6])
{
    const long *path = interpose_path(nr, a); /* and then the flags */
    long fd = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    long flags = path[1];
    if (fd < 0 || (flags & O_ACCMODE) != O_RDONLY)
        return fd;
    long own = open_own(self, (const char *)path[0], flags, fd);
    if (own == -EMFILE)
        return open_instead(self, nr, a, fd);
    if (own < 0)
        return fd;
    raw(__NR_dup3, own, fd, flags & O_CLOEXEC);
    raw(__NR_close, own);
    return fd;
}
