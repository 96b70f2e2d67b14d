/* src/storage/versions/open.c: opens the versions of a window and restores the newest one. */
#include "storage/versions/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onespace/sync/copy.h"

/* ---- Choosing ---- */

/* A version is complete when every rank's part of one commit (number and nonce) is durable and at
 * least one rank has marked it. The mark says that all ranks agreed: without it the commit may have
 * failed on a rank, and the program may know that. One mark suffices, because the rank that set
 * it knew that every part was durable. So a crash between two ranks' marks loses nothing. A version
 * that any rank has invalidated is never restored.
 *
 * With one shared file every rank sees all slots, and the version may be of another number of
 * ranks. With a file per rank each sees its own, and the version is what all ranks see together. */

/* Whether the slot holds a part of the version. */
static int slot_has(const struct version_slot *slot, const struct version_record *record)
{
    return slot->state != VERSION_SLOT_EMPTY && version_is_same(&slot->record, record);
}

/* The end of the bytes that the slots of one version cover without a gap from `at` on. Slots are
 * sorted by rank, and parts mostly are in the same order: then one pass is enough. */
static uint64_t covered_from(const struct version_slots *slots, const struct version_record *record,
                             uint64_t at)
{
    for (int is_longer = 1; is_longer;) {
        is_longer = 0;
        for (size_t i = 0; i < slots->count; i++) {
            const struct version_record *other = &slots->slot[i].record;
            if (slot_has(&slots->slot[i], record) && other->is_in_file && other->offset <= at &&
                at - other->offset < other->length) {
                at = other->offset + other->length;
                is_longer = 1;
            }
        }
    }
    return at;
}

/* Counts the ranks that have a slot of the version. A rank has two only when files were copied. */
static uint32_t count_ranks(const struct version_slots *slots, const struct version_record *record)
{
    uint32_t count = 0;
    int64_t last = -1;
    for (size_t i = 0; i < slots->count; i++) {
        const struct version_slot *slot = &slots->slot[i];
        if (!slot_has(slot, record) || slot->rank == last)
            continue;
        last = slot->rank;
        count++;
    }
    return count;
}

static int record_is_own_part(const struct versions *versions, const struct version_record *record)
{
    const struct versions_part *part = &versions->part;
    return record->rank == versions->group.rank && record->ranks == versions->group.ranks &&
           record->length == part->length && (int)record->is_in_file == part->is_in_file &&
           (!part->is_in_file || record->offset == part->offset);
}

/* Whether this directory has all slots that this rank needs to restore the version. */
static int can_restore(const struct versions *versions, const struct version_slots *slots,
                       const struct version_record *record)
{
    const struct versions_part *part = &versions->part;
    for (size_t i = 0; i < slots->count; i++)
        if (slot_has(&slots->slot[i], record) &&
            record_is_own_part(versions, &slots->slot[i].record))
            return 1;
    return part->is_in_file && count_ranks(slots, record) == record->ranks &&
           (!part->length ||
            covered_from(slots, record, part->offset) >= part->offset + part->length);
}

/* Whether this rank's files still have the version: its own slot, or those of all ranks. A version
 * that is there and cannot be restored was committed by a window of other sizes or other ranks. It
 * must not be skipped as one that the storage has lost: the opening fails. */
static int has_version(const struct versions *versions, const struct version_slots *slots,
                       const struct version_record *record)
{
    for (size_t i = 0; i < slots->count; i++)
        if (slot_has(&slots->slot[i], record) && slots->slot[i].rank == versions->group.rank)
            return 1;
    return count_ranks(slots, record) == record->ranks;
}

static int has_mark(const struct version_slots *slots, const struct version_record *record)
{
    for (size_t i = 0; i < slots->count; i++)
        if (slots->slot[i].state == VERSION_SLOT_COMPLETE &&
            version_is_same(&slots->slot[i].record, record))
            return 1;
    return 0;
}

/* Whether `record` is to be tried before `best`. Deterministic among commits with the same number,
 * so that every rank names the same; one that fits comes first. */
static int is_better(const struct versions *versions, const struct version_slots *slots,
                     const struct version_record *record, const struct version_record *best)
{
    if (record->version != best->version || version_is_same(record, best))
        return record->version > best->version;
    int fits_more = can_restore(versions, slots, record) - can_restore(versions, slots, best);
    return fits_more ? fits_more > 0 : memcmp(record->nonce, best->nonce, VERSIONS_ID) > 0;
}

