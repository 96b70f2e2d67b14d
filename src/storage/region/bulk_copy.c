/* src/storage/region/bulk_copy.c: large copies into a region and out of it, by system calls. */
#include "storage/region/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "arch/constants.h"
#include "onespace/sync/copy.h"

/* ---- Ranges in frequent use ---- */

/* A put by pwrite has no faults, but enters the kernel each time. Stores take a fault per page
 * after each write-back, and cost only the copy from then on. The future is unknown, so this is the
 * ski-rental problem: a range is written by pwrite until that has happened several times in short
 * succession (UNIT_NS), and by stores as long as such use continues. A range that is read as often
 * is in memory, and is loaded.
 *
 * A word holds the range, the time unit of its last use, and the number of successive uses. Any
 * thread writes it. Relaxed: it guards no data, and a lost update only delays the change. Ranges
 * that share a word displace one another. */

enum {
    HOT_RANGE_BYTES = 64 << 10,
    UNIT_NS = 1 << 24,
    HOT_USES_MIN = 4,
    COUNT_BITS = 8,
    UNIT_BITS = 24
};

int storage_region_is_hot(struct storage_region *region, uint64_t offset)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    uint64_t unit = ns / UNIT_NS & ((1 << UNIT_BITS) - 1), range = offset / HOT_RANGE_BYTES;
    _Atomic uint64_t *word = &region->hot[range % STORAGE_HOT_WORDS];
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    uint64_t count = seen & ((1 << COUNT_BITS) - 1);
    uint64_t last = seen >> COUNT_BITS & ((1 << UNIT_BITS) - 1);
    int is_other_range = seen >> (COUNT_BITS + UNIT_BITS) != range;
    if (is_other_range || (last != unit && (count < HOT_USES_MIN || unit - last > 1)))
        count = 0;
    int is_hot = count >= HOT_USES_MIN;
    count += count < HOT_USES_MIN;
    uint64_t next = (range << UNIT_BITS | unit) << COUNT_BITS | count;
    if (next != seen)
        atomic_store_explicit(word, next, memory_order_relaxed);
    return is_hot;
}

/* ---- Direct I/O ---- */

/* For data that is written once or read once (access_style) a copy in the page cache is useless,
 * and making it is most of the cost. A direct write covers whole units of storage_folio_max()
 * bytes. No folio is larger, so the kernel never invalidates a folio into which a neighbour may be
 * storing. Loads and stores through the mapping stay coherent, because the kernel first writes back
 * the cached pages of the range, and a write drops them.
 *
 * The buffer (file/direct_io.c) serves one thread at a time; others use the page cache meanwhile.
 */

