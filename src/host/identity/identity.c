/* src/host/identity/identity.c: see identity.h. What is read and compared; assume.c changes it. */
#include "host/identity/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process.h"

enum { TEXT = 1024, IO_PROCESS = 1 /* IOPRIO_WHO_PROCESS */ };

/* What is the same in host and shim, or the shim is refused. The key is what ONESPACE_MAY_DIFFER
 * names; field: the line of the file, or NULL for the whole of it. */
static const struct item {
    const char *key, *file, *field;
} items[] = {
    {"user-ids", "status", "Uid:"},    {"group-ids", "status", "Gid:"},
    {"seccomp", "status", "Seccomp:"}, {"seccomp", "status", "Seccomp_filters:"},
    {"label", "attr/current", NULL},   {"root", "root", NULL},
    {"namespaces", "ns/user", NULL},   {"namespaces", "ns/mnt", NULL},
    {"namespaces", "ns/pid", NULL},    {"namespaces", "ns/pid_for_children", NULL},
    {"namespaces", "ns/net", NULL},    {"namespaces", "ns/ipc", NULL},
    {"namespaces", "ns/uts", NULL},    {"namespaces", "ns/cgroup", NULL},
    {"namespaces", "ns/time", NULL},   {"namespaces", "ns/time_for_children", NULL},
    {"cgroup", "cgroup", NULL},        {"oom_score_adj", "oom_score_adj", NULL},
};

static void path_of(int pid, const char *file, char path[64])
{
    if (pid)
        snprintf(path, 64, "/proc/%d/%s", pid, file);
    else
        snprintf(path, 64, "/proc/self/%s", file);
}

/* The rest of the line that begins with `field`: its length, or -errno. */
static ssize_t read_field(int pid, const char *field, char **line, size_t *room)
{
    char path[64];
    path_of(pid, "status", path);
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    ssize_t length;
    while ((length = getline(line, room, file)) >= 0)
        if (strncmp(*line, field, strlen(field)) == 0)
            break;
    fclose(file);
    if (length < 0)
        return -ESRCH;
    size_t skip = strlen(field) + strspn(*line + strlen(field), " \t");
    memmove(*line, *line + skip, (size_t)length - skip + 1);
    (*line)[strcspn(*line, "\n")] = 0;
    return (ssize_t)strlen(*line);
}

/* A link's target, or a file's content on one line. */
static ssize_t read_file(const char *path, char *text, size_t size)
{
    ssize_t length = readlink(path, text, size - 1);
    if (length < 0 && errno == EINVAL) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        length = fd < 0 ? -1 : read(fd, text, size - 1);
        if (fd >= 0)
            close(fd);
    }
    while (length > 0 && text[length - 1] == '\n')
        length--;
    for (ssize_t i = 0; i < length; i++)
        if (text[i] == '\n')
            text[i] = ' ';
    return length;
}

static void read_item(int pid, const struct item *item, char text[TEXT])
{
    char path[64], *line = NULL;
    size_t room = 0;
    ssize_t length;
    if (item->field) {
        length = read_field(pid, item->field, &line, &room);
        snprintf(text, TEXT, "%s", length < 0 ? "" : line);
        free(line);
    } else {
        path_of(pid, item->file, path);
        length = read_file(path, text, TEXT);
        text[length < 0 ? 0 : length] = 0;
    }
    if (length < 0)
        strcpy(text, "not readable");
}

/* Whether who started the host allowed it, by a list of keys with commas between. */
static int may_differ(const char *key)
{
    const char *list = getenv("ONESPACE_MAY_DIFFER");
    size_t length = strlen(key);
    for (const char *at = list; at && *at; at += strspn(at, ",")) {
        size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, key, length) == 0)
            return 1;
        at += word;
    }
    return 0;
}

static int descends_from(int ancestor, int pid)
{
    struct process_stat stat;
    for (int depth = 0; pid > 1 && depth < 64; depth++) {
        if (pid == ancestor)
            return 1;
        if (process_read(pid, &stat) != 0)
            return 0;
        pid = stat.parent;
    }
    return 0;
}

static int refuse(char *message, size_t size, const char *key, const char *mine, const char *its)
{
    snprintf(message, size,
             "the host of the space differs from this process in %s (%.200s; here: %.200s), and a "
             "task would get the host's: use another --space, start both the same way, or start "
             "the space with ONESPACE_MAY_DIFFER=%s if the task may have the host's",
             key, mine, its, key);
    return -ECONNREFUSED;
}

static int check_items(int pid, int launcher, char *message, size_t size)
{
    char mine[TEXT], its[TEXT];
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        const struct item *item = &items[i];
        read_item(0, item, mine);
        read_item(pid, item, its);
        if (strcmp(mine, its) == 0 || may_differ(item->key))
            continue;
        /* Slurm's daemon gives each rank of a step a cgroup of its own, within the step's. */
        if (strcmp(item->key, "cgroup") == 0 && launcher && descends_from(launcher, pid))
            continue;
        return refuse(message, size, item->key, mine, its);
    }
    return 0;
}