/* The record of one slot of the newest version up to `limit` in this directory; version 0: none. */
static struct version_record find_newest(const struct versions *versions,
                                         const struct version_slots *slots, uint64_t limit)
{
    struct version_record best = {0};
    for (size_t i = 0; i < slots->count; i++) {
        const struct version_record *record = &slots->slot[i].record;
        if (slots->slot[i].state != VERSION_SLOT_EMPTY && record->version <= limit &&
            is_better(versions, slots, record, &best) && has_version(versions, slots, record))
            best = *record;
    }
    return best;
}

/* Broadcasts rank 0's choice. Sets *is_complete if all ranks have it and one has its mark, and
 * *fits_all if all can restore it. */
static int check_all_ranks(const struct versions *versions, const struct version_slots *slots,
                           struct version_record *choice, int *is_complete, int *fits_all)
{
    const struct versions_group *group = &versions->group;
    struct version_record agreed = *choice;
    int64_t all = 0, unmarked = 0, fitting = 0;
    int result = group->broadcast(group->context, &agreed, sizeof(agreed));
    int is_present = agreed.version && has_version(versions, slots, &agreed);
    if (result == 0)
        result = group->min(group->context, is_present, &all);
    if (result == 0)
        result = group->min(group->context, -has_mark(slots, &agreed), &unmarked);
    if (result == 0)
        result = group->min(group->context, is_present && can_restore(versions, slots, &agreed),
                            &fitting);
    *is_complete = all && unmarked < 0;
    *fits_all = fitting != 0;
    *choice = agreed;
    return result;
}

static int fail_no_common_version(const struct versions *versions,
                                  const struct version_slots *slots, int result,
                                  struct storage_error *error)
{
    const struct version_record *newest = NULL;
    for (size_t i = 0; i < slots->count; i++)
        if (slots->slot[i].state == VERSION_SLOT_COMPLETE &&
            (!newest || slots->slot[i].record.version > newest->version))
            newest = &slots->slot[i].record;
    if (!newest)
        return result;
    return storage_fail(
        error, result,
        "%s.versions has version %" PRIu64 " of %u ranks, of a part of %" PRIu64
        " bytes, but there is no version that all %u ranks have here with these sizes: run the job "
        "as it was (ranks, file names, sizes; one file per rank cannot change its number of "
        "ranks), look with `onespace windows`, or remove the directories to begin anew",
        versions->path, newest->version, newest->ranks, newest->length, versions->group.ranks);
}

/* The chosen version was made by another window. A rank on which it fits says nothing. */
static int fail_misfit(const struct versions *versions, const struct version_slots *slots,
                       const struct version_record *choice, struct storage_error *error)
{
    const struct versions_part *part = &versions->part;
    const struct version_record *record = NULL;
    char covered[64] = "";
    if (can_restore(versions, slots, choice))
        return -EUCLEAN;
    for (size_t i = 0; i < slots->count; i++)
        if (slot_has(&slots->slot[i], choice) &&
            (!record || slots->slot[i].rank == versions->group.rank))
            record = &slots->slot[i].record;
    if (part->is_in_file)
        snprintf(covered, sizeof(covered), " from byte %" PRIu64 " of the file on", part->offset);
    return storage_fail(
        error, -EUCLEAN,
        "%s.versions: the newest version, %" PRIu64 ", has %" PRIu64
        " bytes of rank %u of %u: it cannot fill the %zu bytes of rank %u of %u%s, and nothing was "
        "changed: run the job as it was (ranks, file names, offsets, sizes), look with `onespace "
        "windows`, or remove the directory to begin anew",
        versions->path, choice->version, record ? record->length : 0, record ? record->rank : 0,
        choice->ranks, part->length, versions->group.rank, versions->group.ranks, covered);
}

/* Reports a complete version that other ranks do not have, and that is therefore invalidated. A
 * crash does not cause this, because a mark says that every rank's part was durable. */
static void report_abandoned(const struct versions *versions, const struct version_slots *slots,
                             const struct version_record *choice, struct storage_error *error)
{
    for (size_t i = 0; i < slots->count; i++) {
        const struct version_record *record = &slots->slot[i].record;
        if (slots->slot[i].state != VERSION_SLOT_COMPLETE || record->version < choice->version ||
            version_is_same(record, choice))
            continue;
        storage_fail(error, 0,
                     "%s.versions has a version %" PRIu64
                     " that other ranks do not have any more (restored from a backup?): version "
                     "%" PRIu64 " is used, and that one is discarded",
                     versions->path, record->version, choice->version);
        return;
    }
}

