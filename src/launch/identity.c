/* src/launch/identity.c: reads and compares the attributes of host and shim; a new task assumes
 * those of its shim. */
#include "launch/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
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
#include "policy/policy.h"

/* ---- Reading ---- */

/* sched_getattr, which not every libc declares. thread 0: the caller. 0, or -1 with errno. */
static long scheduling_get(int32_t thread, struct scheduling *scheduling)
{
    memset(scheduling, 0, sizeof(*scheduling));
    scheduling->size = sizeof(*scheduling);
    return syscall(SYS_sched_getattr, thread, scheduling, sizeof(*scheduling), 0);
}

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66 /* Linux 6.3 */
#endif

#define NOT_READABLE "not readable"

enum { TEXT_MAX_BYTES = 1024, IOPRIO_WHO_PROCESS = 1, CAPABILITIES = 64 };

/* Attributes that must match, or the host refuses the shim. key: the name in ONESPACE_MAY_DIFFER.
 * field: a line of the file, or NULL for all of it. is_confinement: a shim refuses a host that
 * differs in it, too. uid_map can be read where the links in ns cannot: a process that has made
 * itself a user namespace, in which it has all capabilities, does not differ in Uid. */
static const struct attribute {
    const char *key, *file, *field;
    int is_confinement;
} attributes[] = {
    {"user-ids", "status", "Uid:", 1},    {"group-ids", "status", "Gid:", 1},
    {"seccomp", "status", "Seccomp:", 1}, {"seccomp", "status", "Seccomp_filters:", 1},
    {"label", "attr/current", NULL, 1},   {"root", "root", NULL, 1},
    {"namespaces", "ns/user", NULL, 1},   {"namespaces", "ns/mnt", NULL, 1},
    {"namespaces", "ns/pid", NULL, 1},    {"namespaces", "ns/pid_for_children", NULL, 1},
    {"namespaces", "ns/net", NULL, 1},    {"namespaces", "ns/ipc", NULL, 1},
    {"namespaces", "ns/uts", NULL, 1},    {"namespaces", "ns/cgroup", NULL, 1},
    {"namespaces", "ns/time", NULL, 1},   {"namespaces", "ns/time_for_children", NULL, 1},
    {"namespaces", "uid_map", NULL, 1},   {"namespaces", "gid_map", NULL, 1},
    {"cgroup", "cgroup", NULL, 0},        {"oom_score_adj", "oom_score_adj", NULL, 0},
    {"loginuid", "loginuid", NULL, 0},    {"sessionid", "sessionid", NULL, 0},
};

/* Reads a link's target, or a file's content as one line. */
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

static void read_attribute(int pid, const char *status, const struct attribute *attribute,
                           char text[TEXT_MAX_BYTES])
{
    ssize_t length;
    if (attribute->field) {
        const char *value = proc_status_field(status, attribute->field);
        length = value ? (ssize_t)strcspn(value, "\n") : -1;
        snprintf(text, TEXT_MAX_BYTES, "%.*s", value ? (int)length : 0, value ? value : "");
    } else {
        char path[64];
        proc_path(path, pid, attribute->file);
        length = read_file(path, text, TEXT_MAX_BYTES);
        text[length < 0 ? 0 : length] = 0;
    }
    if (length < 0)
        strcpy(text, NOT_READABLE);
}

/* Whether the machine's policy lets users allow each of these differences, separated by commas. If
 * not, *problem says why; it may be NULL with size 0. */
static int policy_permits(const char *keys, char *problem, size_t size)
{
    struct policy policy;
    char key[32];
    if (policy_read(&policy, problem, size) < 0)
        return 0;
    for (const char *at = keys; *at; at += strspn(at, ",")) {
        size_t length = strcspn(at, ",");
        snprintf(key, sizeof(key), "%.*s", (int)length, at);
        if (!policy_allows_difference(&policy, key)) {
            snprintf(problem, size, "allow_differences in %s does not permit %s", POLICY_FILE, key);
            return 0;
        }
        at += length;
    }
    return 1;
}

/* Whether the user allowed the difference, in a comma-separated list of keys. */
static int may_differ(const char *key)
{
    const char *list = getenv("ONESPACE_MAY_DIFFER");
    size_t length = strlen(key);
    for (const char *at = list; at && *at; at += strspn(at, ",")) {
        size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, key, length) == 0)
            return policy_permits(key, NULL, 0);
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

