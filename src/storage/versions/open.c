/* src/storage/versions/open.c: opens and closes the versions of a window.
 *
 * Opening takes steps between which the ranks agree, so that none goes on alone:
 *
 *   look      each rank opens its directory, locks its slots, and lists them
 *   choose    the newest version that all ranks have                    choose.c
 *   restore   each rank restores its bytes to that version              restore.c
 *   settle    each rank makes the choice durable and invalidates newer ones
 *
 * Nothing on the device changes before all ranks have restored: an opening that fails (a file
 * system that is not mounted, a damaged version) leaves everything for the next one. */
#include "storage/versions/versions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/versions/state.h"

int versions_agree(const struct versions *versions, int mine)
{
    int64_t least = 0;
    int result = versions->group.least(versions->group.context, mine, &least);
    return result != 0 ? result : (int)least;
}

int versions_is_mine(const struct versions *versions, uint32_t rank)
{
    return rank % versions->group.ranks == versions->group.rank;
}

static int make_slots(struct versions *versions)
{
    size_t length = versions->part.length;
    for (uint32_t i = 0; i < versions->slot_count; i++)
        if (version_pages_new(&versions->slots[i].lacks, length, 1) != 0)
            return -ENOMEM;
    return version_pages_new(&versions->unsummed, length, 1);
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
    versions->can_clone = 1;
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
        version_pages_free(&versions->slots[i].lacks);
    version_pages_free(&versions->unsummed);
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

static int look(struct versions *versions, const struct versions_io *io,
                struct version_slots *slots, struct storage_error *error)
{
    versions->io = io;
    versions->mode = versions_data_mode(versions->path);
    versions->directory = versions_directory_open(versions->path, io, &versions->is_new, error);
    if (versions->directory < 0)
        return versions->directory;
    int result = versions_lock(versions->directory, versions->path, versions->group.rank, 1,
                               &versions->lock, error);
    return result != 0 ? result : slots_scan(versions->directory, versions->path, slots, error);
}

/* The run's UUID for its records, drawn by rank 0. */
static int name_job(struct versions *versions, struct storage_error *error)
{
    int result = 0;
    if (versions->group.rank == 0 && versions->io->random(versions->job, VERSIONS_ID) != 0)
        result = storage_fail(error, -errno, "getrandom: %s", strerror(errno));
    versions->job[6] = (unsigned char)((versions->job[6] & 0x0f) | 0x40); /* a random UUID: */
    versions->job[8] = (unsigned char)((versions->job[8] & 0x3f) | 0x80); /* RFC 4122, 4.4 */
    int reached = versions->group.broadcast(versions->group.context, versions->job, VERSIONS_ID);
    return result != 0 ? result : reached;
}

/* Discards the changes so far: only later stores count. */
static int begin_watching(struct versions *versions)
{
    struct storage_ranges ranges = {0};
    int result = versions->part.changes(versions->part.context, &ranges);
    free(ranges.range);
    return result < 0 ? result : 0;
}

static int open_all(struct versions *versions, const struct versions_io *io,
                    struct version_slots *slots, struct storage_error *error)
{
    struct version_choice choice = {0};
    int result = versions_agree(versions, look(versions, io, slots, error));
    if (result == 0)
        result = versions_agree(versions, name_job(versions, error));
    if (result == 0)
        result = versions_choose(versions, slots, &choice, error);
    if (result == 0)
        result = versions_agree(versions, versions_restore(versions, slots, &choice, error));
    if (result == 0)
        result = versions_agree(versions, versions_settle(versions, slots, &choice, error));
    if (result == 0)
        result = versions_agree(versions, begin_watching(versions));
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
    int result = group->least(group->context, made ? 0 : -ENOMEM, &all_made);
    if (result == 0)
        result = (int)all_made;
    if (result == 0)
        result = open_all(made, io ? io : &versions_io_system, &slots, error);
    free(slots.slot);
    if (result == 0) {
        *versions = made;
        return 0;
    }
    /* All ranks have opened it, or failed to: none needs it any more. */
    if (made && made->is_new && made->directory >= 0)
        versions_directory_remove(made->directory, made->path);
    versions_close(made);
    return result;
}
