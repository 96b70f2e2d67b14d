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
#include "host/proc_status.h"

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

static void read_item(int pid, const char *status, const struct item *item, char text[TEXT])
{
    ssize_t length;
    if (item->field) {
        const char *value = proc_status_field(status, item->field);
        length = value ? (ssize_t)strcspn(value, "\n") : -1;
        snprintf(text, TEXT, "%.*s", value ? (int)length : 0, value ? value : "");
    } else {
        char path[64];
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

/* What differs and may not: all the keys, so that one message is enough, and the first in full. */
struct differences {
    char keys[160];
    const char *first;
    char mine[256], its[256];
};

static void note_difference(struct differences *found, const char *key, const char *mine,
                            const char *its)
{
    size_t used = strlen(found->keys), length = strlen(key);
    for (const char *at = found->keys; (at = strstr(at, key)); at += length)
        if ((at == found->keys || at[-1] == ',') && (!at[length] || at[length] == ','))
            return;
    snprintf(found->keys + used, sizeof(found->keys) - used, "%s%s", used ? "," : "", key);
    if (found->first)
        return;
    found->first = key;
    snprintf(found->mine, sizeof(found->mine), "%.200s", mine);
    snprintf(found->its, sizeof(found->its), "%.200s", its);
}

static int refuse(const struct differences *found, char *message, size_t size)
{
    if (!found->first)
        return 0;
    snprintf(message, size,
             "the host of the space differs from this process in %s (%s; here: %s), and a "
             "task would get the host's: use another --space, start both the same way, or start "
             "the space with ONESPACE_MAY_DIFFER=%s if the task may have the host's",
             found->first, found->mine, found->its, found->keys);
    return -ECONNREFUSED;
}

static void compare_items(int pid, const char *own_status, const char *its_status, int launcher,
                          struct differences *found)
{
    char mine[TEXT], its[TEXT];
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        const struct item *item = &items[i];
        read_item(0, own_status, item, mine);
        read_item(pid, its_status, item, its);
        if (strcmp(mine, its) == 0 || may_differ(item->key))
            continue;
        /* Slurm's daemon gives each rank of a step a cgroup of its own, within the step's. */
        if (strcmp(item->key, "cgroup") == 0 && launcher && descends_from(launcher, pid))
            continue;
        note_difference(found, item->key, mine, its);
    }
}

static void compare_told(const struct protocol_told *mine, const struct protocol_told *its,
                         struct differences *found)
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
            note_difference(found, told[i].key, host, shim);
    }
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

static int read_capabilities(const char *status, uint64_t sets[IDENTITY_SETS])
{
    static const char *const fields[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    for (int set = 0; set < IDENTITY_SETS; set++) {
        const char *value = proc_status_field(status, fields[set]);
        if (!value)
            return -ESRCH;
        sets[set] = strtoull(value, NULL, 16);
    }
    return 0;
}

static int read_groups(const char *status, struct identity *identity)
{
    const char *at = proc_status_field(status, "Groups:");
    if (!at)
        return -ESRCH;
    const char *line_end = at + strcspn(at, "\n");
    identity->groups = calloc((size_t)(line_end - at) / 2 + 1, sizeof(gid_t)); /* "1 2 " */
    if (!identity->groups)
        return -ENOMEM;
    for (char *end; at + strspn(at, " ") < line_end; at = end)
        identity->groups[identity->group_count++] = (gid_t)strtoul(at, &end, 10);
    return 0;
}

/* Of process `pid`, 0 for the caller: 0 or -errno. */
static int read_identity(int pid, const char *status, const struct protocol_told *told,
                         struct identity *identity)
{
    *identity = (struct identity){.told = *told};
    const char *no_new_privileges = proc_status_field(status, "NoNewPrivs:");
    int result = no_new_privileges ? read_capabilities(status, identity->capabilities) : -ESRCH;
    if (result < 0)
        return result;
    identity->no_new_privileges = atoi(no_new_privileges);
    identity->io_priority = (int)syscall(SYS_ioprio_get, IO_PROCESS, pid);
    if (scheduling_get(pid, &identity->scheduling) != 0)
        return -errno;
    return read_groups(status, identity);
}

static int refuse_unseen(int error, char *message, size_t size)
{
    snprintf(message, size,
             "the host of the space cannot see this process (%s): start both in one PID namespace, "
             "with /proc mounted, or use another --space",
             strerror(error));
    return -ECONNREFUSED;
}

int identity_check(int pid, const struct protocol_told *told, int launcher,
                   struct identity_change *change, char *message, size_t size)
{
    struct protocol_told own;
    identity_tell(&own);
    char *own_status = proc_status_read(0), *its_status = NULL;
    int result = own_status ? read_identity(0, own_status, &own, &change->has) : -errno;
    if (result == 0) {
        its_status = pid > 0 ? proc_status_read(pid) : NULL;
        int seen = its_status ? read_identity(pid, its_status, told, &change->wants)
                              : (pid > 0 ? -errno : -ESRCH);
        if (seen < 0)
            result = refuse_unseen(-seen, message, size);
    }
    if (result == 0) {
        struct differences found = {.first = NULL};
        compare_items(pid, own_status, its_status, launcher, &found);
        compare_told(&own, told, &found);
        result = refuse(&found, message, size);
    }
    if (result == 0)
        result = check_privileges(&change->has, &change->wants, message, size);
    free(own_status);
    free(its_status);
    return result;
}
