/* cmd/windows/read.c: finds, checks and repairs the versions of windows on storage. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/windows/windows.h"

const char *windows_state_name(enum windows_state state)
{
    static const char *const names[] = {"complete", "elsewhere", "unfinished", "damaged"};
    return names[state];
}

/* ---- Reading ---- */

static int open_directory(struct windows_list *list, unsigned index, const char *file, int lock,
                          struct storage_error *error)
{
    const char *refusal;
    int result = versions_directory_find(file, &refusal);
    if (refusal)
        return storage_fail(error, result, "%s.versions: %s", file, refusal);
    if (result < 0)
        return storage_fail(error, result, "%s.versions: %s: %s", file, strerror(-result),
                            result == -EACCES
                                ? "run it as the user whose job made them"
                                : "give the data files of windows with versions, the value of "
                                  "their hint storage_alloc_filename");
    list->directories[index] = result;
    return lock ? versions_lock(list->directories[index], file, 0, 0, &list->locks[index], error)
                : 0;
}

static int add_parts(struct windows_list *list, unsigned index, const char *file,
                     struct storage_error *error)
{
    struct version_slots slots;
    int result = slots_scan(list->directories[index], file, &slots, error);
    if (result != 0)
        return result;
    struct windows_part *more =
        realloc(list->parts, (list->part_count + slots.count + 1) * sizeof(*more));
    if (!more)
        result = storage_fail(error, -ENOMEM, "out of memory");
    else
        list->parts = more;
    for (size_t i = 0; more && i < slots.count; i++)
        if (slots.slot[i].state != SLOT_EMPTY)
            list->parts[list->part_count++] =
                (struct windows_part){file, list->directories[index], slots.slot[i], 0, 0};
    free(slots.slot);
    return result;
}

static int by_version(const void *left, const void *right)
{
    const struct version_record *a = &((const struct windows_part *)left)->slot.record;
    const struct version_record *b = &((const struct windows_part *)right)->slot.record;
    if (a->version != b->version)
        return a->version > b->version ? -1 : 1;
    if (a->ranks != b->ranks)
        return a->ranks < b->ranks ? -1 : 1;
    int nonce = memcmp(a->nonce, b->nonce, VERSIONS_ID);
    return nonce ? nonce : (a->rank > b->rank) - (a->rank < b->rank);
}

static void set_state(struct windows_version *version)
{
    int is_marked = 0, is_damaged = 0;
    for (unsigned i = 0; i < version->count; i++) {
        const struct windows_part *part = &version->part[i];
        version->present += i == 0 || part->slot.rank != part[-1].slot.rank;
        version->bytes += part->slot.record.length;
        version->disk_bytes += part->slot.disk_bytes;
        is_marked |= part->slot.state == SLOT_COMPLETE;
        is_damaged |= part->damage != 0;
    }
    version->state = !is_marked                                            ? WINDOWS_UNFINISHED
                     : is_damaged                                          ? WINDOWS_DAMAGED
                     : version->present < version->part->slot.record.ranks ? WINDOWS_ELSEWHERE
                                                                           : WINDOWS_COMPLETE;
}

static int group(struct windows_list *list, struct storage_error *error)
{
    if (list->part_count)
        qsort(list->parts, list->part_count, sizeof(*list->parts), by_version);
    list->versions = calloc(list->part_count + 1, sizeof(*list->versions));
    if (!list->versions)
        return storage_fail(error, -ENOMEM, "out of memory");
    for (size_t i = 0; i < list->part_count; i++) {
        struct windows_part *part = &list->parts[i];
        if (i == 0 || !version_is_same(&part->slot.record, &part[-1].slot.record))
            list->versions[list->version_count++].part = part;
        list->versions[list->version_count - 1].count++;
    }
    return 0;
}

static void verify_part(struct windows_part *part)
{
    struct storage_error ignored;
    const struct version_slot *slot = &part->slot;
    int fd = slot_open(part->directory, part->file, slot->rank, slot->number, O_RDONLY, &ignored);
    part->damage = fd < 0 ? fd
                          : slot_each_block(fd, &slot->record, 0, slot->record.length, NULL, NULL,
                                            &part->damage_at);
    if (fd >= 0)
        close(fd);
}

