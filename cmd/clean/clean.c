/* cmd/clean/clean.c: onespace clean: what killed MPI jobs of this user have left in memory and in
 * temporary directories.
 *
 * Whether a process uses a file is asked of the kernel: it grants a write lease (F_SETLEASE) only
 * if no other process has the file open or mapped, also in other containers that have the same
 * directory. */
#include "cmd/clean/clean.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/lib/array.h"
#include "cmd/lib/options.h"
#include "cmd/lib/output.h"

/* Between creating a segment and opening it a library may have it closed for a moment. */
enum { AGE_MIN_S = 60 };

struct pattern {
    const char *prefix, *kind;
};

/* Names of segments that libraries leave when their ranks are killed, seen with these versions. */
static const struct pattern segments[] = {
    {"mpich_shm_", "MPICH"},       {"mpich_shar_tmp", "MPICH"},
    {"ucx_shm_posix_", "UCX"},     {"vader_segment.", "Open MPI 4"},
    {"sm_segment.", "Open MPI 5"}, {"osc_rdma.", "Open MPI"},
    {"osc_sm.", "Open MPI"},       {"open_mpi.", "Open MPI"},
    {"Intel_MPI_", "Intel MPI"},   {"psm2_shm.", "PSM2"},
    {"psm3_shm.", "PSM3"},
};

struct list {
    struct leftover *items;
    size_t count, capacity;
    int error; /* -ENOMEM */
};

static int has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Which library makes segments of that name, or NULL. */
static const char *segment_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(segments) / sizeof(segments[0]); i++)
        if (has_prefix(name, segments[i].prefix))
            return segments[i].kind;
    return NULL;
}

static void add(struct list *list, const char *directory, const char *name, const char *kind,
                const struct stat *state, uint64_t bytes)
{
    struct leftover *more =
        array_grow(list->items, &list->capacity, list->count + 1, sizeof(*list->items));
    if (!more) {
        list->error = -ENOMEM;
        return;
    }
    list->items = more;
    struct leftover *item = &more[list->count];
    *item = (struct leftover){.kind = kind,
                              .is_directory = S_ISDIR(state->st_mode),
                              .bytes = bytes,
                              .changed = state->st_mtime};
    if (snprintf(item->path, sizeof(item->path), "%s/%s", directory, name) <
        (int)sizeof(item->path))
        list->count++;
}

static int is_recent(const struct stat *state)
{
    return time(NULL) - state->st_mtime < AGE_MIN_S;
}

/* Takes the lease of a file that no other process has open. 0 or -1. Another `onespace clean`, or a
 * doctor, has it for a moment. A process that opens the file meanwhile causes a signal, which is to
 * be one that does nothing: SIGIO, the default, ends a process. */
static int take_lease(int fd)
{
    enum { TRIES = 5, PAUSE_US = 2000 };
    if (fcntl(fd, F_SETSIG, SIGURG) != 0)
        return -1;
    for (int tries = 0; tries < TRIES; tries++) {
        if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0)
            return 0;
        if (errno != EAGAIN)
            return -1;
        usleep(PAUSE_US);
    }
    return -1;
}

/* Opens the file and takes the lease: a descriptor, or -1 if a process uses it, or it cannot be
 * told. O_NONBLOCK: it may be a FIFO by now. */
static int open_unused(int directory, const char *name, struct stat *state)
{
    int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, state) == 0 && S_ISREG(state->st_mode) && state->st_uid == geteuid() &&
        take_lease(fd) == 0)
        return fd;
    close(fd);
    return -1;
}

/* ---- Segments ---- */

static int find_segments(struct list *list)
{
    static const char directory[] = "/dev/shm";
    DIR *entries = opendir(directory);
    if (!entries)
        return -errno;
    for (struct dirent *entry; (entry = readdir(entries));) {
        const char *kind = segment_kind(entry->d_name);
        struct stat state;
        int fd = kind ? open_unused(dirfd(entries), entry->d_name, &state) : -1;
        if (fd < 0)
            continue;
        if (!is_recent(&state))
            add(list, directory, entry->d_name, kind, &state, (uint64_t)state.st_blocks * 512);
        close(fd);
    }
    closedir(entries);
    return 0;
}

/* ---- Session directories ---- */

enum { DEPTH_MAX = 16 };