/* Attributes that differ and must not: the keys of all, so that one message is enough, and the
 * values of the first. */
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

static int refuse(const struct differences *found, const char *restarted, char *message,
                  size_t size)
{
    if (!found->first)
        return 0;
    char problem[512];
    if (!policy_permits(found->keys, problem, sizeof(problem))) {
        snprintf(message, size,
                 "the host of the space differs from this process in %s (%s; here: %s), a task "
                 "would get the host's, and %s: use another --space, or start both the same way",
                 found->first, found->host, found->shim, problem);
        return -ECONNREFUSED;
    }
    snprintf(message, size,
             "the host of the space differs from this process in %s (%s; here: %s), and a "
             "task would get the host's: use another --space, start both the same way, or start "
             "%s with ONESPACE_MAY_DIFFER=%s if the task may have the host's",
             found->first, found->host, found->shim, restarted, found->keys);
    return -ECONNREFUSED;
}

/* host, shim: their PIDs, 0 for the caller's. is_hidden: the host may be unreadable. */
static void compare_attributes(int host, const char *host_status, int shim, const char *shim_status,
                               int launcher, int is_hidden, struct differences *found)
{
    char hosts[TEXT_MAX_BYTES], shims[TEXT_MAX_BYTES];
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        const struct attribute *attribute = &attributes[i];
        read_attribute(host, host_status, attribute, hosts);
        read_attribute(shim, shim_status, attribute, shims);
        if (strcmp(hosts, shims) == 0 || may_differ(attribute->key) ||
            (is_hidden && strcmp(hosts, NOT_READABLE) == 0))
            continue;
        /* Slurm's daemon gives each rank of a step its own cgroup within that of the step. */
        if (strcmp(attribute->key, "cgroup") == 0 && launcher &&
            descends_from(launcher, shim ? shim : getpid()))
            continue;
        found->has_confinement |= attribute->is_confinement;
        note_difference(found, attribute->key, hosts, shims);
    }
}

static void compare_reports(const struct protocol_self_report *host,
                            const struct protocol_self_report *shim, struct differences *found)
{
    const struct {
        const char *key;
        int host, shim;
    } reported[] = {{"securebits", host->securebits, shim->securebits},
                    {"keyring", host->session_keyring, shim->session_keyring},
                    {"mdwe", host->mdwe, shim->mdwe}};
    for (size_t i = 0; i < sizeof(reported) / sizeof(reported[0]); i++) {
        char hosts[16], shims[16];
        snprintf(hosts, sizeof(hosts), "%d", reported[i].host);
        snprintf(shims, sizeof(shims), "%d", reported[i].shim);
        if (reported[i].host != reported[i].shim && !may_differ(reported[i].key))
            note_difference(found, reported[i].key, hosts, shims);
    }
}

static int is_root(const char *status)
{
    const char *ids = proc_status_field(status, "Uid:");
    char *end;
    return ids && (strtoul(ids, &end, 10) == 0 || strtoul(end, NULL, 10) == 0);
}

/* The kernel shows securebits to no other process. But root that has executed a program without
 * SECBIT_NOROOT has all capabilities of its bounding set, unless no_new_privs prevents it. If a
 * shim reports that it lacks that bit but has fewer capabilities, the first program that its task
 * executes would regain the others. */
static void check_securebits(const struct identity *shim, const char *status,
                             struct differences *found)
{
    uint64_t lacks =
        shim->capabilities[CAPABILITY_BOUNDING] & ~shim->capabilities[CAPABILITY_PERMITTED];
    if (!lacks || (shim->self_report.securebits & SECBIT_NOROOT) || shim->no_new_privileges ||
        !is_root(status) || may_differ("securebits"))
        return;
    note_difference(found, "securebits", "0", "SECBIT_NOROOT");
}

/* Replaces values that the shim has reported by those that the kernel shows. The other values stay
 * as reported: a process could change them itself at any time. */