int windows_read(struct windows_list *list, char **files, unsigned count, int verify, int lock,
                 struct storage_error *error)
{
    *list = (struct windows_list){.files = count};
    list->directories = malloc(count * sizeof(int));
    list->locks = malloc(count * sizeof(int));
    if (!list->directories || !list->locks)
        return storage_fail(error, -ENOMEM, "out of memory");
    for (unsigned i = 0; i < count; i++)
        list->directories[i] = list->locks[i] = -1;
    int result = 0;
    for (unsigned i = 0; result == 0 && i < count; i++) {
        result = open_directory(list, i, files[i], lock, error);
        if (result == 0)
            result = add_parts(list, i, files[i], error);
    }
    if (result == 0)
        result = group(list, error);
    for (size_t i = 0; result == 0 && verify && i < list->part_count; i++)
        verify_part(&list->parts[i]);
    for (size_t i = 0; result == 0 && i < list->version_count; i++)
        set_state(&list->versions[i]);
    return result;
}

void windows_free(struct windows_list *list)
{
    for (unsigned i = 0; list->directories && list->locks && i < list->files; i++) {
        if (list->directories[i] >= 0)
            close(list->directories[i]);
        if (list->locks[i] >= 0)
            close(list->locks[i]);
    }
    free(list->directories);
    free(list->locks);
    free(list->versions);
    free(list->parts);
}

/* ---- Repair ---- */

static int change_part(const struct windows_part *part, int gives_up, struct storage_error *error)
{
    const struct version_slot *slot = &part->slot;
    int fd = slot_open(part->directory, part->file, slot->rank, slot->number, O_RDWR, error);
    if (fd < 0)
        return fd;
    int result = gives_up ? slot_invalidate(&versions_io_system, fd)
                          : slot_mark(&versions_io_system, fd, &slot->record);
    close(fd);
    if (result == 0)
        return 0;
    return storage_fail(error, result, "%s.versions/rank-%u.slot-%u: cannot be made durable: %s",
                        part->file, slot->rank, slot->number, strerror(-result));
}

static int has_file(const struct windows_version *version, const char *file)
{
    for (unsigned i = 0; i < version->count; i++)
        if (strcmp(version->part[i].file, file) == 0)
            return 1;
    return 0;
}

/* Whether something remains to restart from for every file that a damaged version has. */
static int has_another(const struct windows_list *list, const struct windows_version *version)
{
    for (unsigned i = 0; i < version->count; i++) {
        int found = 0;
        for (size_t j = 0; j < list->version_count && !found; j++)
            found = list->versions[j].state <= WINDOWS_ELSEWHERE &&
                    has_file(&list->versions[j], version->part[i].file);
        if (!found)
            return 0;
    }
    return 1;
}

static int change(const struct windows_version *version, int gives_up, struct storage_error *error)
{
    int result = 0;
    for (unsigned i = 0; result == 0 && i < version->count; i++)
        if (gives_up || version->part[i].slot.state != SLOT_COMPLETE)
            result = change_part(&version->part[i], gives_up, error);
    return result;
}

int windows_repair(struct windows_list *list, struct storage_error *error)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < list->version_count; i++) {
        const struct windows_version *version = &list->versions[i];
        const struct version_record *record = &version->part->slot.record;
        if (version->state == WINDOWS_COMPLETE || version->state == WINDOWS_ELSEWHERE) {
            result = version->state == WINDOWS_COMPLETE ? change(version, 0, error) : 0;
            continue;
        }
        if (version->state == WINDOWS_DAMAGED && !has_another(list, version))
            return storage_fail(error, -EUCLEAN,
                                "%s: version %" PRIu64
                                " is damaged, and there is no other to go back to: it stays; "
                                "save what can be saved, then remove %s.versions to begin anew",
                                version->part->file, record->version, version->part->file);
        result = change(version, 1, error);
        if (result == 0)
            printf("version %" PRIu64 " was %s: given up\n", record->version,
                   windows_state_name(version->state));
    }
    return result;
}