struct storage_direct {
    int fd; /* -1: this file has no direct I/O */
    struct direct_io *io;
    /* Guards the two above: the thread that sets it (acquire) owns them until it clears it
     * (release). */
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

/* Opens the file for direct I/O at the first use. 0: it has none. */
static int open_direct(struct storage_direct *direct, int fd)
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

static void unlock_direct(struct storage_direct *direct)
{
    atomic_flag_clear_explicit(&direct->is_taken, memory_order_release);
}

static int try_lock_direct(struct storage_direct *direct, int fd)
{
    if (!direct || atomic_flag_test_and_set_explicit(&direct->is_taken, memory_order_acquire))
        return 0;
    if (open_direct(direct, fd))
        return 1;
    unlock_direct(direct);
    return 0;
}

/* Returns the number of bytes transferred from the start. The caller copies the rest through the
 * page cache, which reports errors. */
static size_t direct_copy(struct storage_direct *direct, int fd, struct direct_transfer transfer)
{
    if (transfer.size == 0 || !try_lock_direct(direct, fd))
        return 0;
    transfer.fd = direct->fd;
    size_t done = direct_io_run(direct->io, &transfer);
    unlock_direct(direct);
    return done;
}

/* ---- Copies ---- */

/* A store into a clean page of a file is a fault per 4 KiB, which costs more than copying the page.
 * pwrite to the same page cache has no faults, and its effect is visible to loads through mappings
 * at once. The kernel makes folios as large as the piece that is written. Large ones cost less, but
 * a later store into one dirties all of it: so a piece is a 64th of the whole, which keeps both
 * costs small. With sequential access, or when nothing is written twice, pieces are as large as
 * they come.
 *
 * For what is written once, write-back begins at once, so that a later flush has little to wait
 * for. From DIRECT_IO_MIN_BYTES on it uses direct I/O: that saves a copy, and keeps the
 * device busy although this rank waits for it.
 *
 * Loading what is in memory is as good as any copy. The rest is requested before it is copied,
 * since a region expects random access and is not read ahead. */

enum {
    PIECE_MIN_BYTES = 64 << 10,    /* of the file, aligned: from this size up to a huge page */
    PIECE_FRACTION = 64,           /* a piece is at most this fraction of what is stored */
    PIECE_MAX_BYTES = 8 << 20,     /* for sequential access, and for what is written once */
    DIRECT_IO_MIN_BYTES = 4 << 20, /* for what is written once, from this size on */
    READ_PIECE_BYTES = 1 << 20,
    READAHEAD_BYTES = 8 << 20, /* requested at a time */
    READAHEAD_REQUEST_BYTES =
        128 << 10, /* per request: the kernel cuts requests above the device's limit */
};

/* Bytes from `at` to the end of its piece, at most `left`. */
static size_t step_of(uint64_t at, size_t left, size_t piece)
{
    size_t step = piece - at % piece;
    return step < left ? step : left;
}

static int has_failed(const struct storage_region *region)
{
    return atomic_load_explicit(region->failed, memory_order_relaxed) != 0;
}

/* A folio becomes as large as the piece that creates it: a power of two. */
static size_t piece_of(unsigned style, size_t size)
{
    size_t piece = PIECE_MIN_BYTES;
    if (style & (STORAGE_SEQUENTIAL | STORAGE_WRITE_ONCE))
        return PIECE_MAX_BYTES;
    if (style & STORAGE_RANDOM)
        return storage_page_size();
    while (piece < storage_folio_max() && piece * 2 <= size / PIECE_FRACTION)
        piece *= 2;
    return piece;
}

/* Returns the number of bytes written from the start. */
static size_t write_pieces(const struct storage_region *region, int fd, uint64_t at,
                           const char *from, size_t size)
{
    size_t piece = piece_of(region->style, size), done = 0;
    while (done < size) {
        ssize_t step =
            pwrite(fd, from + done, step_of(at + done, size - done, piece), (off_t)(at + done));
        if (step > 0)
            done += (size_t)step;
        else if (step == 0 || errno != EINTR)
            break;
    }
    return done;
}

/* Starts write-back without waiting for it or for its errors, which the next flush reports. Leaves
 * incomplete pages to later writes. */
static void start_write_back(int fd, uint64_t at, size_t size)
{
    uint64_t page = storage_page_size(), begin = at - at % page,
             end = at + size - (at + size) % page;
    if (begin < end)
        (void)sync_file_range(fd, (off_t)begin, (off_t)(end - begin), SYNC_FILE_RANGE_WRITE);
}

/* The same, and starts write-back of data that is written once. */
static size_t write_cached(const struct storage_region *region, int fd, uint64_t at,
                           const char *from, size_t size)
{
    size_t done = write_pieces(region, fd, at, from, size);
    if (region->style & STORAGE_WRITE_ONCE)
        start_write_back(fd, at, done);
    return done;
}

static size_t write_all(struct storage_region *region, int fd, uint64_t at, const char *from,
                        size_t size)
{
    int is_direct =
        region->style & STORAGE_WRITE_ONCE && fd == region->file.fd && size >= DIRECT_IO_MIN_BYTES;
    size_t head = is_direct ? step_of(at, size, storage_folio_max()) % storage_folio_max() : size;
    size_t done = write_cached(region, fd, at, from, head);
    if (done < head || done == size)
        return done;
    size_t whole = (size - done) / storage_folio_max() * storage_folio_max();
    done +=
        direct_copy(region->direct, fd,
                    (struct direct_transfer){.at = at + done, .from = from + done, .size = whole});
    return done + write_cached(region, fd, at + done, from + done, size - done);
}

static int prefers_loads_and_stores(struct storage_region *region, uint64_t offset, size_t size)
{
    return size < DIRECT_IO_MIN_BYTES && storage_region_is_hot(region, offset);
}

void storage_region_store(struct storage_region *region, int fd, uint64_t offset, const void *from,
                          size_t size)
{
    size_t done = 0;
    if (size == 0)
        return; /* `from` may be NULL */
    /* Writing would extend a truncated file, and hide the loss. */
    if (fd >= 0 && !region->is_copy && !region->changes && !has_failed(region) &&
        !prefers_loads_and_stores(region, offset, size) &&
        !storage_file_is_short(fd, region->file_offset + region->length) &&
        !storage_size_is_forbidden(region->file_offset + offset + size))
        done = write_all(region, fd, region->file_offset + offset, from, size);
    onespace_copy(region->base + offset + done, (const char *)from + done, size - done);
}

/* Requests a range of the file from the device. */
static void prefetch(int fd, uint64_t at, size_t size)
{
    for (size_t asked = 0; asked < size; asked += READAHEAD_REQUEST_BYTES)
        (void)posix_fadvise(fd, (off_t)(at + asked), READAHEAD_REQUEST_BYTES, POSIX_FADV_WILLNEED);
}

/* Whether the whole range is in memory. */
static int is_cached(const struct storage_region *region, uint64_t offset, size_t size)
{
    unsigned char pages[READ_PIECE_BYTES / ARCH_PAGE_MIN + 2];
    uintptr_t page = storage_page_size();
    uintptr_t begin = (uintptr_t)region->base + offset, end = begin + size;
    size_t count = (end - (begin & -page) + page - 1) / page, found = 0;
    if (mincore((void *)(begin & -page), end - (begin & -page), pages) < 0)
        return 0;
    while (found < count && pages[found] & 1)
        found++;
    return found == count;
}

/* Loads cached pages: they fault only the first time, and the kernel's copy is slower. */
static size_t read_pieces(const struct storage_region *region, int fd, uint64_t offset, char *to,
                          size_t size)
{
    int is_sequential = !!(region->style & STORAGE_SEQUENTIAL);
    size_t done = 0, asked = 0;
    while (done < size) {
        uint64_t at = region->file_offset + offset + done;
        size_t want = step_of(at, size - done, READ_PIECE_BYTES);
        if (is_cached(region, offset + done, want)) {
            onespace_copy(to + done, region->base + offset + done, want);
            done += want;
            continue;
        }
        if (!is_sequential && asked < done + want) {
            asked = size - done < READAHEAD_BYTES ? size : done + READAHEAD_BYTES;
            prefetch(fd, at, asked - done);
        }
        ssize_t got = pread(fd, to + done, want, (off_t)at);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    return done;
}

static size_t read_all(struct storage_region *region, int fd, uint64_t offset, char *to,
                       size_t size)
{
    uint64_t at = region->file_offset + offset;
    size_t head = region->style & STORAGE_READ_ONCE
                      ? step_of(at, size, DIRECT_IO_ALIGN) % DIRECT_IO_ALIGN
                      : size;
    size_t done = read_pieces(region, fd, offset, to, head);
    if (done < head || done == size)
        return done;
    size_t aligned = (size - done) / DIRECT_IO_ALIGN * DIRECT_IO_ALIGN;
    if (fd == region->file.fd)
        done += direct_copy(
            region->direct, fd,
            (struct direct_transfer){.at = at + done, .to = to + done, .size = aligned});
    return done + read_pieces(region, fd, offset + done, to + done, size - done);
}

void storage_region_load(struct storage_region *region, int fd, uint64_t offset, void *to,
                         size_t size)
{
    size_t done = 0;
    if (size == 0)
        return;
    if (fd >= 0 && !region->is_copy && !has_failed(region) &&
        !prefers_loads_and_stores(region, offset, size))
        done = read_all(region, fd, offset, to, size);
    onespace_copy((char *)to + done, region->base + offset + done, size - done);
}
