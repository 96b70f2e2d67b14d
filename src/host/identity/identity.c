/* src/host/identity/identity.c: see identity.h. What is read and compared; assume.c changes it. */
#include "host/identity/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc.h"
#include "host/proc_status.h"

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66 /* Linux 6.3 */
#endif

#define NOT_READABLE "not readable"

enum { TEXT = 1024, IO_PROCESS = 1 /* IOPRIO_WHO_PROCESS */ };

/* Attributes that must match, or the shim is refused. The key is what ONESPACE_MAY_DIFFER names;
 * field: the line of the file, or NULL for the whole of it. is_confinement: a shim refuses a host
 * that differs in it, too. */
static const struct item {
    const char *key, *file, *field;
    int is_confinement;
} items[] = {
    {"user-ids", "status", "Uid:", 1},    {"group-ids", "status", "Gid:", 1},
    {"seccomp", "status", "Seccomp:", 1}, {"seccomp", "status", "Seccomp_filters:", 1},
    {"label", "attr/current", NULL, 1},   {"root", "root", NULL, 1},
    {"namespaces", "ns/user", NULL, 1},   {"namespaces", "ns/mnt", NULL, 1},
    {"namespaces", "ns/pid", NULL, 1},    {"namespaces", "ns/pid_for_children", NULL, 1},
    {"namespaces", "ns/net", NULL, 1},    {"namespaces", "ns/ipc", NULL, 1},
    {"namespaces", "ns/uts", NULL, 1},    {"namespaces", "ns/cgroup", NULL, 1},
    {"namespaces", "ns/time", NULL, 1},   {"namespaces", "ns/time_for_children", NULL, 1},
    {"cgroup", "cgroup", NULL, 0},        {"oom_score_adj", "oom_score_adj", NULL, 0},
    {"loginuid", "loginuid", NULL, 0},    {"sessionid", "sessionid", NULL, 0},
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
        strcpy(text, NOT_READABLE);
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
    struct proc_stat stat;
    for (int depth = 0; pid > 1 && depth < 64; depth++) {
        if (pid == ancestor)
            return 1;
        if (proc_read_stat(pid, &stat) != 0)
            return 0;
        pid = stat.parent;
    }
    return 0;
}

/* What differs and may not: all the keys, so that one message is enough, and the first in full. */
struct differences {
    char keys[160];
    int has_confinement;
    const char *first;
    char host[256], shim[256];
};

static void note_difference(struct differences *found, const char *key, const char *host,
                            const char *shim)
{
    size_t used = strlen(found->keys), length = strlen(key);
    for (const char *at = found->keys; (at = strstr(at, key)); at += length)
        if ((at == found->keys || at[-1] == ',') && (!at[length] || at[length] == ','))
            return;
    snprintf(found->keys + used, sizeof(found->keys) - used, "%s%s", used ? "," : "", key);
    if (found->first)
        return;
    found->first = key;
    snprintf(found->host, sizeof(found->host), "%.200s", host);
    snprintf(found->shim, sizeof(found->shim), "%.200s", shim);
}

static int refuse(const struct differences *found, const char *who, char *message, size_t size)
{
    if (!found->first)
        return 0;
    snprintf(message, size,
             "the host of the space differs from this process in %s (%s; here: %s), and a "
             "task would get the host's: use another --space, start both the same way, or start "
             "%s with ONESPACE_MAY_DIFFER=%s if the task may have the host's",
             found->first, found->host, found->shim, who, found->keys);
    return -ECONNREFUSED;
}

/* host, shim: their PIDs, 0 for the caller's. is_hidden: the host may be unreadable. */
static void compare_items(int host, const char *host_status, int shim, const char *shim_status,
                          int launcher, int is_hidden, struct differences *found)
{
    char mine[TEXT], its[TEXT];
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        const struct item *item = &items[i];
        read_item(host, host_status, item, mine);
        read_item(shim, shim_status, item, its);
        if (strcmp(mine, its) == 0 || may_differ(item->key) ||
            (is_hidden && strcmp(mine, NOT_READABLE) == 0))
            continue;
        /* Slurm's daemon gives each rank of a step a cgroup of its own, within the step's. */
        if (strcmp(item->key, "cgroup") == 0 && launcher &&
            descends_from(launcher, shim ? shim : getpid()))
            continue;
        found->has_confinement |= item->is_confinement;
        note_difference(found, item->key, mine, its);
    }
}

