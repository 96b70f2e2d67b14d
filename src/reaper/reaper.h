/* src/reaper/reaper.h: the reaper, a kernel task beside the root that makes and reaps the tasks.
 *
 * Everything but reaper_start, reaper_stop, reaper_handled_signals, must_clear_dumpable,
 * dumpable_clear and dumpable_restore runs in the reaper. Freestanding. */
#ifndef ONESPACE_REAPER_REAPER_H
#define ONESPACE_REAPER_REAPER_H

#include "space/registry.h"

/* ---- reaper.c ---- */

/* Starts the reaper of a new space: 0 or -errno. */
long reaper_start(struct space *space);
/* Makes the reaper exit and waits until it has: 0, or -EBUSY while there are tasks. */
long reaper_stop(struct space *space);
/* The signals that the reaper handles, whatever the root does with them. */
uint64_t reaper_handled_signals(void);

struct member_end {
    struct space_slot *slot; /* slot_set_cpu_times was called for it */
    int status;              /* as wait(2) returns it */
};
enum { MEMBER_ENDS_MAX = 32 }; /* of one call */

/* These tasks, MEMBER_ENDS_MAX at most, have ended: undoes what they had in the registry and
 * publishes their status. */
void members_ended(struct space *space, const struct member_end *ends, unsigned count);

/* ---- thread_tasks.c: tasks in thread mode, threads of their spawner's process ---- */

/* Ends such tasks that have no thread left. Returns the time in ns after which it must be called
 * again, or 0: at the next event. */
uint64_t thread_tasks_poll(struct space *space);
/* The process of `owner` has ended or executed another program, and so have the tasks that are its
 * threads. */
void thread_tasks_end_with_process(struct space *space, const struct space_slot *owner, int status);

/* ---- vfork_children.c: children by vfork or posix_spawn that outlive the task that made them ----
 */

/* Forgets all: the space is new. */
void vfork_children_init(void);
/* Whether the task runs `before`, a function of its spawner's, in the spawner's memory. */
int is_in_before(const struct space *space, const struct space_slot *slot);
/* Holds the memory of these tasks, which were killed, if such a child, or one in `before`, may be
 * in it. After hold_release_all, before memory_unmap_unless_held. */
void vfork_children_hold(struct space *space, struct space_slot *const *killed, unsigned count);
/* Releases memory that no such child uses any more. Returns when to call again, as above. */
uint64_t vfork_children_poll(struct space *space);

/* ---- dumpable.c: before Linux 5.16, the crash of one task must not end all ---- */

/* Whether a space must be undumpable. `choice` is the user's, "0" or "1" (ONESPACE_DUMPABLE);
 * otherwise the kernel's version decides. */
int must_clear_dumpable(const char *choice);
/* By the root, before it has a reaper: makes the memory undumpable, unless it is already. */
void dumpable_clear(void);
/* Whether it has. Where it has not, the reaper does not handle DUMPABLE_SIGNAL. */
int dumpable_was_cleared(void);
/* By the root, when there are no other members: undoes that. */
void dumpable_restore(void);

/* A process of the same user that sends this signal to the reaper may read the space: the memory is
 * dumpable until that process has ended. If its PID is unknown (not in our PID namespace, or the
 * kernel's queue of signals was full), it is dumpable for a minute. A real-time signal, because
 * those of several processes are queued, while a pending standard signal absorbs later ones. */
enum { DUMPABLE_SIGNAL = 64 /* SIGRTMAX */ };
/* By the signal's handler. */
void dumpable_allow(int pid);
/* Changes PR_SET_DUMPABLE as the processes above require. Returns when to call again, as above. */
uint64_t dumpable_poll(void);

#endif
