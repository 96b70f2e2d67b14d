/* src/storage/versions/restore.c: restores a window's bytes from a version, and tidies the
 * directory.
 *
 * The data file itself is never a version: the kernel writes any page of it back at any time, so
 * after a crash it holds a mixture of states. All bytes come from slots. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onespace/sync/copy.h"
#include "storage/versions/state.h"

/* Where a slot's bytes go: byte `at` of the slot to byte at + shift of the part. */
struct target {
    const struct versions_part *part;
    int64_t shift;
};

/* Equal pages are left alone: a store would dirty them, and the next flush would write them. */
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
                        int64_t shift, struct storage_error *error)
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
    int result = slot_each_block(fd, &slot->record, (uint64_t)from, (uint64_t)to, apply_block,
                                 &target, &bad);
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

static int has_own_size(const struct versions *versions, const struct version_record *record)
{
    return record->length == versions->part.length;
}

static int is_own_part(const struct versions *versions, const struct version_slot *slot)
{
    return slot->rank == versions->group.rank && slot->record.ranks == versions->group.ranks &&
           has_own_size(versions, &slot->record) &&
           (!versions->part.is_in_file || slot->record.offset == versions->part.offset);
}

/* The part equals this slot now: takes over its sums. */
static int adopt(struct versions *versions, const struct version_slot *slot,
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
    version_pages_clear(&versions->unsummed);
    if (own)
        version_pages_clear(&own->lacks);
    return 0;
}

int versions_restore(struct versions *versions, const struct version_slots *slots,
                     const struct version_choice *choice, struct storage_error *error)
{
    int result = 0;
    for (size_t i = 0; choice->record.version && i < slots->count; i++) {
        const struct version_slot *slot = &slots->slot[i];
        if (slot->state == SLOT_EMPTY || !version_is_same(&slot->record, &choice->record) ||
            !is_own_part(versions, slot))
            continue;
        result = restore_from(versions, slot, 0, error);
        return result != 0 ? result : adopt(versions, slot, error);
    }
    for (size_t i = 0; result == 0 && choice->record.version && i < slots->count; i++) {
        const struct version_slot *slot = &slots->slot[i];
        if (slot->state == SLOT_EMPTY || !version_is_same(&slot->record, &choice->record))
            continue;
        int64_t shift = (int64_t)slot->record.offset - (int64_t)versions->part.offset;
        result = restore_from(versions, slot, shift, error);
    }
    return result;
}

/* ---- Settling ---- */

/* Newer versions, and those that were given up, must not come back once the ranks reach their
 * numbers again. The choice itself may be in the kernel's memory only, when the job was killed and
 * not the machine. */
static int settle_slot(struct versions *versions, const struct version_slot *slot,
                       const struct version_record *choice, struct storage_error *error)
{
    int is_chosen = version_is_same(&slot->record, choice), result = 0;
    if (slot->state == SLOT_EMPTY || (!is_chosen && slot->record.version < choice->version))
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

static void remember(struct versions *versions, const struct version_slot *slot,
                     const struct version_record *choice)
{
    struct own_slot *own = own_slot(versions, slot);
    if (!own) {
        versions->has_leftovers = 1;
        return;
    }
    int is_valid = slot->state == SLOT_COMPLETE && slot->record.version < choice->version;
    if (slot->state != SLOT_EMPTY && version_is_same(&slot->record, choice))
        is_valid = 1;
    own->exists = own->is_unsure = 1;
    /* A commit that did not end may have left pages in the page cache that the device could not
     * take. Comparing would find those equal, so such a slot starts anew. */
    own->is_sized = is_valid && has_own_size(versions, &slot->record);
    own->version = is_valid ? slot->record.version : 0;
}

int versions_settle(struct versions *versions, const struct version_slots *slots,
                    const struct version_choice *choice, struct storage_error *error)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < slots->count; i++) {
        const struct version_slot *slot = &slots->slot[i];
        if (!versions_is_mine(versions, slot->rank))
            continue;
        result = settle_slot(versions, slot, &choice->record, error);
        remember(versions, slot, &choice->record);
    }
    if (result == 0 && versions->io->flush_directory(versions->directory) != 0)
        result = storage_fail(error, -errno, "%s.versions: %s", versions->path, strerror(errno));
    versions->newest = choice->record.version;
    return result;
}

/* ---- Leftovers ---- */

void versions_tidy(struct versions *versions)
{
    uint64_t kept = versions->slot_count - 1;
    struct version_slots slots;
    struct storage_error ignored; /* the next commit retries */
    if (!versions->has_leftovers ||
        slots_scan(versions->directory, versions->path, &slots, &ignored) != 0)
        return;
    versions->has_leftovers = 0;
    for (size_t i = 0; i < slots.count; i++) {
        const struct version_slot *slot = &slots.slot[i];
        char name[SLOT_NAME];
        if (!versions_is_mine(versions, slot->rank) || own_slot(versions, slot))
            continue;
        if (slot->state != SLOT_EMPTY && slot->record.version + kept > versions->newest)
            versions->has_leftovers = 1;
        else
            (void)unlinkat(versions->directory, slot_name(name, slot->rank, slot->number), 0);
    }
    free(slots.slot);
}
