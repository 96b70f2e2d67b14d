/* src/storage/versions/write.c: writes this rank's part of a new version to a slot (step 2 of
 * commit.c). */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/versions/crc.h"
#include "storage/versions/state.h"

/* ---- What changed ---- */

/* Adds the changes to what every slot lacks: from here on none is forgotten, however the commit
 * ends. */
static int note_changes(struct versions *versions, struct storage_error *error)
{
    struct storage_ranges ranges = {0};
    int result = versions->part.changes(versions->part.context, &ranges);
    if (result >= 0) {
        for (uint32_t i = 0; i < versions->slot_count; i++) {
            version_pages_add(&versions->slots[i].lacks, &ranges);
            versions->slots[i].is_unsure |= result;
        }
        version_pages_add(&versions->unsummed, &ranges);
    }
    free(ranges.range);
    if (result < 0)
        return storage_fail(error, result, "%s: cannot tell what changed: %s", versions->path,
                            strerror(-result));
    return 0;
}

static void sum_blocks(struct versions *versions)
{
    const struct versions_part *part = &versions->part;
    struct storage_range run;
    for (size_t at = 0; version_pages_next(&versions->unsummed, at, &run);) {
        size_t block = run.offset / VERSIONS_BLOCK * VERSIONS_BLOCK;
        size_t end = run.offset + run.length;
        for (; block < end; block += VERSIONS_BLOCK) {
            size_t left = part->length - block;
            size_t size = left < VERSIONS_BLOCK ? left : VERSIONS_BLOCK;
            versions->sums[block / VERSIONS_BLOCK] = versions_crc(part->base + block, size);
        }
        at = block; /* further pages of the last block are covered, too */
    }
    version_pages_clear(&versions->unsummed);
}

/* ---- The slot ---- */

/* An empty slot, or the one with the oldest version: with one slot more than kept versions it is
 * not one of these. */
static uint32_t choose_slot(const struct versions *versions)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < versions->slot_count; i++)
        if (versions->slots[i].version < versions->slots[best].version)
            best = i;
    return best;
}

/* Reserves space where the file system can, so that later writes cannot fail for want of it. Of a
 * clone only what precedes the data is new; the mark must have its space there, since a mark that
 * fails ends the versions. */
static int reserve(const struct versions *versions, int fd, int is_clone)
{
    size_t length = versions->part.length;
    off_t size = (off_t)(is_clone ? version_data_at(length) : version_size(length));
    int result;
    do
        result = fallocate(fd, 0, 0, size);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return 0;
    if (errno != EOPNOTSUPP)
        return -errno;
    return is_clone || ftruncate(fd, size) == 0 ? 0 : -errno;
}

/* Lets the slot share the data of the newest version where the file system has reflinks: then it
 * lacks only what changed since, and takes no more space than that. */
static int clone_newest(struct versions *versions, const struct commit *commit)
{
    uint64_t at = version_data_at(versions->part.length);
    struct file_clone_range range = {.src_offset = at, .dest_offset = at};
    struct storage_error ignored; /* without a clone everything is written */
    uint32_t from = 0;
    while (from < versions->slot_count &&
           !(versions->slots[from].version && versions->slots[from].is_sized &&
             versions->slots[from].version == versions->newest))
        from++;
    if (!versions->can_clone || from == versions->slot_count || !versions->part.length)
        return 0;
    int fd = slot_open(versions->directory, versions->path, versions->group.rank, from, O_RDONLY,
                       &ignored);
    if (fd < 0)
        return 0;
    range.src_fd = fd;
    versions->can_clone = ioctl(commit->fd, FICLONERANGE, &range) == 0;
    close(fd);
    if (versions->can_clone) {
        versions->slots[commit->number].is_unsure = versions->slots[from].is_unsure;
        version_pages_copy(&versions->slots[commit->number].lacks, &versions->slots[from].lacks);
    }
    return versions->can_clone;
}

/* Opens and invalidates the commit's slot, and makes it as long as it has to be. */
static int open_slot(struct versions *versions, struct commit *commit, struct storage_error *error)
{
    struct own_slot *slot = &versions->slots[commit->number];
    commit->fd = slot_open(versions->directory, versions->path, versions->group.rank,
                           commit->number, O_RDWR | O_CREAT, error);
    if (commit->fd < 0)
        return commit->fd;
    commit->is_new = !slot->exists;
    int result = 0;
    if (commit->is_new && fchmod(commit->fd, versions->mode) != 0)
        result = -errno;
    if (slot->exists)
        result = slot_invalidate(versions->io, commit->fd);
    slot->exists = 1;
    slot->version = 0;
    if (result == 0 && !slot->is_sized) {
        version_pages_fill(&slot->lacks);
        slot->is_unsure = 0; /* there is nothing to compare with */
        result = ftruncate(commit->fd, 0) == 0 ? 0 : -errno;
    }
    int is_clone = result == 0 && clone_newest(versions, commit);
    if (result == 0 && !slot->is_sized)
        result = reserve(versions, commit->fd, is_clone);
    slot->is_sized = 1;
    return result;
}