/* Finds the newest version that all ranks have, the same on all. On success the error may have a
 * text, too: which complete version will be invalidated. Collective. */
static int choose_version(const struct versions *versions, const struct version_slots *slots,
                          struct version_record *choice, struct storage_error *error)
{
    const struct versions_group *group = &versions->group;
    int64_t marks = 0, limit = INT64_MAX;
    int any = 0, result = 0;
    for (size_t i = 0; i < slots->count; i++)
        any |= slots->slot[i].state == VERSION_SLOT_COMPLETE;
    /* From the newest down: a rank's own newest may be newer than what all have. */
    for (;;) {
        *choice = find_newest(versions, slots, (uint64_t)limit);
        result = group->min(group->context, (int64_t)choice->version, &limit);
        if (result != 0 || limit == 0)
            break;
        *choice = find_newest(versions, slots, (uint64_t)limit);
        int is_complete = 0, fits_all = 0;
        result = check_all_ranks(versions, slots, choice, &is_complete, &fits_all);
        if (result == 0 && is_complete && !fits_all)
            return fail_misfit(versions, slots, choice, error);
        if (result == 0 && is_complete)
            report_abandoned(versions, slots, choice, error);
        if (result != 0 || is_complete)
            return result;
        limit--;
    }
    *choice = (struct version_record){0};
    if (result == 0)
        result = group->min(group->context, -any, &marks);
    if (result != 0 || marks == 0)
        return result;
    /* A mark means that all ranks had that version, so no crash has led to this, and a new start
     * would overwrite it. */
    return fail_no_common_version(versions, slots, -EUCLEAN, error);
}

static int has_complete(const struct version_slots *slots, uint32_t rank, uint64_t version)
{
    for (size_t i = 0; i < slots->count; i++)
        if (slots->slot[i].state == VERSION_SLOT_COMPLETE && slots->slot[i].rank == rank &&
            slots->slot[i].record.version >= version)
            return 1;
    return 0;
}

/* A version of which a rank's record is damaged would be missing from the choice. Damage to an old
 * version, or to what a job of more ranks has left, changes no choice. Local. */
static int refuse_lost_version(const struct versions *versions, const struct version_slots *slots,
                               struct storage_error *error)
{
    uint64_t newest = 0;
    for (size_t i = 0; i < slots->count; i++)
        if (slots->slot[i].state == VERSION_SLOT_COMPLETE && slots->slot[i].record.version > newest)
            newest = slots->slot[i].record.version;
    for (size_t i = 0; i < slots->count; i++) {
        const struct version_slot *slot = &slots->slot[i];
        if (slot->lost_version && slot->lost_version >= newest &&
            !has_complete(slots, slot->rank, slot->lost_version))
            return storage_fail(error, -EUCLEAN,
                                "%s.versions/rank-%u.slot-%u: version %" PRIu64
                                " is damaged in its first bytes: remove that file to go back to "
                                "the version before",
                                versions->path, slot->rank, slot->number, slot->lost_version);
    }
    return 0;
}

/* ---- Restoring ---- */

/* The data file itself is never a version: the kernel writes any page of it back at any time, so
 * after a crash it holds a mixture of states. All bytes come from slots. */

/* Byte `at` of the slot is byte at + shift of the part. */
struct target {
    const struct versions_part *part;
    int64_t shift;
};

/* A slot is read twice: data of a version that is damaged elsewhere must not replace what is in the
 * data file. */
enum pass { VERIFY, APPLY };

/* Skips equal pages: a store would dirty them, and the next flush would write them. */
static int apply_block(void *context, uint64_t at, const void *data, size_t size)
{
    const struct target *target = context;
    int64_t begin = (int64_t)at + target->shift, end = begin + (int64_t)size;
    const char *from = data;
    if (begin < 0) {
        from -= begin;
        begin = 0;
    }
    if (end > (int64_t)target->part->length)
        end = (int64_t)target->part->length;
    while (begin < end) {
        size_t rest = (size_t)(end - begin), step = rest < VERSIONS_PAGE ? rest : VERSIONS_PAGE;
        if (memcmp(target->part->base + begin, from, step) != 0)
            onespace_copy(target->part->base + begin, from, step);
        begin += (int64_t)step, from += step;
    }
    return 0;
}

