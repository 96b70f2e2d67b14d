/* src/storage/versions/commit.c: commits one more version. */
#include "storage/versions/state.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Sets of pages ---- */

static size_t page_count(const struct version_pages *pages)
{
    return pages->length / VERSIONS_PAGE + (pages->length % VERSIONS_PAGE != 0);
}

static size_t word_count(const struct version_pages *pages)
{
    return (page_count(pages) + 63) / 64;
}

int version_pages_new(struct version_pages *pages, size_t length, int is_full)
{
    pages->length = length;
    pages->word = calloc(word_count(pages) + 1, sizeof(uint64_t));
    if (!pages->word)
        return -ENOMEM;
    if (is_full)
        version_pages_fill(pages);
    return 0;
}

void version_pages_free(struct version_pages *pages)
{
    free(pages->word);
    pages->word = NULL;
}

/* Also sets bits after the last page, which version_pages_next ignores. */
void version_pages_fill(struct version_pages *pages)
{
    memset(pages->word, 0xff, word_count(pages) * sizeof(uint64_t));
}

void version_pages_clear(struct version_pages *pages)
{
    memset(pages->word, 0, word_count(pages) * sizeof(uint64_t));
}

void version_pages_add(struct version_pages *pages, const struct storage_ranges *ranges)
{
    for (size_t i = 0; i < ranges->count; i++) {
        struct storage_range range = ranges->range[i];
        if (!range.length || range.offset >= pages->length)
            continue;
        size_t end = range.length > pages->length - range.offset ? pages->length
                                                                 : range.offset + range.length;
        for (size_t page = range.offset / VERSIONS_PAGE; page <= (end - 1) / VERSIONS_PAGE; page++)
            pages->word[page / 64] |= UINT64_C(1) << page % 64;
    }
}

void version_pages_copy(struct version_pages *pages, const struct version_pages *from)
{
    memcpy(pages->word, from->word, word_count(pages) * sizeof(uint64_t));
}

static int has_page(const struct version_pages *pages, size_t page)
{
    return pages->word[page / 64] >> page % 64 & 1;
}

int version_pages_next(const struct version_pages *pages, size_t from, struct storage_range *run)
{
    size_t count = page_count(pages), page = (from + VERSIONS_PAGE - 1) / VERSIONS_PAGE;
    while (page < count && !has_page(pages, page))
        page += pages->word[page / 64] >> page % 64 ? 1 : 64 - page % 64;
    if (page >= count)
        return 0;
    size_t end = page;
    while (end < count && has_page(pages, end))
        end++;
    run->offset = page * VERSIONS_PAGE;
    run->length = (end == count ? pages->length : end * VERSIONS_PAGE) - run->offset;
    return 1;
}

/* ---- This rank's part: step 2 of the protocol below ---- */

/* One commit, as this rank makes it. */
struct commit {
    struct version_record record;
    uint32_t number; /* of the slot */
    int fd;          /* of the slot, -1: not open */
    int is_new;      /* this commit created the file */
};

/* What was reported as changed before the report failed will not be reported again. */
static void distrust_all_pages(struct versions *versions)
{
    for (uint32_t i = 0; i < versions->slot_count; i++) {
        version_pages_fill(&versions->slots[i].stale_pages);
        versions->slots[i].must_compare = 1;
    }
    version_pages_fill(&versions->stale_sums);
}

/* Adds the dirty pages to the stale pages of every slot, so that they survive a failed commit. */
static int collect_dirty_pages(struct versions *versions, struct storage_error *error)
{
    struct storage_ranges ranges = {0};
    int result = versions->part.changes(versions->part.context, &ranges);
    if (result >= 0) {
        for (uint32_t i = 0; i < versions->slot_count; i++) {
            version_pages_add(&versions->slots[i].stale_pages, &ranges);
            versions->slots[i].must_compare |= result;
        }
        version_pages_add(&versions->stale_sums, &ranges);
    }
    free(ranges.range);
    if (result < 0)
        distrust_all_pages(versions);
    if (result < 0)
        return storage_fail(error, result, "%s: cannot tell what changed: %s", versions->path,
                            strerror(-result));
    return 0;
}

static void sum_blocks(struct versions *versions)
{
    const struct versions_part *part = &versions->part;
    struct storage_range run;
    for (size_t at = 0; version_pages_next(&versions->stale_sums, at, &run);) {
        size_t block = run.offset / VERSIONS_BLOCK * VERSIONS_BLOCK;
        size_t end = run.offset + run.length;
        for (; block < end; block += VERSIONS_BLOCK) {
            size_t left = part->length - block;
            size_t size = left < VERSIONS_BLOCK ? left : VERSIONS_BLOCK;
            versions->sums[block / VERSIONS_BLOCK] = versions_crc(part->base + block, size);
        }
        at = block; /* the sum covers further pages of the last block */
    }
    version_pages_clear(&versions->stale_sums);
}

/* ---- The slot ---- */

/* An empty slot, or the one with the oldest version. There is one slot more than versions are kept,
 * so the oldest of all slots holds no kept version. */
