/* src/space/child.h: the record from which a child sets itself up before it enters its program.
 *
 * The spawner writes it into the child's own range, before the kernel task exists. It stays there
 * as long as the range, because the program's path is read later. */
#ifndef ONESPACE_SPACE_CHILD_H
#define ONESPACE_SPACE_CHILD_H

#include <linux/limits.h>
#include <stdint.h>

#include "arch/constants.h"
#include "space/registry.h"

enum {
    CHILD_PAGES = 2,      /* of the record, after the trampolines */
    CHILD_CPU_WORDS = 32, /* 2,048 CPUs */
    CHILD_FDS_MAX = 2500,
    CHILD_LIMITS = SPACE_LIMITS,
    CHILD_FREE = 64 * 1024,
};

/* The step that failed, for the message; the error is in slot->child_result. */
enum child_stage {
    CHILD_CLONE = 1,
    CHILD_DESCRIPTORS,
    CHILD_DIRECTORY,
    CHILD_LIMIT,
    CHILD_AFFINITY,
    CHILD_GROUP,
    CHILD_BEFORE,
};

/* The strings of the initial stack, for /proc/self/cmdline and environ: argv[0], and the contiguous
 * strings of argv[1] and the environment. */
struct child_strings {
    uintptr_t name, name_end, arguments, environment, end;
};

struct child {
    struct space *space;
    struct space_slot *slot;
    uintptr_t stack_pointer, entry;
    uint64_t signal_mask;      /* to be restored */
    uint64_t ignore, unignore; /* signals whose disposition clone leaves wrong */
    int32_t reaper_pid;        /* of its parent process */
    uint32_t flags;            /* ONESPACE_SPAWN_* */
    uint32_t is_static;        /* no ld.so, and so no agent */
    uint32_t default_handlers; /* reset caught signals: the kernel has no CLONE_CLEAR_SIGHAND */
    uint32_t reaper_announces; /* nothing can fail once there is a process */
    int32_t directory, umask, nice;
    uint32_t limit_mask;        /* bit i: set limits[i] */
    uint32_t cpu_bytes;         /* 0: leave the affinity alone */
    uint32_t must_set_affinity; /* it was asked for; else it is the root's, as far as possible */
    int32_t policy_mode;        /* memory policy, or -1 */
    int (*before)(void *);      /* the spawner's; called with its thread pointer; or NULL */
    void *before_argument;
    uintptr_t thread_pointer;
    uintptr_t start; /* of the function in place of main: virtual, without bias; 0: main */
    void *start_argument;
    void *data; /* for onespace_spawner */
    struct child_strings strings;
    uintptr_t auxv; /* the auxiliary vector; set again by the agent: ld.so may move it */
    uint32_t fd_count;
    uint64_t policy_nodes[16];
    struct rlimit limits[CHILD_LIMITS];
    uint64_t cpus[CHILD_CPU_WORDS];
    char name[16];
    char program[PATH_MAX];
    struct child_fd {
        int32_t source, target;
    } * fds; /* at the far end of the stack, which nothing has used yet */
};

static_assert(sizeof(struct child) <= CHILD_PAGES * ARCH_PAGE_MIN, "fits after the trampolines");

#endif