static int restore_from(const struct versions *versions, const struct version_slot *slot,
                        int64_t shift, enum pass pass, struct storage_error *error)
{
    struct target target = {&versions->part, shift};
    int64_t from = -shift, to = (int64_t)versions->part.length - shift;
    uint64_t bad = 0, length = slot->record.length;
    from = from < 0 ? 0 : from;
    to = to > (int64_t)length ? (int64_t)length : to;
    if (from >= to)
        return 0;
    int fd =
        slot_open(versions->directory, versions->path, slot->rank, slot->number, O_RDONLY, error);
    if (fd < 0)
        return fd;
    int result = slot_each_block(fd, &slot->record, (uint64_t)from, (uint64_t)to,
                                 pass == APPLY ? apply_block : NULL, &target, &bad);
    close(fd);
    if (result == 0)
        return 0;
    return storage_fail(error, result,
                        "%s.versions/rank-%u.slot-%u: version %" PRIu64
                        " is damaged at byte %" PRIu64 " of its part (%s): give up this version "
                        "with `onespace windows --repair`, and the one before is taken",
                        versions->path, slot->rank, slot->number, slot->record.version, bad,
                        strerror(-result));
}

static struct own_slot *own_slot(struct versions *versions, const struct version_slot *slot)
{
    int is_own = slot->rank == versions->group.rank && slot->number < versions->slot_count;
    return is_own ? &versions->slots[slot->number] : NULL;
}

/* The part equals this slot now, so the slot's sums are the part's. */
static int load_sums(struct versions *versions, const struct version_slot *slot,
                     struct storage_error *error)
{
    struct own_slot *own = own_slot(versions, slot);
    uint32_t *sums = NULL;
    int fd =
        slot_open(versions->directory, versions->path, slot->rank, slot->number, O_RDONLY, error);
    int result = fd < 0 ? fd : slot_read_sums(fd, &slot->record, &sums);
    if (fd < 0)
        return result;
    close(fd);
    if (result != 0)
        return storage_fail(error, result,
                            "%s.versions/rank-%u.slot-%u: cannot read the checksums of version "
                            "%" PRIu64 ": %s",
                            versions->path, slot->rank, slot->number, slot->record.version,
                            strerror(-result));
    free(versions->sums);
    versions->sums = sums;
    version_pages_clear(&versions->stale_sums);
    if (own)
        version_pages_clear(&own->stale_pages);
    return 0;
}

/* Restores the part to the choice, or verifies that this can be done. Local. */
static int restore_part(struct versions *versions, const struct version_slots *slots,
                        const struct version_record *choice, enum pass pass,
                        struct storage_error *error)
{
    int result = 0;
    for (size_t i = 0; choice->version && i < slots->count; i++) {
        const struct version_slot *slot = &slots->slot[i];
        if (!slot_has(slot, choice) || !record_is_own_part(versions, &slot->record))
            continue;
        result = restore_from(versions, slot, 0, pass, error);
        return result != 0 || pass == VERIFY ? result : load_sums(versions, slot, error);
    }
    for (size_t i = 0; result == 0 && choice->version && i < slots->count; i++) {
        const struct version_slot *slot = &slots->slot[i];
        if (!slot_has(slot, choice) || !slot->record.is_in_file)
            continue;
        int64_t shift = (int64_t)slot->record.offset - (int64_t)versions->part.offset;
        result = restore_from(versions, slot, shift, pass, error);
    }
    return result;
}

/* ---- Making the choice durable ---- */

/* Invalidates a newer version, because the next commits reuse its number, and another version with
 * the number of the choice. Flushes the choice: if only the job was killed, and not the machine, it
 * may exist only in the page cache. */
static int finish_slot(struct versions *versions, const struct version_slot *slot,
                       const struct version_record *choice, struct storage_error *error)
{
    int is_chosen = version_is_same(&slot->record, choice), result = 0;
    if (slot->state == VERSION_SLOT_EMPTY || (!is_chosen && slot->record.version < choice->version))
        return 0;
    int fd =
        slot_open(versions->directory, versions->path, slot->rank, slot->number, O_RDWR, error);
    if (fd < 0)
        return fd;
    if (!is_chosen)
        result = slot_invalidate(versions->io, fd);
    else if (versions->io->flush(fd) != 0)
        result = -errno;
    else
        result = slot_mark(versions->io, fd, &slot->record);
    close(fd);
    if (result == 0)
        return 0;
    return storage_fail(error, result, "%s.versions/rank-%u.slot-%u: cannot be made durable: %s",
                        versions->path, slot->rank, slot->number, strerror(-result));
}