/* Whether a number in the name, between dots or at its end, is the PID of a process. */
static int names_process(const char *name)
{
    for (const char *at = strchr(name, '.'); at; at = strchr(at + 1, '.')) {
        char *end;
        long pid = strtol(at + 1, &end, 10);
        if (end > at + 1 && (*end == 0 || *end == '.') && pid > 1 &&
            (kill((pid_t)pid, 0) == 0 || errno == EPERM))
            return 1;
    }
    return 0;
}

/* Opens a directory of this user to which no other user can write, or returns NULL. */
static DIR *open_own_directory(int parent, const char *name, struct stat *state)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int is_own =
        fd >= 0 && fstat(fd, state) == 0 && state->st_uid == geteuid() && !(state->st_mode & 022);
    DIR *entries = is_own ? fdopendir(fd) : NULL;
    if (fd >= 0 && !entries)
        close(fd);
    return entries;
}

/* Walks a directory tree. With `removes` removes its contents. Adds up the sizes; *top is what the
 * directory itself is. Returns whether something in it is in use, is recent, or cannot be told. */
static int walk(int parent, const char *name, int depth, int removes, uint64_t *bytes,
                struct stat *top)
{
    struct stat state;
    DIR *entries = depth < DEPTH_MAX ? open_own_directory(parent, name, top) : NULL;
    if (!entries)
        return 1;
    int fd = dirfd(entries), is_used = is_recent(top) || names_process(name);
    for (struct dirent *entry; !is_used && (entry = readdir(entries));) {
        const char *inner = entry->d_name;
        if (strcmp(inner, ".") == 0 || strcmp(inner, "..") == 0)
            continue;
        if (fstatat(fd, inner, &state, AT_SYMLINK_NOFOLLOW) != 0) {
            is_used = 1;
        } else if (S_ISDIR(state.st_mode)) {
            is_used = walk(fd, inner, depth + 1, removes, bytes, &state);
            if (!is_used && removes)
                (void)unlinkat(fd, inner, AT_REMOVEDIR);
        } else if (S_ISREG(state.st_mode)) {
            int file = open_unused(fd, inner, &state);
            is_used = file < 0 || is_recent(&state);
            *bytes += (uint64_t)state.st_blocks * 512;
            if (!is_used && removes)
                (void)unlinkat(fd, inner, 0);
            if (file >= 0)
                close(file);
        } else if (removes) { /* a socket, FIFO or link */
            (void)unlinkat(fd, inner, 0);
        }
    }
    closedir(entries);
    return is_used;
}

/* Finds session directories in an open directory, which is closed. Their names begin with `prefix`
 * and contain the PID of the job's daemon. */
static void find_sessions(struct list *list, DIR *entries, const char *directory,
                          const char *prefix, const char *kind)
{
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        struct stat state;
        uint64_t bytes = 0;
        if (has_prefix(entry->d_name, prefix) &&
            !walk(dirfd(entries), entry->d_name, 0, 0, &bytes, &state))
            add(list, directory, entry->d_name, kind, &state, bytes);
    }
    if (entries)
        closedir(entries);
}

/* prte.HOST.PID.UID is one of Open MPI 5; ompi.HOST.UID has those of Open MPI 4. Only this node's
 * are listed: if several nodes see the directory, what processes of the others use cannot be told.
 */
static void find_all_sessions(struct list *list, const char *directory)
{
    char path[PATH_MAX], host[256] = "", openmpi4[264], openmpi5[264];
    struct stat state;
    gethostname(host, sizeof(host) - 1);
    host[strcspn(host, ".")] = 0; /* of a full name, too */
    snprintf(openmpi4, sizeof(openmpi4), "ompi.%s.", host);
    snprintf(openmpi5, sizeof(openmpi5), "prte.%s.", host);
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (has_prefix(entry->d_name, openmpi4) &&
            snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name) < (int)sizeof(path))
            find_sessions(list, open_own_directory(AT_FDCWD, path, &state), path, "pid.",
                          "Open MPI 4");
    if (entries)
        rewinddir(entries);
    find_sessions(list, entries, directory, openmpi5, "Open MPI 5");
}

/* ---- All ---- */

static int by_path(const void *left, const void *right)
{
    return strcmp(((const struct leftover *)left)->path, ((const struct leftover *)right)->path);
}

long leftovers_find(struct leftover **found)
{
    struct list list = {NULL, 0, 0, 0};
    const char *temporary = getenv("TMPDIR");
    int result = find_segments(&list);
    if (result == -ENOENT)
        result = 0;
    find_all_sessions(&list, "/tmp");
    if (temporary && *temporary == '/' && strcmp(temporary, "/tmp") != 0)
        find_all_sessions(&list, temporary);
    if (result == 0)
        result = list.error;
    if (result < 0) {
        free(list.items);
        return result;
    }
    if (list.count)
        qsort(list.items, list.count, sizeof(list.items[0]), by_path);
    *found = list.items;
    return (long)list.count;
}

