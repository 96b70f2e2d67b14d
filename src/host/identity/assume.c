/* src/host/identity/assume.c: a task takes on the identity of its shim. Runs as the new task, with
 * the thread-local storage of the host's thread, which waits: system calls alone, since the libc's
 * setgroups would ask the host's other threads to follow. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/identity/identity.h"

enum { IO_PROCESS = 1, CAPABILITIES = 64 };

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
        own = *wanted; /* else the time slice remains, which the host sets */
    own.policy = wanted->policy;
    own.priority = wanted->priority;
    own.nice = wanted->nice;
    own.flags = wanted->flags & flag;
    return scheduling_set(0, &own);
}

/* Set already, where that was possible. */
static long check_nice(const struct identity *has, const struct identity *wants)
{
    (void)has;
    struct scheduling own;
    if (scheduling_get(0, &own) != 0 || own.nice == wants->scheduling.nice)
        return 0;
    errno = EPERM;
    return -1;
}

/* Compared with what it is now: where none was set, the kernel derives it from the nice value. */
static long assume_io_priority(const struct identity *has, const struct identity *wants)
{
    (void)has;
    return syscall(SYS_ioprio_get, IO_PROCESS, 0) == wants->io_priority
               ? 0
               : syscall(SYS_ioprio_set, IO_PROCESS, 0, wants->io_priority);
}

static long assume_timer_slack(const struct identity *has, const struct identity *wants)
{
    return has->told.timer_slack == wants->told.timer_slack
               ? 0
               : syscall(SYS_prctl, PR_SET_TIMERSLACK, wants->told.timer_slack, 0, 0, 0);
}

static long assume_personality(const struct identity *has, const struct identity *wants)
{
    return has->told.personality == wants->told.personality ||
                   syscall(SYS_personality, wants->told.personality) >= 0
               ? 0
               : -1;
}

static long assume_speculation(const struct identity *has, const struct identity *wants)
{
    for (int i = 0; i < PROTOCOL_SPECULATION; i++)
        if (has->told.speculation[i] != wants->told.speculation[i] &&
            syscall(SYS_prctl, PR_SET_SPECULATION_CTRL, i,
                    wants->told.speculation[i] & ~PR_SPEC_PRCTL, 0, 0) != 0)
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

/* A capability that is not permitted and inheritable any more has left the ambient set already. */
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
    uint64_t excess = has->capabilities[IDENTITY_BOUNDING] & ~sets[IDENTITY_BOUNDING];
    for (unsigned i = 0; i < CAPABILITIES; i++)
        if (excess >> i & 1 && syscall(SYS_prctl, PR_CAPBSET_DROP, i, 0, 0, 0) != 0)
            return -1;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    for (unsigned i = 0; i < 2; i++)
        data[i] = (struct __user_cap_data_struct){
            .effective = (uint32_t)(sets[IDENTITY_EFFECTIVE] >> 32 * i),
            .permitted = (uint32_t)(sets[IDENTITY_PERMITTED] >> 32 * i),
            .inheritable = (uint32_t)(sets[IDENTITY_INHERITABLE] >> 32 * i),
        };
    return syscall(SYS_capset, &header, data) != 0 ? -1 : assume_ambient(sets[IDENTITY_AMBIENT]);
}

static long assume_no_new_privileges(const struct identity *has, const struct identity *wants)
{
    return has->no_new_privileges == wants->no_new_privileges
               ? 0
               : syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Capabilities last: the others may need them. */
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
