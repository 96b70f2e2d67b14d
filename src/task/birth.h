/* src/task/birth.h: what a newborn task needs to know before it enters its program.
 *
 * Written by the spawner into the newborn's own range, before the kernel task exists; it stays
 * there for the life of the range, because the program's path is asked for later. */
#ifndef ONESPACE_TASK_BIRTH_H
#define ONESPACE_TASK_BIRTH_H

#include <linux/limits.h>
#include <stddef.h>
#include <stdint.h>

#include "space/registry.h"

enum {
    BIRTH_PAGES = 2,      /* of the record, behind the stubs */
    BIRTH_CPU_WORDS = 32, /* 2,048 processors */
    BIRTH_FDS_MAX = 2500,
    BIRTH_LIMITS = SPACE_LIMITS,
    BIRTH_FREE = 64 * 1024,
};

/* What failed, for the message; the error is in slot->birth. */
enum birth_stage {
    BIRTH_CLONE = 1,
    BIRTH_DESCRIPTORS,
    BIRTH_DIRECTORY,
    BIRTH_LIMIT,
    BIRTH_AFFINITY,
    BIRTH_GROUP,
    BIRTH_BEFORE,
};

struct birth {
    struct space *space;
    struct space_slot *slot;
    uintptr_t stack_pointer, entry;
    uint64_t signal_mask;      /* to be restored */
    uint64_t ignore, unignore; /* signals whose action is not what the kernel made it */
    int32_t keeper_pid;        /* whose child the newborn is */
    uint32_t flags;            /* ONESPACE_SPAWN_* */
    uint32_t is_static;        /* no ld.so, and so no agent */
    uint32_t default_handlers; /* caught signals are not defaulted yet: no CLONE_CLEAR_SIGHAND */
    uint32_t keeper_announces; /* nothing can fail once there is a process */
    int32_t directory, umask, nice;
    uint32_t limit_mask;   /* bit i: set limits[i] */
    uint32_t cpu_bytes;    /* 0: leave the affinity alone */
    int32_t policy_mode;   /* memory policy, or -1 */
    int (*before)(void *); /* the spawner's, run with its thread pointer; or NULL */
    void *before_argument;
    uintptr_t thread_pointer;
    uintptr_t start; /* of the function in place of main: virtual, without bias; 0: main */
    void *start_argument;
    void *data; /* for onespace_spawner */
    uint32_t fd_count;
    uint64_t policy_nodes[16];
    struct rlimit limits[BIRTH_LIMITS];
    uint64_t cpus[BIRTH_CPU_WORDS];
    char name[16];
    char program[PATH_MAX];
    struct birth_fd {
        int32_t source, target;
    } * fds; /* at the far end of the stack, which nothing has used yet */
};

static_assert(sizeof(struct birth) <= BIRTH_PAGES * 4096, "fits behind the stubs");

/* Runs as the new kernel task, on its own stack, with all signals blocked. Never returns. */
void birth_main(void *argument);
/* Tells the spawner that the task is there. */
void birth_announce(struct space_slot *slot);
/* Makes the kernel task of a prepared birth; called by a task for its own child (a sibling for the
 * kernel) or by the keeper for the root's. The pid or -errno. */
long birth_clone(struct birth *birth, int as_sibling);

#endif
