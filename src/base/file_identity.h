/* src/base/file_identity.h: whether a file is the one that was read before, unchanged.
 * Freestanding.
 *
 * Any program can set the time of the last write (cp -p, rsync, package managers), but not the
 * change time (ctime), which every change of content, mode or owner sets. */
#ifndef ONESPACE_BASE_FILE_IDENTITY_H
#define ONESPACE_BASE_FILE_IDENTITY_H

#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/raw.h"

struct file_identity {
    uint64_t device, inode, size, modified_ns, changed_ns;
    /* The last change is longer ago than the granularity of time stamps: any later change has
     * another one. */
    uint64_t is_settled;
};

/* No file system's time stamps are coarser than the second; those with fractions of a second follow
 * the kernel's clock tick, or are finer. */
#define FILE_TICK_NS   UINT64_C(100000000)
#define FILE_COARSE_NS UINT64_C(2000000000)

static inline uint64_t file_ns(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

/* The identity of the file that `status` describes. Take it before reading the file: a file that
 * changes meanwhile then has another identity. */
static inline struct file_identity file_identity_of(const struct stat *status)
{
    struct timespec now = {0, 0};
    raw(__NR_clock_gettime, CLOCK_REALTIME, &now);
    uint64_t changed_ns = file_ns(&status->st_ctim);
    uint64_t granularity_ns = status->st_ctim.tv_nsec ? FILE_TICK_NS : FILE_COARSE_NS;
    struct file_identity identity = {
        .device = status->st_dev,
        .inode = status->st_ino,
        .size = (uint64_t)status->st_size,
        .modified_ns = file_ns(&status->st_mtim),
        .changed_ns = changed_ns,
        .is_settled = file_ns(&now) >= changed_ns + granularity_ns,
    };
    return identity;
}

/* Whether `now` is the file that was known, unchanged. A file that was not settled when it became
 * known is never found again. */
static inline int file_is_unchanged(const struct file_identity *known,
                                    const struct file_identity *now)
{
    return known->is_settled && known->device == now->device && known->inode == now->inode &&
           known->size == now->size && known->modified_ns == now->modified_ns &&
           known->changed_ns == now->changed_ns;
}

#endif