static void compare_told(const struct protocol_told *host, const struct protocol_told *shim,
                         struct differences *found)
{
    const struct {
        const char *key;
        int host, shim;
    } told[] = {{"securebits", host->securebits, shim->securebits},
                {"keyring", host->session_keyring, shim->session_keyring},
                {"mdwe", host->mdwe, shim->mdwe}};
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        char hosts[16], shims[16];
        snprintf(hosts, sizeof(hosts), "%d", told[i].host);
        snprintf(shims, sizeof(shims), "%d", told[i].shim);
        if (told[i].host != told[i].shim && !may_differ(told[i].key))
            note_difference(found, told[i].key, hosts, shims);
    }
}

static int is_root(const char *status)
{
    const char *ids = proc_status_field(status, "Uid:");
    char *end;
    return ids && (strtoul(ids, &end, 10) == 0 || strtoul(end, NULL, 10) == 0);
}

/* The kernel shows securebits to no other process. But root that has executed a program without
 * SECBIT_NOROOT has all capabilities of its bounding set, unless no_new_privs kept it from them. A
 * shim that says that it has no such bit, and has fewer, would get the rest back in the first
 * program that its task executes. */
static void check_securebits(const struct identity *shim, const char *status,
                             struct differences *found)
{
    uint64_t lacks =
        shim->capabilities[IDENTITY_BOUNDING] & ~shim->capabilities[IDENTITY_PERMITTED];
    if (!lacks || (shim->told.securebits & SECBIT_NOROOT) || shim->no_new_privileges ||
        !is_root(status) || may_differ("securebits"))
        return;
    note_difference(found, "securebits", "0", "SECBIT_NOROOT");
}

/* Replaces values that the shim has told by those that the kernel shows. A process can choose the
 * others for itself at any time. */
static void correct_told(int pid, const char *status, struct protocol_told *told)
{
    static const struct {
        unsigned control;
        const char *field, *own, *off; /* own: the process has set it; off: not to be speculated */
    } shown[] = {
        {PR_SPEC_STORE_BYPASS, "Speculation_Store_Bypass:", "thread", "mitigated"},
        {PR_SPEC_INDIRECT_BRANCH, "SpeculationIndirectBranch:", "conditional", "disabled"},
    };
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        const char *value = proc_status_field(status, shown[i].field);
        char line[64];
        snprintf(line, sizeof(line), "%.*s", value ? (int)strcspn(value, "\n") : 0,
                 value ? value : "");
        if (strncmp(line, shown[i].own, strlen(shown[i].own)) != 0 || !strstr(line, shown[i].off))
            continue;
        told->speculation[shown[i].control] =
            PR_SPEC_PRCTL | (strstr(line, "force") ? PR_SPEC_FORCE_DISABLE : PR_SPEC_DISABLE);
    }
    /* The kernel shows this to processes that may trace the other one. */
    char *persona = proc_text_read(pid, "personality");
    if (persona)
        told->personality = (uint32_t)strtoul(persona, NULL, 16);
    free(persona);
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
    told->mdwe = prctl(PR_GET_MDWE, 0, 0, 0, 0);
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

/* The kernel's values, not those of a request: the task must not get larger limits or other CPUs.
 */
static int read_attributes(int pid, const char *status, struct identity *identity)
{
    enum { LIMITS = sizeof(identity->limits) / sizeof(identity->limits[0]) };
    char *text = proc_text_read(pid, "limits");
    const char *mask = proc_status_field(status, "Umask:");
    int result = !text || !mask ? -ESRCH : proc_limits_parse(text, identity->limits, LIMITS);
    free(text);
    if (result < 0)
        return result;
    identity->umask = (int)strtol(mask, NULL, 8);
    errno = 0;
    identity->nice = getpriority(PRIO_PROCESS, (id_t)pid);
    long size = syscall(SYS_sched_getaffinity, pid, sizeof(identity->cpus), identity->cpus);
    if (errno || size < 0)
        return -errno;
    identity->cpus_size = (unsigned)size;
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
    result = pid ? read_attributes(pid, status, identity) : 0;
    return result < 0 ? result : read_groups(status, identity);
}