static void record_own_slot(struct versions *versions, const struct version_slot *slot,
                            const struct version_record *choice)
{
    struct own_slot *own = own_slot(versions, slot);
    if (!own) {
        versions->has_stale_slots = 1;
        return;
    }
    int is_valid = slot_has(slot, choice) ||
                   (slot->state == VERSION_SLOT_COMPLETE && slot->record.version < choice->version);
    own->exists = own->must_compare = 1;
    /* An interrupted commit may have left cached pages whose write-back failed. They would compare
     * equal although the device lacks them, so the whole slot is written again. */
    own->is_sized = is_valid && slot->record.length == versions->part.length;
    own->version = is_valid ? slot->record.version : 0;
}

/* Makes the choice durable and complete here, and invalidates all newer versions. Local. */
static int finish_choice(struct versions *versions, const struct version_slots *slots,
                         const struct version_record *choice, struct storage_error *error)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < slots->count; i++) {
        const struct version_slot *slot = &slots->slot[i];
        if (!versions_is_responsible_for(versions, slot->rank))
            continue;
        result = finish_slot(versions, slot, choice, error);
        record_own_slot(versions, slot, choice);
    }
    if (result == 0 && versions->io->flush_directory(versions->directory) != 0)
        result = storage_fail(error, -errno, "%s.versions: %s", versions->path, strerror(errno));
    versions->newest = choice->version;
    return result;
}

/* ---- Stale slots ---- */

void versions_remove_stale_slots(struct versions *versions)
{
    uint64_t kept = versions->slot_count - 1;
    struct version_slots slots;
    struct storage_error ignored; /* the next commit retries */
    if (!versions->has_stale_slots ||
        slots_scan(versions->directory, versions->path, &slots, &ignored) != 0)
        return;
    versions->has_stale_slots = 0;
    for (size_t i = 0; i < slots.count; i++) {
        const struct version_slot *slot = &slots.slot[i];
        char name[SLOT_NAME];
        if (!versions_is_responsible_for(versions, slot->rank) || own_slot(versions, slot))
            continue;
        if (slot->state != VERSION_SLOT_EMPTY && slot->record.version + kept > versions->newest)
            versions->has_stale_slots = 1;
        else
            (void)unlinkat(versions->directory, slot_name(name, slot->rank, slot->number), 0);
    }
    free(slots.slot);
}

/* ---- Opening ---- */

/* The ranks agree after each step, so that none continues alone:
 *
 *   scan      each rank opens its directory, locks its slots, and lists them
 *   choose    the newest version that all ranks have
 *   verify    each rank reads its bytes of that version
 *   restore   each rank restores its bytes to that version
 *   finish    each rank makes the choice durable and invalidates newer ones
 *
 * Nothing on the device changes before all ranks have verified: an opening that fails (a file
 * system that is not mounted, a damaged version) leaves everything for the next one. */

int versions_agree(const struct versions *versions, int result)
{
    int64_t min = 0;
    int failure = versions->group.min(versions->group.context, result, &min);
    return failure != 0 ? failure : (int)min;
}

int versions_is_responsible_for(const struct versions *versions, uint32_t rank)
{
    return rank % versions->group.ranks == versions->group.rank;
}

static int make_slots(struct versions *versions)
{
    size_t length = versions->part.length;
    for (uint32_t i = 0; i < versions->slot_count; i++)
        if (version_pages_new(&versions->slots[i].stale_pages, length, 1) != 0)
            return -ENOMEM;
    return version_pages_new(&versions->stale_sums, length, 1);
}

static struct versions *new_versions(const struct versions_part *part,
                                     const struct versions_group *group, unsigned keep)
{
    struct versions *versions = calloc(1, sizeof(*versions));
    if (!versions)
        return NULL;
    versions->part = *part;
    versions->group = *group;
    versions->directory = versions->lock = -1;
    versions->has_reflinks = 1;
    versions->slot_count = keep + 1;
    versions->path = strdup(part->path);
    versions->slots = calloc(keep + 1, sizeof(*versions->slots));
    versions->sums = calloc(version_blocks(part->length) + 1, sizeof(*versions->sums));
    if (versions->path && versions->slots && versions->sums && make_slots(versions) == 0)
        return versions;
    versions_close(versions);
    return NULL;
}