static void correct_report(int pid, const char *status, struct protocol_self_report *report)
{
    static const struct {
        unsigned control;
        const char *field, *own, *off; /* own: set by the process; off: no speculation */
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
        report->speculation[shown[i].control] =
            PR_SPEC_PRCTL | (strstr(line, "force") ? PR_SPEC_FORCE_DISABLE : PR_SPEC_DISABLE);
    }
    /* The kernel shows the personality to processes that may trace the other one. */
    char *persona = proc_text_read(pid, "personality");
    if (persona)
        report->personality = (uint32_t)strtoul(persona, NULL, 16);
    free(persona);
}

/* No task can have more privileges than the host. */
static int check_privileges(const struct identity *host, const struct identity *shim, char *message,
                            size_t size)
{
    const char *missing = NULL;
    for (int set = CAPABILITY_PERMITTED; set <= CAPABILITY_BOUNDING; set++)
        if (shim->capabilities[set] & ~host->capabilities[set])
            missing = "capabilities";
    if (host->no_new_privileges && !shim->no_new_privileges)
        missing = "the right to gain privileges (no_new_privs)";
    if (!missing)
        return 0;
    snprintf(message, size,
             "this process has %s that the host of the space lacks, and a task would lack too: use "
             "another --space, or start the space from a process that has them",
             missing);
    return -ECONNREFUSED;
}

void identity_report_self(struct protocol_self_report *report)
{
    *report = (struct protocol_self_report){
        .timer_slack = (uint64_t)prctl(PR_GET_TIMERSLACK),
        .personality = (uint32_t)personality(0xffffffff),
        .securebits = prctl(PR_GET_SECUREBITS),
        .session_keyring =
            (int32_t)syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0),
    };
    report->mdwe = prctl(PR_GET_MDWE, 0, 0, 0, 0);
    for (int i = 0; i < PROTOCOL_SPECULATION; i++)
        report->speculation[i] = prctl(PR_GET_SPECULATION_CTRL, i, 0, 0, 0);
}

