/* cmd/windows/windows.c: onespace windows: lists, checks and repairs the versions of windows on
 * storage. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/lib/user.h"
#include "storage/versions/slots.h"

/* ---- Versions in the directories of some files ---- */

/* One rank's part of a version. */
struct windows_part {
    const char *file; /* the data file, as given */
    int directory;    /* descriptor of its versions; the same for all parts of one file */
    struct version_slot slot;
    int damage;         /* 0, or the error that reading it gave (-EUCLEAN: a sum is wrong) */
    uint64_t damage_at; /* byte of the part */
};

enum windows_state {
    WINDOWS_COMPLETE,
    WINDOWS_ELSEWHERE,  /* marked, so complete once; parts of some ranks are in none of the files */
    WINDOWS_UNFINISHED, /* its commit did not come to an end */
    WINDOWS_DAMAGED,    /* complete, and data of a part are not what was written */
};

/* A version with its parts in the files, which may belong to several windows. */
struct windows_version {
    struct windows_part *part; /* by rank */
    unsigned count, present;   /* parts; different ranks among them */
    enum windows_state state;
    uint64_t bytes, disk_bytes; /* of the parts that are here */
};

struct windows_list {
    struct windows_part *parts; /* the newest version first */
    size_t part_count;
    struct windows_version *versions;
    size_t version_count;
    int *directories; /* by file */
    int *locks;       /* by file, -1: not locked */
    unsigned files;
};

static const char *state_name(enum windows_state state)
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
    struct stat status; /* become_owner has looked at what had the name before */
    if (geteuid() == 0 && (fstat(result, &status) != 0 || status.st_uid != 0))
        return storage_fail(error, -EACCES, "%s.versions: another user's has taken its place",
                            file);
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
        if (slots.slot[i].state != VERSION_SLOT_EMPTY)
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
        is_marked |= part->slot.state == VERSION_SLOT_COMPLETE;
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

/* Reads all files. verify: reads every part of complete versions. lock: jobs cannot open the files
 * until free_list. 0, or -errno with the error's text set; the caller calls free_list in both
 * cases.
 */
static int read_files(struct windows_list *list, char **files, unsigned count, int verify, int lock,
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

static void free_list(struct windows_list *list)
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

static int change_part(const struct windows_part *part, int invalidates,
                       struct storage_error *error)
{
    const struct version_slot *slot = &part->slot;
    int fd = slot_open(part->directory, part->file, slot->rank, slot->number, O_RDWR, error);
    if (fd < 0)
        return fd;
    int result = invalidates ? slot_invalidate(&versions_io_system, fd)
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

static int change(const struct windows_version *version, int invalidates,
                  struct storage_error *error)
{
    int result = 0;
    for (unsigned i = 0; result == 0 && i < version->count; i++)
        if (invalidates || version->part[i].slot.state != VERSION_SLOT_COMPLETE)
            result = change_part(&version->part[i], invalidates, error);
    return result;
}

/* Invalidates versions that are damaged or unfinished, so that the newest good one is used, and
 * marks every part of a complete one. Reports each change on standard output. Never invalidates the
 * only complete version of a file. -errno: the error's text is set. */
static int repair_versions(struct windows_list *list, struct storage_error *error)
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
                   state_name(version->state));
    }
    return result;
}

/* ---- The command ---- */

const char windows_help[] =
    "usage: onespace windows [--verify | --repair] [--json] FILE...\n"
    "\n"
    "Lists the versions of windows on storage (onespace_window_commit), the newest first. FILE "
    "is the value of the hint storage_alloc_filename; with a file per rank, name all of them.\n"
    "\n"
    "      --verify  read all data and compare them with their checksums\n"
    "      --repair  verify, then give up damaged and unfinished versions, so that the window "
    "opens with the newest good one; no job may have the window open\n"
    "      --json  print an array of versions\n"
    "  -h, --help  print this help\n"
    "\n"
    "  STATE  complete: a window opens with the newest of these; unfinished: the commit did not "
    "complete; damaged: the data do not match their checksums (--verify); elsewhere: it was "
    "complete, but lacks parts of some ranks, which are in files that were not named, or which a "
    "later commit has begun to overwrite\n"
    "  RANKS  number of ranks whose parts are in the files, of how many\n"
    "  SIZE  size of these parts\n"
    "  DISK  size on the device; shared blocks count each time\n"
    "\n"
    "Exit status: 0; 1 if no version is complete, one is damaged, or a file cannot be read; 2 "
    "on a usage error.\n";