static int check_told(const struct protocol_told *mine, const struct protocol_told *its,
                      char *message, size_t size)
{
    const struct {
        const char *key;
        int mine, its;
    } told[] = {{"securebits", mine->securebits, its->securebits},
                {"keyring", mine->session_keyring, its->session_keyring}};
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        char host[16], shim[16];
        snprintf(host, sizeof(host), "%d", told[i].mine);
        snprintf(shim, sizeof(shim), "%d", told[i].its);
        if (told[i].mine != told[i].its && !may_differ(told[i].key))
            return refuse(message, size, told[i].key, host, shim);
    }
    return 0;
}

/* No task can have more than the host: that is never granted. */
static int check_privileges(const struct identity *mine, const struct identity *its, char *message,
                            size_t size)
{
    const char *what = NULL;
    for (int set = IDENTITY_PERMITTED; set <= IDENTITY_BOUNDING; set++)
        if (its->capabilities[set] & ~mine->capabilities[set])
            what = "capabilities";
    if (mine->no_new_privileges && !its->no_new_privileges)
        what = "the right to gain privileges (no_new_privs)";
    if (!what)
        return 0;
    snprintf(message, size,
             "this process has %s that the host of the space lacks, and a task would lack too: use "
             "another --space, or start the space from a process that has them",
             what);
    return -ECONNREFUSED;
}

int identity_check(int pid, const struct protocol_told *told, int launcher, char *message,
                   size_t size)
{
    struct protocol_told own;
    struct identity mine, its;
    identity_tell(&own);
    int result = identity_read(0, &own, &mine);
    if (result < 0)
        return result;
    result = pid > 0 ? identity_read(pid, told, &its) : -ESRCH;
    if (result < 0) {
        free(mine.groups);
        snprintf(message, size,
                 "the host of the space cannot see this process (%s): start both in one PID "
                 "namespace, with /proc mounted, or use another --space",
                 strerror(-result));
        return -ECONNREFUSED;
    }
    result = check_items(pid, launcher, message, size);
    if (result == 0)
        result = check_told(&own, told, message, size);
    if (result == 0)
        result = check_privileges(&mine, &its, message, size);
    free(mine.groups);
    free(its.groups);
    return result;
}

void identity_tell(struct protocol_told *told)
{
    *told = (struct protocol_told){
        .timer_slack = (uint64_t)prctl(PR_GET_TIMERSLACK),
        .personality = (uint32_t)personality(0xffffffff),
        .securebits = prctl(PR_GET_SECUREBITS),
        .session_keyring =
            (int32_t)syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0),
    };
    for (int i = 0; i < PROTOCOL_SPECULATION; i++)
        told->speculation[i] = prctl(PR_GET_SPECULATION_CTRL, i, 0, 0, 0);
}

static int read_capabilities(int pid, uint64_t sets[IDENTITY_SETS], char **line, size_t *room)
{
    static const char *const fields[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    for (int set = 0; set < IDENTITY_SETS; set++) {
        ssize_t length = read_field(pid, fields[set], line, room);
        if (length < 0)
            return (int)length;
        sets[set] = strtoull(*line, NULL, 16);
    }
    return 0;
}

static int read_groups(int pid, struct identity *identity, char **line, size_t *room)
{
    ssize_t length = read_field(pid, "Groups:", line, room);
    if (length < 0)
        return (int)length;
    identity->groups = calloc((size_t)length / 2 + 1, sizeof(gid_t)); /* "1 2 " */
    if (!identity->groups)
        return -ENOMEM;
    char *end;
    for (char *at = *line; at[strspn(at, " ")]; at = end)
        identity->groups[identity->group_count++] = (gid_t)strtoul(at, &end, 10);
    return 0;
}

int identity_read(int pid, const struct protocol_told *told, struct identity *identity)
{
    char *line = NULL;
    size_t room = 0;
    *identity = (struct identity){.told = *told};
    int result = read_capabilities(pid, identity->capabilities, &line, &room);
    ssize_t length = result < 0 ? result : read_field(pid, "NoNewPrivs:", &line, &room);
    if (length < 0)
        result = (int)length;
    if (result == 0) {
        identity->no_new_privileges = atoi(line);
        identity->io_priority = (int)syscall(SYS_ioprio_get, IO_PROCESS, pid);
        result = scheduling_get(pid, &identity->scheduling) == 0 ? 0 : -errno;
    }
    if (result == 0)
        result = read_groups(pid, identity, &line, &room);
    free(line);
    return result;
}
