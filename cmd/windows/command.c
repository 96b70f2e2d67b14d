/* cmd/windows/command.c: onespace windows: lists, checks and repairs the versions of windows on
 * storage. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/lib/commands.h"
#include "cmd/lib/help.h"
#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/lib/user.h"
#include "cmd/windows/windows.h"

const char windows_help[] =
    "usage: onespace windows [--verify | --repair] [--json] FILE...\n"
    "\n"
    "Lists the versions of windows on storage (onespace_window_commit), the newest first. FILE is "
    "the value of the hint storage_alloc_filename; with a file per rank give all of them.\n"
    "\n"
    "      --verify  read all data and compare them with their checksums\n"
    "      --repair  verify; give up versions that are damaged or unfinished, so that the window "
    "opens with the newest good one. No job may have the window open.\n"
    "      --json  an array of versions, for programs\n"
    "  -h, --help\n"
    "\n"
    "  STATE  complete: a window opens with the newest of these; unfinished: the commit did not "
    "complete; damaged: the data of a rank are not what was written (with --verify); elsewhere: "
    "parts of some ranks are in none of the files given\n"
    "  RANKS  whose parts are in the files, of how many\n"
    "  SIZE  of the window; DISK: what the parts occupy, shared blocks counted each time\n"
    "\n"
    "Exit status: 0; 1 when no version is complete, one is damaged, or a file cannot be read; 2 "
    "wrong usage.\n";

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

static void print_damage(const struct windows_version *version)
{
    for (unsigned i = 0; i < version->count; i++) {
        const struct windows_part *part = &version->part[i];
        if (part->damage)
            printf("version %" PRIu64 ": %s.versions/rank-%u.slot-%u: byte %" PRIu64 ": %s\n",
                   part->slot.record.version, part->file, part->slot.rank, part->slot.number,
                   part->damage_at,
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
        output_cell(&table, "%s", windows_state_name(version->state));
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
    json_boolean(json, "marked", part->slot.state == SLOT_COMPLETE);
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
        json_text(&json, "state", windows_state_name(version->state));
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
    windows_free((struct windows_list *)list);
    return 1;
}

static int show(char **files, unsigned count, const struct request *request)
{
    struct windows_list list;
    struct storage_error error = {""};
    if (windows_read(&list, files, count, request->verify, 0, &error) != 0)
        return report_error(&list, &error);
    if (request->as_json)
        write_versions(&list);
    else if (list.version_count)
        print_versions(&list);
    if (!list.version_count)
        fprintf(stderr,
                "onespace windows: %s.versions holds no version: no commit has completed, or "
                "all were given up\n",
                files[0]);
    int status = status_of(&list);
    windows_free(&list);
    return status;
}

static int repair(char **files, unsigned count)
{
    struct windows_list list;
    struct storage_error error = {""};
    if (windows_read(&list, files, count, 1, 1, &error) != 0 || windows_repair(&list, &error) != 0)
        return report_error(&list, &error);
    windows_free(&list);
    return 0;
}

/* Root reads the versions of another user, which may contain anything, as that user. 0 or -1 with a
 * message. */
static int become_owner(char **files, unsigned count)
{
    struct stat owner, status;
    unsigned known = 0;
    for (unsigned i = 0; geteuid() == 0 && i < count; i++) {
        char *name = versions_directory_name(files[i]);
        int has_directory = name && stat(name, &status) == 0;
        free(name);
        if (!has_directory)
            continue; /* windows_read will say so */
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
                files[0], (unsigned)owner.st_uid, strerror(-error));
    return error;
}

int command_windows(int argc, char **argv)
{
    enum { OPT_VERIFY = 256, OPT_REPAIR, OPT_JSON };
    static const struct option options[] = {{"verify", no_argument, NULL, OPT_VERIFY},
                                            {"repair", no_argument, NULL, OPT_REPAIR},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct request request = {0};
    argv[0] = "onespace windows";
    for (int option; (option = options_next(argc, argv, "h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, windows_help);
            return 0;
        }
        request.verify |= option == OPT_VERIFY;
        request.repair |= option == OPT_REPAIR;
        request.as_json |= option == OPT_JSON;
        if (option == '?') {
            fprintf(stderr, "Try `onespace windows --help`.\n");
            return 2;
        }
    }
    if (optind >= argc) {
        fprintf(stderr, "onespace windows: no file given. Try `onespace windows --help`.\n");
        return 2;
    }
    unsigned count = (unsigned)(argc - optind);
    if (become_owner(argv + optind, count) != 0)
        return 1;
    if (request.repair && repair(argv + optind, count) != 0)
        return 1;
    return show(argv + optind, count, &request);
}