/* ---- Its content ---- */

enum { PIECE = 16 << 20 }; /* bytes between two calls of progress */

static uint64_t count_lacking(const struct version_pages *pages)
{
    uint64_t bytes = 0;
    struct storage_range run;
    for (size_t at = 0; version_pages_next(pages, at, &run); at = run.offset + run.length)
        bytes += run.length;
    return bytes;
}

static void tell(const struct versions *versions, uint64_t done, uint64_t of)
{
    if (versions->part.progress)
        versions->part.progress(versions->part.context, done, of);
}

/* Writes the pages of a run that differ from the slot's: reading costs less than writing, all the
 * more when few differ. What cannot be read is written. */
static int write_different(struct versions *versions, const struct commit *commit,
                           struct storage_range run, char *buffer)
{
    uint64_t data = version_data_at(versions->part.length);
    int result = 0;
    while (result == 0 && run.length) {
        const char *from = versions->part.base + run.offset;
        size_t size = run.length < VERSIONS_BLOCK ? run.length : VERSIONS_BLOCK, at = 0;
        int is_read = slot_read(commit->fd, buffer, size, data + run.offset) == 0;
        while (result == 0 && at < size) {
            size_t step = size - at < VERSIONS_PAGE ? size - at : VERSIONS_PAGE;
            if (!is_read || memcmp(from + at, buffer + at, step) != 0)
                result =
                    slot_write(versions->io, commit->fd, from + at, step, data + run.offset + at);
            at += step;
        }
        run.offset += size, run.length -= size;
    }
    return result;
}

static int write_pages(struct versions *versions, const struct commit *commit)
{
    struct own_slot *slot = &versions->slots[commit->number];
    uint64_t data = version_data_at(versions->part.length);
    uint64_t done = 0, of = count_lacking(&slot->lacks);
    char *buffer =
        slot->is_unsure ? malloc(VERSIONS_BLOCK) : NULL; /* without it everything is written */
    struct storage_range run;
    int result = 0;
    tell(versions, 0, of);
    for (size_t at = 0; result == 0 && version_pages_next(&slot->lacks, at, &run);
         at = run.offset + run.length) {
        if (run.length > PIECE)
            run.length = PIECE;
        result = buffer ? write_different(versions, commit, run, buffer)
                        : slot_write(versions->io, commit->fd, versions->part.base + run.offset,
                                     run.length, data + run.offset);
        done += run.length;
        if (result == 0)
            tell(versions, done, of);
    }
    free(buffer);
    return result;
}

static int write_sums(struct versions *versions, struct commit *commit)
{
    size_t blocks = version_blocks(versions->part.length);
    uint32_t *sums = malloc(blocks * sizeof(*sums) + 1);
    if (!sums)
        return -ENOMEM;
    for (size_t i = 0; i < blocks; i++)
        sums[i] = htole32(versions->sums[i]);
    commit->record.sums_crc = versions_crc(sums, blocks * sizeof(*sums));
    int result =
        slot_write(versions->io, commit->fd, sums, blocks * sizeof(*sums), VERSIONS_SUMS_AT);
    free(sums);
    return result;
}

static int write_record(struct versions *versions, const struct commit *commit)
{
    unsigned char bytes[VERSIONS_HEADER];
    version_record_write(&commit->record, bytes);
    int result = slot_write(versions->io, commit->fd, bytes, sizeof(bytes), VERSIONS_RECORD_AT);
    if (result == 0 && versions->io->flush(commit->fd) != 0)
        result = -errno;
    if (result == 0 && commit->is_new && versions->io->flush_directory(versions->directory) != 0)
        result = -errno;
    return result;
}

static int fill_slot(struct versions *versions, struct commit *commit, struct storage_error *error)
{
    int result = open_slot(versions, commit, error);
    if (result == 0)
        result = write_pages(versions, commit);
    if (result == 0)
        result = write_sums(versions, commit);
    if (result == 0)
        result = versions->io->flush(commit->fd) == 0 ? 0 : -errno;
    if (result == 0) {
        version_pages_clear(&versions->slots[commit->number].lacks);
        versions->slots[commit->number].is_unsure = 0;
        result = write_record(versions, commit);
    }
    if (result == 0)
        return 0;
    int is_full = result == -ENOSPC || result == -EDQUOT || result == -EFBIG;
    return storage_fail(
        error, result, "%s.versions/rank-%u.slot-%u: version %" PRIu64 ": %s: %s", versions->path,
        versions->group.rank, commit->number, commit->record.version, strerror(-result),
        is_full ? "make room and commit again, or keep fewer versions (storage_alloc_versions)"
                : "the version before stays; open the window again when the device is in order");
}

int versions_write(struct versions *versions, struct commit *commit, struct storage_error *error)
{
    int result = note_changes(versions, error);
    if (result != 0)
        return result;
    sum_blocks(versions);
    commit->number = choose_slot(versions);
    return fill_slot(versions, commit, error);
}