static uint32_t choose_slot(const struct versions *versions)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < versions->slot_count; i++)
        if (versions->slots[i].version < versions->slots[best].version)
            best = i;
    return best;
}

/* Reserves space where the file system can, so that later writes do not fail for lack of it. In a
 * clone only the bytes before the data are new. The mark needs space there, because no version can
 * follow a mark that failed. */
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

/* Lets the slot share the data of the newest version where the file system has reflinks: then only
 * the pages that changed since are stale, and take space. */
static int clone_newest(struct versions *versions, const struct commit *commit)
{
    uint64_t at = version_data_at(versions->part.length);
    struct file_clone_range range = {.src_offset = at, .dest_offset = at};
    struct storage_error ignored; /* without a clone all pages are written */
    uint32_t from = 0;
    while (from < versions->slot_count &&
           !(versions->slots[from].version && versions->slots[from].is_sized &&
             versions->slots[from].version == versions->newest))
        from++;
    if (!versions->has_reflinks || from == versions->slot_count || !versions->part.length)
        return 0;
    int fd = slot_open(versions->directory, versions->path, versions->group.rank, from, O_RDONLY,
                       &ignored);
    if (fd < 0)
        return 0;
    range.src_fd = fd;
    versions->has_reflinks = ioctl(commit->fd, FICLONERANGE, &range) == 0;
    close(fd);
    if (versions->has_reflinks) {
        versions->slots[commit->number].must_compare = versions->slots[from].must_compare;
        version_pages_copy(&versions->slots[commit->number].stale_pages,
                           &versions->slots[from].stale_pages);
    }
    return versions->has_reflinks;
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
    int result = storage_size_is_forbidden(version_size(versions->part.length)) ? -EFBIG : 0;
    if (result == 0 && commit->is_new && fchmod(commit->fd, versions->mode) != 0)
        result = -errno;
    if (result == 0 && slot->exists)
        result = slot_invalidate(versions->io, commit->fd);
    slot->exists = 1;
    slot->version = 0;
    if (result == 0 && !slot->is_sized) {
        version_pages_fill(&slot->stale_pages);
        slot->must_compare = 0; /* the file has nothing to compare with */
        result = ftruncate(commit->fd, 0) == 0 ? 0 : -errno;
    }
    int is_clone = result == 0 && clone_newest(versions, commit);
    if (result == 0 && !slot->is_sized)
        result = reserve(versions, commit->fd, is_clone);
    if (result == 0)
        slot->is_sized = 1;
    return result;
}

/* ---- The slot's content ---- */

enum { PROGRESS_BYTES = 16 << 20 }; /* between two calls of progress */

static uint64_t count_bytes(const struct version_pages *pages)
{
    uint64_t bytes = 0;
    struct storage_range run;
    for (size_t at = 0; version_pages_next(pages, at, &run); at = run.offset + run.length)
        bytes += run.length;
    return bytes;
}

static void report_progress(const struct versions *versions, uint64_t done, uint64_t total)
{
    if (versions->part.progress)
        versions->part.progress(versions->part.context, done, total);
}

