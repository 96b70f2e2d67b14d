/* src/storage/region/direct.c: large copies between a region and memory by direct I/O.
 *
 * For what is written once or read once (access_style) a copy in the page cache is useless, and
 * making it is most of the cost. Only whole huge pages of the file are transferred this way: no
 * folio is larger, so none that the kernel invalidates then holds bytes of a neighbour that may be
 * storing into it. Loads and stores through the mapping stay coherent, since the kernel first
 * writes back and drops what the cache has of the range.
 *
 * The buffer (file/direct_io.c) serves one thread at a time; others use the page cache meanwhile.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "storage/file/direct_io.h"
#include "storage/region/internal.h"

struct storage_direct {
    int fd; /* -1: this file has no direct I/O */
    struct direct_io *io;
    /* Guards the two above: whoever sets it (acquire) owns them until it clears it (release). */
    atomic_flag is_taken;
};

struct storage_direct *storage_direct_new(void)
{
    struct storage_direct *direct = calloc(1, sizeof(*direct));
    if (direct)
        direct->fd = -1;
    return direct;
}

void storage_direct_free(struct storage_direct *direct)
{
    if (!direct)
        return;
    if (direct->fd >= 0)
        close(direct->fd);
    direct_io_free(direct->io);
    free(direct);
}

/* Opens the file at the first use. 0: not possible. */
static int prepare(struct storage_direct *direct, int fd)
{
    char path[64];
    if (direct->io)
        return direct->fd >= 0;
    direct->io = direct_io_new();
    if (!direct->io)
        return 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    direct->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    return direct->fd >= 0;
}

static void release(struct storage_direct *direct)
{
    atomic_flag_clear_explicit(&direct->is_taken, memory_order_release);
}

static int acquire(struct storage_direct *direct, int fd)
{
    if (!direct || atomic_flag_test_and_set_explicit(&direct->is_taken, memory_order_acquire))
        return 0;
    if (prepare(direct, fd))
        return 1;
    release(direct);
    return 0;
}

/* What is not transferred goes through the page cache, which reports the errors. */
size_t storage_direct_write(struct storage_direct *direct, int fd, uint64_t at, const char *from,
                            size_t size)
{
    size -= size % storage_huge();
    if (size == 0 || !acquire(direct, fd))
        return 0;
    size_t done = direct_io_write(direct->io, direct->fd, at, from, size);
    release(direct);
    return done;
}

size_t storage_direct_read(struct storage_direct *direct, int fd, uint64_t at, char *to,
                           size_t size)
{
    size -= size % DIRECT_IO_ALIGNED;
    if (size == 0 || !acquire(direct, fd))
        return 0;
    size_t done = direct_io_read(direct->io, direct->fd, at, to, size);
    release(direct);
    return done;
}
