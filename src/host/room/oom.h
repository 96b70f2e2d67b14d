/* src/host/room/oom.h: whether the kernel has ended a space because its memory control group was
 * full.
 *
 * The kernel charges a space's memory to the group of the process that made it, and when the group
 * is full it ends all processes that share that memory: root, reaper and tasks. So only a process
 * outside the space can say what happened. It is known from the group's own counters, before and
 * after, since anybody may send SIGKILL. */
#ifndef ONESPACE_HOST_ROOM_OOM_H
#define ONESPACE_HOST_ROOM_OOM_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct oom_watch {
    char directory[PATH_MAX]; /* of the group that the memory is charged to; empty: not known */
    uint64_t kills;           /* of that group, before */
    char limited[PATH_MAX];   /* the group or ancestor whose limit is nearest, or empty */
    uint64_t limit;           /* bytes */
    int pid;                  /* a process of the space */
    uint64_t seen;            /* bytes in use when the space was looked at last */
    int most_pid;             /* 0, or of the task that used most then */
    uint64_t most;            /* bytes */
};

/* Before: remembers the counters of the group of `pid`, a process of the space or one that is to
 * make it. */
void oom_watch_begin(struct oom_watch *watch, int pid);
/* Whether there is a limit that the space can reach before the machine is full. */
int oom_watch_is_limited(const struct oom_watch *watch);
/* From time to time: when the group is nearly full, looks which task uses most. Reads one number
 * else. */
void oom_watch_look(struct oom_watch *watch);
/* After the space has gone: 1 if the kernel ended a process of that group because it was full, with
 * a message; else 0. */
int oom_watch_say(const struct oom_watch *watch, char *message, size_t size);

#endif
