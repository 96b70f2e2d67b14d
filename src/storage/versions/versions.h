/* src/storage/versions/versions.h: durable versions of the contents of a window. */
#ifndef ONESPACE_STORAGE_VERSIONS_VERSIONS_H
#define ONESPACE_STORAGE_VERSIONS_VERSIONS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "storage/file/file.h"

struct versions;

/* The ranks of a window. Both functions are collective and return 0, or -errno when the ranks
 * cannot be reached any more. */
struct versions_group {
    void *context;
    uint32_t rank, ranks;
    /* Sends rank 0's bytes to all. */
    int (*broadcast)(void *context, void *data, size_t size);
    /* The minimum of all ranks' values. All ranks see the writes of any rank before the call. */
    int (*min)(void *context, int64_t value, int64_t *min);
};

/* One rank's part of the window. */
struct versions_part {
    const char *path; /* the data file; the versions are in PATH.versions/. Copied. */
    char *base;       /* the rank's bytes; borrowed until versions_close */
    size_t length;
    /* Whether all bytes are in the file, from `offset` on: then another number of ranks can restore
     * them. Otherwise only the same rank of as many can, and offset means nothing. */
    int is_in_file;
    uint64_t offset;
    /* Replaces *changes by what was stored into since the last call, as storage_region_changes
     * does. 1: some of it may be unchanged; it is compared before it is written. */
    int (*changes)(void *context, struct storage_ranges *changes);
    /* NULL, or whether the part still has what was stored: 0, or -errno with the error's text.
     * Called before a commit reads the part and after. */
    int (*check)(void *context, struct storage_error *error);
    void *context;
    /* NULL, or called during a commit with the bytes written so far and in total: at the start,
     * after each 16 MiB, and at the end, before they are durable. */
    void (*progress)(void *context, uint64_t done, uint64_t total);
};

/* System calls that reach the device. Tests skip single steps to show that each is needed. */
struct versions_io {
    ssize_t (*write)(int fd, const void *data, size_t size, off_t offset);
    int (*flush)(int fd); /* as fdatasync */
    int (*flush_directory)(int fd);
    int (*random)(void *bytes, size_t size); /* 0 or -1 and errno */
};
extern const struct versions_io versions_io_system;

/* Restores the newest version that is complete on every rank into the part, if there is one, and
 * invalidates newer ones; if a complete one is among these the error's text says so. `keep`, at
 * least 1, is the number of versions that exist at any time once there were as many; the same on
 * all ranks. io NULL: the system's. Collective; fails on all ranks or on none. *versions is the
 * caller's: versions_close. Errors besides those of system calls: -EBUSY: another window or job has
 * these versions open; -EUCLEAN: there are versions, but none that all ranks have, or one is
 * damaged. */
int versions_open(const struct versions_part *part, const struct versions_group *group,
                  unsigned keep, const struct versions_io *io, struct versions **versions,
                  struct storage_error *error);

/* Makes the state of all parts one version. No stores meanwhile. Collective; fails on all ranks or
 * on none, and on failure the last version stays. -ENOSPC: no room; may be retried after room was
 * made. -EIO and others from the device: no further version can be made until the window is opened
 * again. */
int versions_commit(struct versions *versions, struct storage_error *error);

/* Number of the newest version, 0: none. Local. */
uint64_t versions_newest(const struct versions *versions);

/* Local. NULL: nothing to do. */
void versions_close(struct versions *versions);

#endif