/* ---- The command ---- */

const char clean_help[] =
    "usage: onespace clean [OPTION...]\n"
    "\n"
    "Lists what killed MPI jobs of this user have left behind: segments in /dev/shm, and session "
    "directories of this node in TMPDIR and /tmp. Lists only files of MPICH, Open MPI, Intel MPI, "
    "UCX and PSM that no process has open or mapped and that are at least a minute old.\n"
    "\n"
    "      --remove  remove them\n"
    "      --json  print an array\n"
    "  -h, --help  print this help\n"
    "\n"
    "Exit status: 0; 1 if something cannot be listed or removed; 2 on a usage error.\n";

/* Checks again that it is unused, and removes it. Returns whether it did; else with a message. */
static int remove_leftover(const struct leftover *item)
{
    struct stat state, named;
    uint64_t bytes = 0;
    int is_removed, fd = -1;
    if (item->is_directory) {
        is_removed = !walk(AT_FDCWD, item->path, 0, 0, &bytes, &state) &&
                     !walk(AT_FDCWD, item->path, 0, 1, &bytes, &state) && rmdir(item->path) == 0;
    } else {
        fd = open_unused(AT_FDCWD, item->path, &state);
        is_removed = fd >= 0 && lstat(item->path, &named) == 0 && named.st_ino == state.st_ino &&
                     unlink(item->path) == 0;
    }
    if (fd >= 0)
        close(fd);
    if (!is_removed)
        fprintf(stderr, "onespace clean: %s: not removed: it is in use by now\n", item->path);
    return is_removed;
}

static void print_table(const struct leftover *items, long count)
{
    static const char *const headers[] = {"SIZE", "AGE", "OF", "PATH"};
    struct output_table table = {.headers = headers, .columns = 4, .right_aligned = 3};
    char text[OUTPUT_SHORT];
    for (long i = 0; i < count; i++) {
        output_cell_bytes(&table, 1, items[i].bytes);
        output_cell(&table, "%s", output_seconds(text, difftime(time(NULL), items[i].changed)));
        output_cell(&table, "%s", items[i].kind);
        output_cell(&table, "%s", items[i].path);
    }
    output_table(&table, stdout, output_width(stdout));
}

static void print_json(const struct leftover *items, long count)
{
    struct output_json json = {.out = stdout};
    json_open(&json, NULL, '[');
    for (long i = 0; i < count; i++) {
        json_open(&json, NULL, '{');
        json_text(&json, "path", items[i].path);
        json_text(&json, "of", items[i].kind);
        json_integer(&json, "bytes", (int64_t)items[i].bytes);
        json_integer(&json, "changed", (int64_t)items[i].changed);
        json_boolean(&json, "removed", items[i].is_removed);
        json_close(&json, '}');
    }
    json_close(&json, ']');
}

int command_clean(int argc, char **argv)
{
    static int removes, as_json;
    static const struct command_option options[] = {
        {"remove", .flag = &removes}, {"json", .flag = &as_json}, {.name = NULL}};
    char text[OUTPUT_SHORT];
    if (options_parse(argc, argv, options, clean_help) != 0)
        return 2;
    if (optind < argc)
        return options_refuse(argv[0], "takes no other words");
    struct leftover *items = NULL;
    long count = leftovers_find(&items);
    if (count < 0) {
        fprintf(stderr, "onespace clean: /dev/shm: %s\n", strerror((int)-count));
        return EXIT_FAILURE;
    }
    uint64_t bytes = 0;
    long done = 0;
    for (long i = 0; i < count; i++) {
        items[i].is_removed = removes && remove_leftover(&items[i]);
        done += items[i].is_removed;
        bytes += removes && !items[i].is_removed ? 0 : items[i].bytes;
    }
    if (as_json)
        print_json(items, count);
    else if (count && !removes)
        print_table(items, count);
    if (!as_json && removes)
        printf("%ld removed, %s\n", done, output_bytes(text, bytes));
    else if (!as_json && count)
        printf("%ld, %s; remove them with: onespace clean --remove\n", count,
               output_bytes(text, bytes));
    else if (!as_json)
        printf("nothing is left behind\n");
    free(items);
    return removes && done < count ? EXIT_FAILURE : 0;
}