static int read_capabilities(const char *status, uint64_t sets[CAPABILITY_SETS])
{
    static const char *const fields[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    for (int set = 0; set < CAPABILITY_SETS; set++) {
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

/* Reads the kernel's values, not those of a request: the task must not get higher limits or other
 * CPUs. */
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

/* Reads the identity of process `pid`, 0 for the caller. 0 or -errno. */
static int read_identity(int pid, const char *status, const struct protocol_self_report *report,
                         struct identity *identity)
{
    *identity = (struct identity){.self_report = *report};
    const char *no_new_privileges = proc_status_field(status, "NoNewPrivs:");
    int result = no_new_privileges ? read_capabilities(status, identity->capabilities) : -ESRCH;
    if (result < 0)
        return result;
    identity->no_new_privileges = atoi(no_new_privileges);
    identity->io_priority = (int)syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, pid);
    if (scheduling_get(pid, &identity->scheduling) != 0)
        return -errno;
    result = pid ? read_attributes(pid, status, identity) : 0;
    return result < 0 ? result : read_groups(status, identity);
}

static int refuse_invisible(const char *reader, const char *peer, int error, char *message,
                            size_t size)
{
    snprintf(message, size,
             "%s cannot see %s (%s): start both in one PID namespace, with /proc mounted, or use "
             "another --space",
             reader, peer, strerror(error));
    return -ECONNREFUSED;
}

/* Both sides, as one of them reads them. */
struct both_sides {
    char *own_status, *peer_status;
    struct identity own, peer;
};

/* 0, or -errno; *failed_on_peer: the peer cannot be read. */
static int read_both(int pid, const struct protocol_self_report *own,
                     const struct protocol_self_report *peer_report, struct both_sides *sides,
                     int *failed_on_peer)
{
    *sides = (struct both_sides){.own_status = proc_status_read(0)};
    *failed_on_peer = 0;
    int result = sides->own_status ? read_identity(0, sides->own_status, own, &sides->own) : -errno;
    if (result < 0)
        return result;
    *failed_on_peer = 1;
    sides->peer_status = pid > 0 ? proc_status_read(pid) : NULL;
    if (!sides->peer_status)
        return pid > 0 ? -errno : -ESRCH;
    return read_identity(pid, sides->peer_status, peer_report, &sides->peer);
}

static void release(struct both_sides *sides)
{
    free(sides->own_status);
    free(sides->peer_status);
    free(sides->own.groups);
    free(sides->peer.groups);
}

int identity_check(int socket, const struct peer *peer, const struct protocol_self_report *report,
                   int launcher, struct identity_change *change, char *message, size_t size)
{
    struct protocol_self_report own;
    struct differences found = {.first = NULL};
    struct both_sides sides;
    int failed_on_peer;
    identity_report_self(&own);
    int result = read_both(peer->pid, &own, report, &sides, &failed_on_peer);
    if (result == 0) {
        compare_attributes(0, sides.own_status, peer->pid, sides.peer_status, launcher, 0, &found);
        correct_report(peer->pid, sides.peer_status, &sides.peer.self_report);
        compare_reports(&own, report, &found);
        check_securebits(&sides.peer, sides.peer_status, &found);
        /* The data are the shim's only if the PID is still its own. */
        result = peer_confirm(socket, peer);
    }
    if (result < 0 && failed_on_peer && result != -EMFILE)
        result = refuse_invisible("the host of the space", "this process", -result, message, size);
    if (result == 0)
        result = refuse(&found, "the space", message, size);
    if (result == 0)
        result = check_privileges(&sides.own, &sides.peer, message, size);
    change->has = sides.own;
    change->wants = sides.peer;
    sides.own.groups = sides.peer.groups = NULL; /* the change owns them now */
    release(&sides);
    return result;
}

int identity_check_host(int socket, const struct protocol_self_report *report, int is_hidden,
                        char *message, size_t size)
{
    struct protocol_self_report own;
    struct differences found = {.first = NULL};
    struct both_sides sides;
    struct peer peer;
    int failed_on_peer;
    if (peer_identify(socket, &peer) < 0)
        return refuse_invisible("this process", "the host of the space", EPERM, message, size);
    if (peer.pid == 0 && may_differ("namespaces"))
        return 0; /* the user trusts a host in another PID namespace */
    identity_report_self(&own);
    int result = read_both(peer.pid, &own, report, &sides, &failed_on_peer);
    if (result == 0) {
        /* /proc hides processes with more capabilities than the reader has in effect. */
        if (sides.peer.capabilities[CAPABILITY_PERMITTED] &
            ~sides.own.capabilities[CAPABILITY_EFFECTIVE])
            is_hidden = 1;
        compare_attributes(peer.pid, sides.peer_status, 0, sides.own_status, 0, is_hidden, &found);
        compare_reports(report, &own, &found);
        result = peer_confirm(socket, &peer);
    }
    if (result < 0)
        result = refuse_invisible("this process", "the host of the space", -result, message, size);
    if (result == 0 && found.has_confinement)
        result = refuse(&found, "the space and this process", message, size);
    if (result == 0)
        result = check_privileges(&sides.peer, &sides.own, message, size);
    release(&sides);
    return result;
}

/* ---- Assuming the shim's identity ----
 *
 * Runs as the new task with the thread-local storage of the host's thread, which waits. It makes
 * system calls directly, because the libc's setgroups would ask the host's other threads to follow.
 */

static long assume_scheduling(const struct identity *has, const struct identity *wants)
{
    const struct scheduling *wanted = &wants->scheduling, *present = &has->scheduling;
    uint64_t flag = SCHED_FLAG_RESET_ON_FORK;
    if (wanted->policy == present->policy && wanted->priority == present->priority &&
        (wanted->flags & flag) == (present->flags & flag))
        return 0;
    struct scheduling own;
    int is_timed = wanted->policy == SCHED_DEADLINE || present->policy == SCHED_DEADLINE;
    if (scheduling_get(0, &own) != 0)
        return -1;
    if (is_timed)
        own = *wanted; /* otherwise keep the time slice, which the host sets */
    own.policy = wanted->policy;
    own.priority = wanted->priority;
    own.nice = wanted->nice;
    own.flags = wanted->flags & flag;
    return syscall(SYS_sched_setattr, 0, &own, 0);
}

/* The nice value was set at spawn, where that was possible. */
static long check_nice(const struct identity *has, const struct identity *wants)
{
    (void)has;
    struct scheduling own;
    if (scheduling_get(0, &own) != 0 || own.nice == wants->scheduling.nice)
        return 0;
    errno = EPERM;
    return -1;
}

/* Compares with the current value: if none was set, the kernel derives it from the nice value. */
static long assume_io_priority(const struct identity *has, const struct identity *wants)
{
    (void)has;
    return syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) == wants->io_priority
               ? 0
               : syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, wants->io_priority);
}

