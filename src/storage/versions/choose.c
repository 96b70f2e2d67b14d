/* src/storage/versions/choose.c: which version all ranks have.
 *
 * A version is complete when every rank's part of one commit (number and nonce) is durable and at
 * least one rank has marked it. The mark says that all ranks agreed: without it the commit may have
 * failed on a rank, and the program may know that. One mark suffices, since whoever set it knew
 * that every part was durable. So a crash between two ranks' marks loses nothing, and nothing that
 * was given up comes back.
 *
 * With one shared file every rank sees all slots, and the version may be of another number of
 * ranks. With a file per rank each sees its own, and the version is what all ranks see together. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "storage/versions/state.h"

/* The end of what the slots of one version cover without a gap from `at` on. Slots are sorted by
 * rank, and parts mostly in the same order: then one pass is enough. */
static uint64_t covered_from(const struct version_slots *slots, const struct version_record *record,
                             uint64_t at)
{
    for (int is_longer = 1; is_longer;) {
        is_longer = 0;
        for (size_t i = 0; i < slots->count; i++) {
            const struct version_record *other = &slots->slot[i].record;
            if (slots->slot[i].state != SLOT_EMPTY && version_is_same(other, record) &&
                other->is_in_file && other->offset <= at && at - other->offset < other->length) {
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
        if (slot->state == SLOT_EMPTY || !version_is_same(&slot->record, record) ||
            slot->rank == last)
            continue;
        last = slot->rank;
        count++;
    }
    return count;
}

static int is_own_part(const struct versions *versions, const struct version_record *record)
{
    const struct versions_part *part = &versions->part;
    return record->rank == versions->group.rank && record->ranks == versions->group.ranks &&
           record->length == part->length && (int)record->is_in_file == part->is_in_file &&
           (!part->is_in_file || record->offset == part->offset);
}

/* Whether this directory has what this rank needs to restore the version. */
static int fits(const struct versions *versions, const struct version_slots *slots,
                const struct version_record *record)
{
    const struct versions_part *part = &versions->part;
    for (size_t i = 0; i < slots->count; i++)
        if (slots->slot[i].state != SLOT_EMPTY && version_is_same(&slots->slot[i].record, record) &&
            is_own_part(versions, &slots->slot[i].record))
            return 1;
    return part->is_in_file && count_ranks(slots, record) == record->ranks &&
           (!part->length ||
            covered_from(slots, record, part->offset) >= part->offset + part->length);
}

/* Whether this rank's files still have the version: its own slot, or those of all ranks. A version
 * that is here and does not fit was made by a window of other sizes or other ranks. It must not be
 * skipped as one that the storage has lost: the opening fails. */
static int is_here(const struct versions *versions, const struct version_slots *slots,
                   const struct version_record *record)
{
    for (size_t i = 0; i < slots->count; i++)
        if (slots->slot[i].state != SLOT_EMPTY && version_is_same(&slots->slot[i].record, record) &&
            slots->slot[i].rank == versions->group.rank)
            return 1;
    return count_ranks(slots, record) == record->ranks;
}

static int is_marked(const struct version_slots *slots, const struct version_record *record)
{
    for (size_t i = 0; i < slots->count; i++)
        if (slots->slot[i].state == SLOT_COMPLETE &&
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
    int fits_more = fits(versions, slots, record) - fits(versions, slots, best);
    return fits_more ? fits_more > 0 : memcmp(record->nonce, best->nonce, VERSIONS_ID) > 0;
}

/* The newest version up to `limit` that is here. */
static struct version_choice newest_here(const struct versions *versions,
                                         const struct version_slots *slots, uint64_t limit)
{
    struct version_choice best = {0};
    for (size_t i = 0; i < slots->count; i++) {
        const struct version_record *record = &slots->slot[i].record;
        if (slots->slot[i].state != SLOT_EMPTY && record->version <= limit &&
            is_better(versions, slots, record, &best.record) && is_here(versions, slots, record))
            best.record = *record;
    }
    best.is_marked = best.record.version && is_marked(slots, &best.record);
    return best;
}

/* Whether rank 0's `choice` is here on all ranks, and one of them has its mark; and whether it fits
 * on all. */
static int all_have(const struct versions *versions, const struct version_slots *slots,
                    struct version_choice *choice, int *is_complete, int *fits_all)
{
    const struct versions_group *group = &versions->group;
    struct version_choice mine = *choice;
    int64_t all = 0, unmarked = 0, fitting = 0;
    int result = group->broadcast(group->context, &mine, sizeof(mine));
    int here = mine.record.version && is_here(versions, slots, &mine.record);
    if (result == 0)
        result = group->least(group->context, here, &all);
    if (result == 0)
        result = group->least(group->context, -is_marked(slots, &mine.record), &unmarked);
    if (result == 0)
        result =
            group->least(group->context, here && fits(versions, slots, &mine.record), &fitting);
    *is_complete = all && unmarked < 0;
    *fits_all = fitting != 0;
    *choice = mine;
    return result;
}

static int refuse(const struct versions *versions, const struct version_slots *slots, int result,
                  struct storage_error *error)
{
    const struct version_record *newest = NULL;
    for (size_t i = 0; i < slots->count; i++)
        if (slots->slot[i].state == SLOT_COMPLETE &&
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
static int refuse_misfit(const struct versions *versions, const struct version_slots *slots,
                         const struct version_record *choice, struct storage_error *error)
{
    const struct versions_part *part = &versions->part;
    const struct version_record *record = NULL;
    char covered[64] = "";
    if (fits(versions, slots, choice))
        return -EUCLEAN;
    for (size_t i = 0; i < slots->count; i++)
        if (slots->slot[i].state != SLOT_EMPTY && version_is_same(&slots->slot[i].record, choice) &&
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

/* A crash cannot lead to this: a mark says that every rank's part was durable. */
static void note_newer(const struct versions *versions, const struct version_slots *slots,
                       const struct version_choice *choice, struct storage_error *error)
{
    for (size_t i = 0; i < slots->count; i++) {
        const struct version_record *record = &slots->slot[i].record;
        if (slots->slot[i].state != SLOT_COMPLETE || record->version < choice->record.version ||
            version_is_same(record, &choice->record))
            continue;
        storage_fail(error, 0,
                     "%s.versions has a version %" PRIu64
                     " that other ranks do not have any more (a disk that comes from a backup?): "
                     "version %" PRIu64 " is taken, and that one is given up",
                     versions->path, record->version, choice->record.version);
        return;
    }
}

int versions_choose(const struct versions *versions, const struct version_slots *slots,
                    struct version_choice *choice, struct storage_error *error)
{
    const struct versions_group *group = &versions->group;
    int64_t marks = 0, limit = INT64_MAX;
    int any = 0, result = 0;
    for (size_t i = 0; i < slots->count; i++)
        any |= slots->slot[i].state == SLOT_COMPLETE;
    /* From the newest down: a rank's own newest may be newer than what all have. */
    for (;;) {
        *choice = newest_here(versions, slots, (uint64_t)limit);
        result = group->least(group->context, (int64_t)choice->record.version, &limit);
        if (result != 0 || limit == 0)
            break;
        *choice = newest_here(versions, slots, (uint64_t)limit);
        int is_complete = 0, fits_all = 0;
        result = all_have(versions, slots, choice, &is_complete, &fits_all);
        if (result == 0 && is_complete && !fits_all)
            return refuse_misfit(versions, slots, &choice->record, error);
        if (result == 0 && is_complete)
            note_newer(versions, slots, choice, error);
        if (result != 0 || is_complete)
            return result;
        limit--;
    }
    *choice = (struct version_choice){0};
    if (result == 0)
        result = group->least(group->context, -any, &marks);
    if (result != 0 || marks == 0)
        return result;
    /* A mark means that all ranks had that version, so no crash has led to this, and a new start
     * would overwrite it. */
    return refuse(versions, slots, -EUCLEAN, error);
}