/* Writes the pages of a run that differ from the slot's, because reading costs less than writing.
 * Pages that cannot be read are written. */
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
    uint64_t done = 0, total = count_bytes(&slot->stale_pages);
    char *buffer =
        slot->must_compare ? malloc(VERSIONS_BLOCK) : NULL; /* NULL: all pages are written */
    struct storage_range run;
    int result = 0;
    report_progress(versions, 0, total);
    for (size_t at = 0; result == 0 && version_pages_next(&slot->stale_pages, at, &run);
         at = run.offset + run.length) {
        if (run.length > PROGRESS_BYTES)
            run.length = PROGRESS_BYTES;
        result = buffer ? write_different(versions, commit, run, buffer)
                        : slot_write(versions->io, commit->fd, versions->part.base + run.offset,
                                     run.length, data + run.offset);
        done += run.length;
        if (result == 0)
            report_progress(versions, done, total);
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
        version_pages_clear(&versions->slots[commit->number].stale_pages);
        versions->slots[commit->number].must_compare = 0;
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

/* A page that could not be read has become zeroes, which must not become a version: at the latest
 * when its sum was made. */
static int check_part(const struct versions *versions, struct storage_error *error)
{
    const struct versions_part *part = &versions->part;
    return part->check ? part->check(part->context, error) : 0;
}

/* Collects the dirty pages, then writes part and record to a slot, durably. Local. */
static int write_part(struct versions *versions, struct commit *commit, struct storage_error *error)
{
    int result = check_part(versions, error);
    if (result == 0)
        result = collect_dirty_pages(versions, error);
    if (result != 0)
        return result;
    sum_blocks(versions);
    commit->number = choose_slot(versions);
    result = fill_slot(versions, commit, error);
    return result != 0 ? result : check_part(versions, error);
}

/* ---- The protocol ----
 *
 *   1.  rank 0 sends the version's number and a fresh nonce
 *
 *   2.  each rank invalidates a slot, durably; writes its stale pages and the sums, durably; then
 * the record, durably (write_part)
 *
 *   3.  all agree that all succeeded
 *
 *   4.  each rank marks its slot, durably
 *
 *   5.  all agree, and return
 *
 * Why each step:
 *
 * - Invalidation first: a crash while pages are written must not leave an old record that describes
 *   half-new data.
 * - Data before the record: a device may reorder writes, so the existence of a record has to imply
 *   that of its data.
 * - The nonce: a record of the same number may be left from a commit that a crash or a failure
 *   stopped, on a disk that was offline or restored from a backup. Its data would differ.
 * - Agreement before the mark: a mark on any rank says that every part is durable. Without it
 *   a rank could overwrite the slot of the version before while another rank's part never
 *   arrives, and then no version is complete.
 * - The mark: a commit that failed on one rank leaves records on others, and the program was told
 *   that there is no such version.
 * - Agreement at the end: a rank that returned may act on the version (remove other files, say), so
 *   every rank must have its mark by then. No rank overwrites the slot of the version before while
 *   another might still need it: a slot is reused only after `kept` further versions came this far.
 *
 * Stores after the return go to the data file, and to a slot with the next commit. Slots and data
 * file never share blocks, so a store cannot run out of space. */

/* Receives rank 0's number and nonce. */
static int begin_commit(struct versions *versions, struct commit *commit,
                        struct storage_error *error)
{
    struct version_record *record = &commit->record;
    struct {
        uint64_t version;
        unsigned char nonce[VERSIONS_ID];
        int64_t time;
    } first = {versions->newest + 1, {0}, (int64_t)time(NULL)};
    int result = 0;
    if (versions->group.rank == 0 && versions->io->random(first.nonce, VERSIONS_ID) != 0)
        result = storage_fail(error, -errno, "getrandom: %s", strerror(errno));
    int reached = versions->group.broadcast(versions->group.context, &first, sizeof(first));
    *record = (struct version_record){
        .version = first.version,
        .rank = versions->group.rank,
        .ranks = versions->group.ranks,
        .offset = versions->part.offset,
        .length = versions->part.length,
        .is_in_file = (uint32_t)versions->part.is_in_file,
        .time = first.time,
    };
    memcpy(record->nonce, first.nonce, VERSIONS_ID);
    memcpy(record->job, versions->job, VERSIONS_ID);
    if (first.version > VERSIONS_NUMBER_MAX && result == 0)
        result = storage_fail(error, -EOVERFLOW,
                              "%s: there is no number after version %" PRIu64
                              ": remove the directory %s.versions to begin anew",
                              versions->path, versions->newest, versions->path);
    if (versions->failed && result == 0)
        result = storage_fail(error, versions->failed,
                              "%s: no version can be made since the device failed: open the window "
                              "again when it is in order",
                              versions->path);
    return result != 0 ? result : reached;
}

/* The content of a slot that failed is unknown, and its space is needed: it is removed. After an
 * error of the device nothing is retried: a second flush may succeed without the data that the
 * first one lost. */
static void discard_slot(struct versions *versions, const struct commit *commit, int error)
{
    struct own_slot *slot = &versions->slots[commit->number];
    char name[SLOT_NAME];
    if (error != -ENOSPC && error != -EDQUOT && error != -EFBIG && error != -ENOMEM)
        versions->failed = error;
    if (unlinkat(versions->directory, slot_name(name, versions->group.rank, commit->number), 0) !=
        0)
        return;
    slot->exists = slot->is_sized = 0;
    version_pages_fill(&slot->stale_pages);
}

static int mark_slot(struct versions *versions, const struct commit *commit,
                     struct storage_error *error)
{
    int result = slot_mark(versions->io, commit->fd, &commit->record);
    if (result == 0)
        return 0;
    versions->failed = result;
    return storage_fail(
        error, result,
        "%s.versions/rank-%u.slot-%u: version %" PRIu64
        " was written, but not marked as complete: %s: its status is unknown: open the window "
        "again to check",
        versions->path, versions->group.rank, commit->number, commit->record.version,
        strerror(-result));
}

static int finish_commit(struct versions *versions, const struct commit *commit,
                         struct storage_error *error)
{
    int result = versions_agree(versions, mark_slot(versions, commit, error));
    if (result != 0) {
        versions->failed = versions->failed ? versions->failed : result;
        return result;
    }
    versions->newest = commit->record.version;
    versions->slots[commit->number].version = commit->record.version;
    versions_remove_stale_slots(versions);
    return 0;
}

int versions_commit(struct versions *versions, struct storage_error *error)
{
    struct commit commit = {.fd = -1};
    error->text[0] = 0;
    int result = versions_agree(versions, begin_commit(versions, &commit, error));
    if (result != 0)
        return result;
    int written = write_part(versions, &commit, error);
    if (written != 0 && commit.fd >= 0)
        discard_slot(versions, &commit, written);
    result = versions_agree(versions, written);
    if (result == 0)
        result = finish_commit(versions, &commit, error);
    if (commit.fd >= 0)
        close(commit.fd);
    return result;
}