static long assume_timer_slack(const struct identity *has, const struct identity *wants)
{
    return has->self_report.timer_slack == wants->self_report.timer_slack
               ? 0
               : syscall(SYS_prctl, PR_SET_TIMERSLACK, wants->self_report.timer_slack, 0, 0, 0);
}

static long assume_personality(const struct identity *has, const struct identity *wants)
{
    return has->self_report.personality == wants->self_report.personality ||
                   syscall(SYS_personality, wants->self_report.personality) >= 0
               ? 0
               : -1;
}

static long assume_speculation(const struct identity *has, const struct identity *wants)
{
    for (int i = 0; i < PROTOCOL_SPECULATION; i++)
        if (has->self_report.speculation[i] != wants->self_report.speculation[i] &&
            syscall(SYS_prctl, PR_SET_SPECULATION_CTRL, i,
                    wants->self_report.speculation[i] & ~PR_SPEC_PRCTL, 0, 0) != 0)
            return -1;
    return 0;
}

static long assume_groups(const struct identity *has, const struct identity *wants)
{
    size_t bytes = wants->group_count * sizeof(gid_t);
    if (has->group_count == wants->group_count && memcmp(has->groups, wants->groups, bytes) == 0)
        return 0;
    return syscall(SYS_setgroups, wants->group_count, wants->groups);
}

/* A capability that is no longer both permitted and inheritable has left the ambient set. */
static long assume_ambient(uint64_t wanted)
{
    for (unsigned i = 0; i < CAPABILITIES; i++) {
        unsigned change = wanted >> i & 1 ? PR_CAP_AMBIENT_RAISE : PR_CAP_AMBIENT_LOWER;
        long is_set = syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0);
        if (is_set >= 0 && is_set != (long)(wanted >> i & 1) &&
            syscall(SYS_prctl, PR_CAP_AMBIENT, change, i, 0, 0) != 0)
            return -1;
    }
    return 0;
}

static long assume_capabilities(const struct identity *has, const struct identity *wants)
{
    const uint64_t *sets = wants->capabilities;
    if (memcmp(has->capabilities, sets, sizeof(has->capabilities)) == 0)
        return 0;
    uint64_t excess = has->capabilities[CAPABILITY_BOUNDING] & ~sets[CAPABILITY_BOUNDING];
    for (unsigned i = 0; i < CAPABILITIES; i++)
        if (excess >> i & 1 && syscall(SYS_prctl, PR_CAPBSET_DROP, i, 0, 0, 0) != 0)
            return -1;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    for (unsigned i = 0; i < 2; i++)
        data[i] = (struct __user_cap_data_struct){
            .effective = (uint32_t)(sets[CAPABILITY_EFFECTIVE] >> 32 * i),
            .permitted = (uint32_t)(sets[CAPABILITY_PERMITTED] >> 32 * i),
            .inheritable = (uint32_t)(sets[CAPABILITY_INHERITABLE] >> 32 * i),
        };
    return syscall(SYS_capset, &header, data) != 0 ? -1 : assume_ambient(sets[CAPABILITY_AMBIENT]);
}

static long assume_no_new_privileges(const struct identity *has, const struct identity *wants)
{
    return has->no_new_privileges == wants->no_new_privileges
               ? 0
               : syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Capabilities come after all that may need them. */
static const struct {
    const char *name;
    long (*assume)(const struct identity *has, const struct identity *wants);
} steps[] = {
    {"scheduling policy", assume_scheduling},   {"nice value", check_nice},
    {"I/O priority", assume_io_priority},       {"timer slack", assume_timer_slack},
    {"personality", assume_personality},        {"speculation control", assume_speculation},
    {"supplementary groups", assume_groups},    {"capabilities", assume_capabilities},
    {"no_new_privs", assume_no_new_privileges},
};

int identity_assume(void *argument)
{
    struct identity_change *change = argument;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (steps[i].assume(&change->has, &change->wants) != 0) {
            change->failed = steps[i].name;
            return errno;
        }
    return 0;
}