struct request {
    int verify, repair, as_json;
};

static void time_text(char text[32], int64_t seconds)
{
    struct tm parts;
    time_t when = (time_t)seconds;
    text[0] = 0;
    if (localtime_r(&when, &parts))
        strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts);
}

/* ---- For people ---- */

/* A file's name, which may be another user's, as a terminal may see it. Until the next call. */
static const char *clean_name(const char *file)
{
    static char text[PATH_MAX];
    snprintf(text, sizeof(text), "%s", file);
    return output_clean(text);
}

static void print_damage(const struct windows_version *version)
{
    for (unsigned i = 0; i < version->count; i++) {
        const struct windows_part *part = &version->part[i];
        if (part->damage)
            printf("version %" PRIu64 ": %s.versions/rank-%u.slot-%u: byte %" PRIu64 ": %s\n",
                   part->slot.record.version, clean_name(part->file), part->slot.rank,
                   part->slot.number, part->damage_at,
                   part->damage == -EUCLEAN ? "the data do not fit their checksum"
                                            : strerror(-part->damage));
    }
}

static void print_versions(const struct windows_list *list)
{
    static const char *const headers[] = {"VERSION", "STATE", "RANKS", "SIZE", "DISK", "MADE"};
    struct output_table table = {.headers = headers, .columns = 6, .right_aligned = 0x1d};
    char size[OUTPUT_SHORT], when[32];
    for (size_t i = 0; i < list->version_count; i++) {
        const struct windows_version *version = &list->versions[i];
        const struct version_record *record = &version->part->slot.record;
        output_cell(&table, "%" PRIu64, record->version);
        output_cell(&table, "%s", state_name(version->state));
        output_cell(&table, "%u/%u", version->present, record->ranks);
        output_cell(&table, "%s", output_bytes(size, version->bytes));
        output_cell(&table, "%s", output_bytes(size, version->disk_bytes));
        time_text(when, record->time);
        output_cell(&table, "%s", when);
    }
    output_table(&table, stdout, output_width(stdout));
    for (size_t i = 0; i < list->version_count; i++)
        print_damage(&list->versions[i]);
}

/* ---- For programs ---- */

