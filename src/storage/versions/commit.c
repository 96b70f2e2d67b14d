/* src/storage/versions/commit.c: makes one more version.
 *
 *   1  rank 0 sends the version's number and a fresh nonce
 *   2  each rank invalidates a slot, durably; writes the pages that it lacks and the sums, durably;
 *      then the record, durably (write.c)
 *   3  all agree that all succeeded
 *   4  each rank marks its slot, durably
 *   5  all agree, and return
 *
 * Why each step:
 *
 * - Invalidation first: a crash while pages are written must not leave an old record that describes
 *   half-new data.
 * - Data before the record: a device may reorder writes, so the existence of a record has to imply
 *   that of its data.
 * - The nonce: a record of the same number may be left from a commit that a crash or a failure
 *   stopped, on a disk that was offline or restored from a backup. Its data would be others.
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
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "storage/versions/state.h"

/* Receives rank 0's number and nonce. */
static int begin(struct versions *versions, struct commit *commit, struct storage_error *error)
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
static void give_up_slot(struct versions *versions, const struct commit *commit, int error)
{
    struct own_slot *slot = &versions->slots[commit->number];
    char name[SLOT_NAME];
    if (error != -ENOSPC && error != -EDQUOT && error != -EFBIG && error != -ENOMEM)
        versions->failed = error;
    if (unlinkat(versions->directory, slot_name(name, versions->group.rank, commit->number), 0) !=
        0)
        return;
    slot->exists = slot->is_sized = 0;
    version_pages_fill(&slot->lacks);
}

static int mark(struct versions *versions, const struct commit *commit, struct storage_error *error)
{
    int result = slot_mark(versions->io, commit->fd, &commit->record);
    if (result == 0)
        return 0;
    versions->failed = result;
    return storage_fail(error, result,
                        "%s.versions/rank-%u.slot-%u: version %" PRIu64
                        " was made, but not marked: %s: whether it is there, opening the window "
                        "again tells",
                        versions->path, versions->group.rank, commit->number,
                        commit->record.version, strerror(-result));
}

static int finish(struct versions *versions, const struct commit *commit,
                  struct storage_error *error)
{
    int result = versions_agree(versions, mark(versions, commit, error));
    if (result != 0) {
        versions->failed = versions->failed ? versions->failed : result;
        return result;
    }
    versions->newest = commit->record.version;
    versions->slots[commit->number].version = commit->record.version;
    versions_tidy(versions);
    return 0;
}

int versions_commit(struct versions *versions, struct storage_error *error)
{
    struct commit commit = {.fd = -1};
    error->text[0] = 0;
    int result = versions_agree(versions, begin(versions, &commit, error));
    if (result != 0)
        return result;
    int mine = versions_write(versions, &commit, error);
    if (mine != 0 && commit.fd >= 0)
        give_up_slot(versions, &commit, mine);
    result = versions_agree(versions, mine);
    if (result == 0)
        result = finish(versions, &commit, error);
    if (commit.fd >= 0)
        close(commit.fd);
    return result;
}