static int refuse_unseen(const char *who, const char *whom, int error, char *message, size_t size)
{
    snprintf(message, size,
             "%s cannot see %s (%s): start both in one PID namespace, with /proc mounted, or use "
             "another --space",
             who, whom, strerror(error));
    return -ECONNREFUSED;
}

/* Attributes that one side reads of itself and of the other. */
struct view {
    char *own_status, *its_status;
    struct identity own, its;
};

/* 0, or -errno: `*is_its` tells whether the other process cannot be seen. */
static int look(int pid, const struct protocol_told *own, const struct protocol_told *its,
                struct view *view, int *is_its)
{
    *view = (struct view){.own_status = proc_status_read(0)};
    *is_its = 0;
    int result = view->own_status ? read_identity(0, view->own_status, own, &view->own) : -errno;
    if (result < 0)
        return result;
    *is_its = 1;
    view->its_status = pid > 0 ? proc_status_read(pid) : NULL;
    if (!view->its_status)
        return pid > 0 ? -errno : -ESRCH;
    return read_identity(pid, view->its_status, its, &view->its);
}

static void release(struct view *view)
{
    free(view->own_status);
    free(view->its_status);
    free(view->own.groups);
    free(view->its.groups);
}

int identity_check(int socket, const struct peer *peer, const struct protocol_told *told,
                   int launcher, struct identity_change *change, char *message, size_t size)
{
    struct protocol_told own;
    struct differences found = {.first = NULL};
    struct view view;
    int is_its;
    identity_tell(&own);
    int result = look(peer->pid, &own, told, &view, &is_its);
    if (result == 0) {
        compare_items(0, view.own_status, peer->pid, view.its_status, launcher, 0, &found);
        correct_told(peer->pid, view.its_status, &view.its.told);
        compare_told(&own, told, &found);
        check_securebits(&view.its, view.its_status, &found);
        /* Only now: all that was read is the shim's if the PID is still its own. */
        result = peer_confirm(socket, peer);
    }
    if (result < 0 && is_its && result != -EMFILE)
        result = refuse_unseen("the host of the space", "this process", -result, message, size);
    if (result == 0)
        result = refuse(&found, "the space", message, size);
    if (result == 0)
        result = check_privileges(&view.own, &view.its, message, size);
    change->has = view.own;
    change->wants = view.its;
    view.own.groups = view.its.groups = NULL; /* the change's */
    release(&view);
    return result;
}

int identity_check_host(int socket, const struct protocol_told *told, int is_hidden, char *message,
                        size_t size)
{
    struct protocol_told own;
    struct differences found = {.first = NULL};
    struct view view;
    struct peer peer;
    int is_its;
    if (peer_note(socket, &peer) < 0)
        return refuse_unseen("this process", "the host of the space", EPERM, message, size);
    if (peer.pid == 0 && may_differ("namespaces"))
        return 0; /* it is in another PID namespace, and is trusted as it is */
    identity_tell(&own);
    int result = look(peer.pid, &own, told, &view, &is_its);
    if (result == 0) {
        /* /proc hides from a process those with more capabilities than it has in effect. */
        if (view.its.capabilities[IDENTITY_PERMITTED] & ~view.own.capabilities[IDENTITY_EFFECTIVE])
            is_hidden = 1;
        compare_items(peer.pid, view.its_status, 0, view.own_status, 0, is_hidden, &found);
        compare_told(told, &own, &found);
        result = peer_confirm(socket, &peer);
    }
    if (result < 0)
        result = refuse_unseen("this process", "the host of the space", -result, message, size);
    if (result == 0 && found.has_confinement)
        result = refuse(&found, "the space and this process", message, size);
    if (result == 0)
        result = check_privileges(&view.its, &view.own, message, size);
    release(&view);
    return result;
}
