/* src/launch/capacity.h: how many ranks of one space fit on this node, and which limit to raise.
 *
 * The needs of a rank were measured (docs/measurements/many-ranks.md). The minimum is what the
 * smallest program takes, so that more ranks cannot run whatever they are. The typical need is that
 * of an MPI program. */
#ifndef ONESPACE_LAUNCH_CAPACITY_H
#define ONESPACE_LAUNCH_CAPACITY_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "cgroup/cgroup.h"

/* ---- capacity.c ---- */

enum capacity_resource {
    CAPACITY_DESCRIPTORS,
    CAPACITY_MAPPINGS,
    CAPACITY_PROCESSES,
    CAPACITY_MEMORY,
    CAPACITY_LOCKED_MEMORY, /* of ranks that send by RDMA */
    CAPACITY_RESOURCES
};

#define CAPACITY_UNLIMITED UINT64_MAX

struct capacity {
    const char *resource; /* a noun in the plural, or a mass noun */
    const char *limit;    /* the settings that limit it */
    const char *unit;     /* of the numbers: " KiB", or empty */
    uint64_t available;   /* or CAPACITY_UNLIMITED */
    uint64_t minimum, typical;
    unsigned ranks_minimum, ranks_typical; /* how many ranks fit */
    char fix[160];                         /* how to raise it: a sentence without its full stop */
};

/* What `ranks` ranks need of a resource, and what is available. */
void capacity_estimate(enum capacity_resource resource, unsigned ranks, struct capacity *capacity);

/* Whether mappings suffice for this many MPI ranks only with the settings that reduce the mappings
 * of a rank (mpi_defaults.c). */
int capacity_mappings_are_scarce(unsigned ranks);

/* The host of a space needs a descriptor for each rank, a standalone run does not. */
enum capacity_root { CAPACITY_STANDALONE, CAPACITY_HOST };

/* By the root before the first rank starts. 0: all fit. 1: they do not if they are ranks of an MPI
 * program, with a warning. -EAGAIN: they do not fit, with a message. */
int capacity_check(enum capacity_root root, unsigned ranks, char *message, size_t size);

/* Completes the message of a rank that could not be started for lack of a resource: which one, how
 * many ranks fit, how to raise it. started: the ranks that run. Leaves the message of other errors
 * as it is. */
void capacity_explain_error(int error, unsigned started, unsigned ranks, char *message,
                            size_t size);

/* Appends to `message` that mappings have run out in the space of this process, how many ranks of
 * this program would fit, and how to raise the limit. Returns whether mappings are exhausted. */
int capacity_describe_mappings(unsigned running, unsigned ranks, char *message, size_t size);

/* Tells the tasks whether they outnumber the CPUs that they may use; src/agent/mpi.c reads it.
 * Called by one thread of the root, when a task was started that may run on these CPUs (as for
 * sched_setaffinity; size 0: the caller's), and when one has ended. */
void oversubscription_add(const void *cpus, size_t size);
void oversubscription_remove(void);

/* ---- oom_watch.c ---- */

/* Detects that the kernel's OOM killer ended a space because its memory control group was full.
 *
 * The kernel charges a space's memory to the group of the process that made it. When the group is
 * full, it kills all processes that share that memory: root, reaper and tasks. So only a process
 * outside the space can report it. The proof is the group's own counter, read before and after,
 * because any process of the user may send SIGKILL. */
struct oom_watch {
    char directory[PATH_MAX]; /* of the group that the memory is charged to; empty: not known */
    uint64_t kills;           /* of that group, before */
    char limited[PATH_MAX];   /* the group or ancestor with the lowest limit, or empty */
    uint64_t limit;           /* bytes */
    int pid;                  /* a process of the space */
    uint64_t sampled;         /* bytes in use when the tasks' memory was read last */
    int largest_pid;          /* the task that used most then, or 0 */
    uint64_t largest;         /* bytes */
};

/* Reads the counters of the group of `pid`, a process of the space or one that will make it. */
void oom_watch_begin(struct oom_watch *watch, int pid);
/* Whether there is a limit that the space can reach before the machine's memory is full. */
int oom_watch_is_limited(const struct oom_watch *watch);
/* Called periodically: reads one number, and the tasks' memory when the group is nearly full. */
void oom_watch_sample(struct oom_watch *watch);
/* After the space has ended: 1, with a message, if the kernel killed a process of that group
 * because it was full; else 0. */
int oom_watch_explain(const struct oom_watch *watch, char *message, size_t size);

#endif
