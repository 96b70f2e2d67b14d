/* src/storage/past_cache.c: large copies between a region and memory, past the page cache.
 *
 * For what is written once or read once (access_style) a copy in the cache is of no use, and making
 * one is most of the cost. Only whole huge pages of the file are transferred so: no page of the
 * cache is larger, so none of those that the kernel throws away then holds bytes of a neighbour,
 * who may be storing into it. Loads and stores through the mapping see the device's content, since
 * the kernel writes and drops what the cache has of the range first.
 *
 * The kernel wants aligned memory. Programs' arrays rarely are, so there is a buffer to go through,
 * which one thread has at a time; others go through the cache. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "storage/file.h"

enum { ALIGNED = 4096, ROOM = 8 << 20 };

struct storage_past_cache {
    int fd;       /* -1: this file has no such access */
    char *buffer; /* of ROOM bytes */
    /* Of the buffer, and of the two above while they are made: whoever sets it (acquire) has it
     * until it clears it (release). */
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
    if (past->buffer)
        munmap(past->buffer, ROOM);
    free(past);
}

/* The first time. 0: it cannot be used. */
static int prepare(struct storage_past_cache *past, int fd)
{
    char path[64];
    if (past->buffer)
        return past->fd >= 0;
    void *buffer = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED)
        return 0;
    (void)madvise(buffer, ROOM, MADV_HUGEPAGE);
    past->buffer = buffer;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    past->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    return past->fd >= 0;
}

static int is_aligned(const void *memory)
{
    return (uintptr_t)memory % ALIGNED == 0;
}

/* What is not done goes through the cache, and so do its errors. */
static size_t write_step(const struct storage_past_cache *past, uint64_t at, const char *from,
                         size_t size)
{
    if (!is_aligned(from))
        from = memcpy(past->buffer, from, size);
    ssize_t done = pwrite(past->fd, from, size, (off_t)at);
    return done > 0 ? (size_t)done : 0;
}

static size_t read_step(const struct storage_past_cache *past, uint64_t at, char *to, size_t size)
{
    char *place = is_aligned(to) ? to : past->buffer;
    ssize_t done = pread(past->fd, place, size, (off_t)at);
    if (done > 0 && place != to)
        memcpy(to, place, (size_t)done);
    return done > 0 ? (size_t)done : 0;
}

/* Of whole units, the first of which begins at `at`. */
static size_t transfer(const struct storage_past_cache *past, uint64_t at, const char *from,
                       char *to, size_t size)
{
    size_t done = 0, step, got;
    do {
        step = size - done < ROOM ? size - done : ROOM;
        got = to ? read_step(past, at + done, to + done, step)
                 : write_step(past, at + done, from + done, step);
        done += got;
    } while (got == step && done < size);
    return done;
}

static size_t take_and_transfer(struct storage_past_cache *past, int fd, uint64_t at,
                                const char *from, char *to, size_t size)
{
    if (!past || size == 0 ||
        atomic_flag_test_and_set_explicit(&past->is_taken, memory_order_acquire))
        return 0;
    size_t done = prepare(past, fd) ? transfer(past, at, from, to, size) : 0;
    atomic_flag_clear_explicit(&past->is_taken, memory_order_release);
    return done;
}

size_t storage_past_cache_write(struct storage_past_cache *past, int fd, uint64_t at,
                                const char *from, size_t size)
{
    return take_and_transfer(past, fd, at, from, NULL, size - size % STORAGE_HUGE);
}

size_t storage_past_cache_read(struct storage_past_cache *past, int fd, uint64_t at, char *to,
                               size_t size)
{
    return take_and_transfer(past, fd, at, NULL, to, size - size % ALIGNED);
}
