/* src/storage/region/direct.c: large copies between a region and memory, past the page cache.
 *
 * For what is written once or read once (access_style) a copy in the cache is of no use, and making
 * one is most of the cost. Only whole huge pages of the file are transferred so: no page of the
 * cache is larger, so none of those that the kernel throws away then holds bytes of a neighbour,
 * who may be storing into it. Loads and stores through the mapping see the device's content, since
 * the kernel writes and drops what the cache has of the range first.
 *
 * The buffer (direct_io.c) is one thread's at a time; others go through the cache meanwhile. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "storage/file/direct_io.h"
#include "storage/region/internal.h"

struct storage_past_cache {
    int fd; /* -1: this file has no such access */
    struct direct_io *io;
    /* Of the two above, while they are used and made: whoever sets it (acquire) has them until it
     * clears it (release). */
    atomic_flag is_taken;
};

struct storage_past_cache *storage_past_cache_new(void)
{
    struct storage_past_cache *past = calloc(1, sizeof(*past));
    if (past)
        past->fd = -1;
    return past;
}

void storage_past_cache_free(struct storage_past_cache *past)
{
    if (!past)
        return;
    if (past->fd >= 0)
        close(past->fd);
    direct_io_free(past->io);
    free(past);
}

/* The first time. 0: it cannot be used. */
static int prepare(struct storage_past_cache *past, int fd)
{
    char path[64];
    if (past->io)
        return past->fd >= 0;
    past->io = direct_io_new();
    if (!past->io)
        return 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    past->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    return past->fd >= 0;
}

static void give(struct storage_past_cache *past)
{
    atomic_flag_clear_explicit(&past->is_taken, memory_order_release);
}

static int take(struct storage_past_cache *past, int fd)
{
    if (!past || atomic_flag_test_and_set_explicit(&past->is_taken, memory_order_acquire))
        return 0;
    if (prepare(past, fd))
        return 1;
    give(past);
    return 0;
}

/* What is not done goes through the cache, and so do its errors. */
size_t storage_past_cache_write(struct storage_past_cache *past, int fd, uint64_t at,
                                const char *from, size_t size)
{
    size -= size % STORAGE_HUGE;
    if (size == 0 || !take(past, fd))
        return 0;
    size_t done = direct_io_write(past->io, past->fd, at, from, size);
    give(past);
    return done;
}

size_t storage_past_cache_read(struct storage_past_cache *past, int fd, uint64_t at, char *to,
                               size_t size)
{
    size -= size % DIRECT_IO_ALIGNED;
    if (size == 0 || !take(past, fd))
        return 0;
    size_t done = direct_io_read(past->io, past->fd, at, to, size);
    give(past);
    return done;
}