static void write_id(struct output_json *json, const char *key,
                     const unsigned char bytes[VERSIONS_ID])
{
    char text[2 * VERSIONS_ID + 1];
    for (int i = 0; i < VERSIONS_ID; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    json_text(json, key, text);
}

static void write_part(struct output_json *json, const struct windows_part *part)
{
    char name[SLOT_NAME];
    json_open(json, NULL, '{');
    json_text(json, "file", part->file);
    json_text(json, "slot", slot_name(name, part->slot.rank, part->slot.number));
    json_integer(json, "rank", part->slot.rank);
    json_integer(json, "offset", (int64_t)part->slot.record.offset);
    json_integer(json, "bytes", (int64_t)part->slot.record.length);
    json_integer(json, "disk_bytes", (int64_t)part->slot.disk_bytes);
    json_boolean(json, "marked", part->slot.state == VERSION_SLOT_COMPLETE);
    json_text(json, "damage", part->damage ? strerror(-part->damage) : NULL);
    json_close(json, '}');
}

static void write_versions(const struct windows_list *list)
{
    struct output_json json = {.out = stdout};
    json_open(&json, NULL, '[');
    for (size_t i = 0; i < list->version_count; i++) {
        const struct windows_version *version = &list->versions[i];
        const struct version_record *record = &version->part->slot.record;
        json_open(&json, NULL, '{');
        json_integer(&json, "version", (int64_t)record->version);
        json_text(&json, "state", state_name(version->state));
        json_integer(&json, "ranks", record->ranks);
        json_integer(&json, "ranks_present", version->present);
        json_integer(&json, "bytes", (int64_t)version->bytes);
        json_integer(&json, "disk_bytes", (int64_t)version->disk_bytes);
        json_integer(&json, "made", record->time);
        write_id(&json, "job", record->job);
        write_id(&json, "nonce", record->nonce);
        json_open(&json, "parts", '[');
        for (unsigned j = 0; j < version->count; j++)
            write_part(&json, &version->part[j]);
        json_close(&json, ']');
        json_close(&json, '}');
    }
    json_close(&json, ']');
}

/* ---- */

static int status_of(const struct windows_list *list)
{
    int complete = 0, damaged = 0;
    for (size_t i = 0; i < list->version_count; i++) {
        complete |= list->versions[i].state == WINDOWS_COMPLETE;
        damaged |= list->versions[i].state == WINDOWS_DAMAGED;
    }
    return complete && !damaged ? 0 : 1;
}

static int report_error(const struct windows_list *list, struct storage_error *error)
{
    fprintf(stderr, "onespace windows: %s\n", output_clean(error->text));
    free_list((struct windows_list *)list);
    return 1;
}

static int show(char **files, unsigned count, const struct request *request)
{
    struct windows_list list;
    struct storage_error error = {""};
    if (read_files(&list, files, count, request->verify, 0, &error) != 0)
        return report_error(&list, &error);
    if (request->as_json)
        write_versions(&list);
    else if (list.version_count)
        print_versions(&list);
    if (!list.version_count)
        fprintf(stderr,
                "onespace windows: %s.versions holds no version: no commit has completed, or "
                "all were given up\n",
                clean_name(files[0]));
    int status = status_of(&list);
    free_list(&list);
    return status;
}

static int repair(char **files, unsigned count)
{
    struct windows_list list;
    struct storage_error error = {""};
    if (read_files(&list, files, count, 1, 1, &error) != 0 || repair_versions(&list, &error) != 0)
        return report_error(&list, &error);
    free_list(&list);
    return 0;
}

/* Root reads the versions of another user, which may contain anything, as that user. 0 or -1 with a
 * message. */
static int become_owner(char **files, unsigned count)
{
    struct stat owner = {0}, status;
    unsigned known = 0;
    for (unsigned i = 0; geteuid() == 0 && i < count; i++) {
        char *name = versions_directory_name(files[i]);
        int has_directory = name && stat(name, &status) == 0;
        free(name);
        if (!has_directory)
            continue; /* read_files will say so */
        if (known++ == 0)
            owner = status;
        if (status.st_uid != owner.st_uid) {
            fprintf(stderr, "onespace windows: the files are of several users: give those of one "
                            "user at a time\n");
            return -1;
        }
    }
    int error = known && owner.st_uid != 0 ? user_become(owner.st_uid, owner.st_gid) : 0;
    if (error != 0)
        fprintf(stderr,
                "onespace windows: %s.versions is of user %u, and this process cannot become that "
                "user: %s\n",
                clean_name(files[0]), (unsigned)owner.st_uid, strerror(-error));
    return error;
}

int command_windows(int argc, char **argv)
{
    static struct request request;
    static const struct command_option options[] = {{"verify", .flag = &request.verify},
                                                    {"repair", .flag = &request.repair},
                                                    {"json", .flag = &request.as_json},
                                                    {.name = NULL}};
    if (options_parse(argc, argv, options, windows_help) != 0)
        return 2;
    if (optind >= argc)
        return options_refuse(argv[0], "no file given");
    unsigned count = (unsigned)(argc - optind);
    if (become_owner(argv + optind, count) != 0)
        return 1;
    if (request.repair && repair(argv + optind, count) != 0)
        return 1;
    return show(argv + optind, count, &request);
}
