/* src/task/dumpable.h: before Linux 5.16, keeps the crash of one task from ending all.
 *
 * When a signal whose default action is a core dump ends a process, such a kernel kills all
 * processes that share its memory, even if no core file is written. It does neither if that memory
 * is not dumpable (PR_SET_DUMPABLE): then the process that got the signal ends by it, alone. This
 * holds for each crash, also of threads that block the signal or have no stack left.
 *
 * The price is that only privileged processes may trace members and read what /proc shows of them
 * to their user alone. `onespace ps` and its like ask the reaper to open the space for a while. */
#ifndef ONESPACE_TASK_DUMPABLE_H
#define ONESPACE_TASK_DUMPABLE_H

#include <stdint.h>

/* Whether spaces are to be undumpable: "0" and "1" are the user's choice (ONESPACE_DUMPABLE),
 * without which (NULL or another) the kernel decides. */
int dumpable_must_end(const char *choice);

/* By the root, before it has a reaper: makes the memory undumpable, unless it is so already. */
void dumpable_begin(void);
/* By the root, when there are no other members: undoes it. */
void dumpable_end(void);

/* By the reaper, on this signal of a process of the same user: the memory is dumpable until that
 * process has ended, or for a minute if its PID is not known: it has none here, or the kernel's
 * queue of signals was full. A real-time signal, because those of several processes are queued,
 * while a standard signal that is pending takes in those that follow. */
enum { DUMPABLE_OPEN = 64 /* SIGRTMAX */ };
void dumpable_open(int pid);
/* By the reaper in each round: opens and closes. How long to wait until the next, ns; 0: for ever.
 */
uint64_t dumpable_watch(void);

#endif
