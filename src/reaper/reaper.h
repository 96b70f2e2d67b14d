/* src/reaper/reaper.h: the kernel task beside the root that makes and reaps the tasks. */
#ifndef ONESPACE_REAPER_REAPER_H
#define ONESPACE_REAPER_REAPER_H

#include <stdint.h>

#include "space/registry.h"

/* The kernel task beside the root that makes and reaps the tasks. */

/* Starts the reaper of a fresh space; 0 or -errno. */
long reaper_start(struct space *space);
/* Asks the reaper to end and waits until it has: 0, -EBUSY while tasks live. */
long reaper_stop(struct space *space);
/* The signals that the reaper handles, whatever the root does with them. */
uint64_t reaper_handled_signals(void);

/* What the reaper does when tasks end or leave. Freestanding. */

struct member_end {
    struct space_slot *slot; /* its times are noted (slot_set_cpu_times) */
    int status;              /* of wait(2) */
};
enum { MEMBER_ENDS_MAX = 32 }; /* of one call */

/* The tasks, MEMBER_ENDS_MAX at most, have ended: undoes what they had in the registry and hands
 * their status to the waiters. */
void members_ended(struct space *space, const struct member_end *ends, unsigned count);
/* The task has executed another program: its process lives, but is no longer a member. */
void member_left(struct space *space, struct space_slot *slot);

/* Tasks in thread mode: threads of their spawner's process.
 *
 * The kernel does not report the end of another process's thread, so the reaper polls: a task's
 * exit sets `exited`, and is complete when none of its threads is left. A thread belongs to the
 * task in whose range the head of its robust list lies, since that is in its libc's memory. */

/* Called by the reaper: ends such tasks that have no thread left. The time in ns until the next
 * call is due; 0: at the next event. */
uint64_t thread_tasks_poll(struct space *space);
/* Called by the reaper: the process of `owner` has ended or executed another program, and with it
 * all tasks that are its threads have ended. */
void thread_tasks_end_with_process(struct space *space, const struct space_slot *owner, int status);

/* Children by vfork or posix_spawn that outlive the task that made them.
 *
 * Until it executes its program such a child runs in the task's memory, on its stack. It has no
 * slot. If the task is killed meanwhile, its memory is held until no process without a slot is left
 * in this address space; the hold is the task's own (space/member.h). Reaper only; freestanding. */

/* The reaper of a fresh space begins: nothing is held. */
void vfork_children_init(void);
/* Holds the memory of these tasks, which were killed, if such a child may be in it. Before
 * memory_release, after hold_release_all. */
void vfork_children_hold(struct space *space, struct space_slot *const *killed, unsigned count);
/* Releases what nobody uses any more: ns after which to look again, or 0. */
uint64_t vfork_children_poll(struct space *space);

/* Before Linux 5.16, keeps the crash of one task from ending all.
 *
 * When a signal whose default action is a core dump ends a process, such a kernel kills all
 * processes that share its memory, even if no core file is written. It does neither if that memory
 * is not dumpable (PR_SET_DUMPABLE): then the process that got the signal ends by it, alone. This
 * holds for each crash, also of threads that block the signal or have no stack left.
 *
 * The price is that only privileged processes may trace members and read what /proc shows of them
 * to their user alone. `onespace ps` and its like ask the reaper to open the space for a while. */

/* Whether spaces are to be undumpable: "0" and "1" are the user's choice (ONESPACE_DUMPABLE),
 * without which (NULL or another) the kernel decides. */
int must_clear_dumpable(const char *choice);

/* By the root, before it has a reaper: makes the memory undumpable, unless it is so already. */
void dumpable_clear(void);
/* By the root, when there are no other members: undoes it. */
void dumpable_restore(void);

/* By the reaper, on this signal of a process of the same user: the memory is dumpable until that
 * process has ended, or for a minute if its PID is not known: it has none here, or the kernel's
 * queue of signals was full. A real-time signal, because those of several processes are queued,
 * while a standard signal that is pending takes in those that follow. */
enum { DUMPABLE_SIGNAL = 64 /* SIGRTMAX */ };
void dumpable_allow(int pid);
/* By the reaper in each round: opens and closes. How long to wait until the next, ns; 0: for ever.
 */
uint64_t dumpable_poll(void);

#endif
