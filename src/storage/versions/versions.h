/* src/storage/versions/versions.h: durable versions of what all ranks of a job have in a window.
 *
 *   versions.c          open and close: what one rank knows
 *   choose.c   which version all ranks have
 *   restore.c  the window's bytes from that version; what must not stay is made invalid
 *   commit.c   a new version, step by step
 *   pages.c    what a slot lacks: sets of pages
 *   slots.c    the files in FILE.versions/
 *   format.c   their bytes
 *   crc.c      CRC-32C
 *
 * Nothing here knows MPI: the ranks come together through struct versions_group.
 * docs/checkpoints.md describes the protocol and the files for users. Functions return 0 or -errno;
 * after a failure the struct storage_error of a rank that found it says what was wrong and how to
 * mend it, on the others its text is empty. */
#ifndef ONESPACE_STORAGE_VERSIONS_VERSIONS_H
#define ONESPACE_STORAGE_VERSIONS_VERSIONS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "storage/file/error.h"
#include "storage/file/range.h"

struct versions;

/* The ranks of a window. Its functions are collective and return 0, or -errno when the ranks cannot
 * be reached any more. */
struct versions_group {
    void *context;
    uint32_t rank, ranks;
    /* Rank 0's bytes to all. */
    int (*broadcast)(void *context, void *data, size_t size);
    /* The least value of all ranks. What one rank did before, another one may rely on after. */
    int (*least)(void *context, int64_t mine, int64_t *least);
};

/* What one rank has in the window. */
struct versions_part {
    const char *path; /* the data file; the versions lie in PATH.versions/. Copied. */
    char *base;       /* the rank's bytes; borrowed until versions_close */
    size_t length;
    /* All bytes lie in the file, from `offset` on: another number of ranks can take them up. Else
     * only the same rank of as many can, and offset has no meaning. */
    int is_in_file;
    uint64_t offset;
    /* Replaces *changes by what was stored into since the last call, as storage_region_changes
     * does. 1: some of it may be as it was; it is compared before it is written. */
    int (*changes)(void *context, struct storage_ranges *changes);
    void *context;
};

/* How versions reach the device; tests take single steps away, to see that they are needed. */
struct versions_io {
    ssize_t (*write)(int fd, const void *data, size_t size, off_t offset);
    int (*flush)(int fd); /* as fdatasync */
    int (*flush_folder)(int fd);
    int (*random)(void *bytes, size_t size); /* 0 or -1 and errno */
};
extern const struct versions_io versions_io_system;

/* Restores the newest version that is complete on every rank into the part, if there is one, and
 * makes those invalid that came after it; if a complete one is among them the error's text says so.
 * `keep`, at least 1, is how many versions are there at any time once there are as many; the same
 * on all ranks. io NULL: the system's. Collective; fails on all ranks or on none. *versions is the
 * caller's: versions_close. Other errors than of single calls: -EBUSY: another window or job has
 * these versions open; -EUCLEAN: there are versions, but none that all ranks have, or what they
 * hold is damaged. */
int versions_open(const struct versions_part *part, const struct versions_group *group,
                  unsigned keep, const struct versions_io *io, struct versions **versions,
                  struct storage_error *error);

/* Makes the state of all parts one version. No stores meanwhile. Collective; fails on all or on
 * none. The ranks' last version stays when it fails. -ENOSPC: there is no room; after room was made
 * it may be tried again. -EIO and others from the device: no further version can be made before the
 * window is opened again. */
int versions_commit(struct versions *versions, struct storage_error *error);

/* Number of the newest version, 0: none. Local. */
uint64_t versions_newest(const struct versions *versions);

/* Local. NULL: nothing to do. */
void versions_close(struct versions *versions);

#endif