void versions_close(struct versions *versions)
{
    if (!versions)
        return;
    for (uint32_t i = 0; versions->slots && i < versions->slot_count; i++)
        version_pages_free(&versions->slots[i].stale_pages);
    version_pages_free(&versions->stale_sums);
    if (versions->directory >= 0)
        close(versions->directory);
    if (versions->lock >= 0)
        close(versions->lock);
    free(versions->sums);
    free(versions->slots);
    free(versions->path);
    free(versions);
}

uint64_t versions_newest(const struct versions *versions)
{
    return versions->newest;
}

static int open_directory_and_scan(struct versions *versions, const struct versions_io *io,
                                   struct version_slots *slots, struct storage_error *error)
{
    versions->io = io;
    versions->mode = versions_data_mode(versions->path);
    versions->directory = versions_directory_open(versions->path, io, &versions->is_new, error);
    if (versions->directory < 0)
        return versions->directory;
    int result = versions_lock(versions->directory, versions->path, versions->group.rank, 1,
                               &versions->lock, error);
    if (result == 0)
        result = slots_scan(versions->directory, versions->path, slots, error);
    return result != 0 ? result : refuse_lost_version(versions, slots, error);
}

/* The run's UUID for its records, drawn by rank 0. */
static int draw_job_id(struct versions *versions, struct storage_error *error)
{
    int result = 0;
    if (versions->group.rank == 0 && versions->io->random(versions->job, VERSIONS_ID) != 0)
        result = storage_fail(error, -errno, "getrandom: %s", strerror(errno));
    versions->job[6] = (unsigned char)((versions->job[6] & 0x0f) | 0x40); /* a random UUID: */
    versions->job[8] = (unsigned char)((versions->job[8] & 0x3f) | 0x80); /* RFC 4122, 4.4 */
    int reached = versions->group.broadcast(versions->group.context, versions->job, VERSIONS_ID);
    return result != 0 ? result : reached;
}

/* Discards the dirty ranges so far: only later stores count. */
static int reset_dirty_ranges(struct versions *versions)
{
    struct storage_ranges ranges = {0};
    int result = versions->part.changes(versions->part.context, &ranges);
    free(ranges.range);
    return result < 0 ? result : 0;
}

static int open_all(struct versions *versions, const struct versions_io *io,
                    struct version_slots *slots, struct storage_error *error)
{
    struct version_record choice = {0};
    int result = versions_agree(versions, open_directory_and_scan(versions, io, slots, error));
    if (result == 0)
        result = versions_agree(versions, draw_job_id(versions, error));
    if (result == 0)
        result = choose_version(versions, slots, &choice, error);
    if (result == 0)
        result = versions_agree(versions, restore_part(versions, slots, &choice, VERIFY, error));
    if (result == 0)
        result = versions_agree(versions, restore_part(versions, slots, &choice, APPLY, error));
    if (result == 0)
        result = versions_agree(versions, finish_choice(versions, slots, &choice, error));
    if (result == 0)
        result = versions_agree(versions, reset_dirty_ranges(versions));
    return result;
}

int versions_open(const struct versions_part *part, const struct versions_group *group,
                  unsigned keep, const struct versions_io *io, struct versions **versions,
                  struct storage_error *error)
{
    struct versions *made = new_versions(part, group, keep);
    struct version_slots slots = {NULL, 0};
    int64_t all_made = 0;
    error->text[0] = 0;
    if (!made)
        storage_fail(error, -ENOMEM, "no memory to keep versions of %s", part->path);
    int result = group->min(group->context, made ? 0 : -ENOMEM, &all_made);
    if (result == 0)
        result = (int)all_made;
    if (result == 0)
        result = open_all(made, io ? io : &versions_io_system, &slots, error);
    free(slots.slot);
    if (result == 0) {
        *versions = made;
        return 0;
    }
    /* All ranks have opened the directory, or failed to: none needs it. */
    if (made && made->is_new)
        versions_directory_remove(made->directory, made->lock, made->path);
    versions_close(made);
    return result;
}
