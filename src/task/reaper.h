/* src/task/reaper.h: the kernel task beside the root that makes and reaps the tasks. */
#ifndef ONESPACE_TASK_REAPER_H
#define ONESPACE_TASK_REAPER_H

#include "registry/space.h"

/* Starts the reaper of a fresh space; 0 or -errno. */
long reaper_start(struct space *space);
/* Asks the reaper to end and waits until it has: 0, -EBUSY while tasks live. */
long reaper_stop(struct space *space);
/* Wakes the reaper: something has changed. */
void reaper_poke(struct space *space);
/* Hands a claimed slot with a child record to the reaper, which makes its kernel task. */
void reaper_request(struct space *space, struct space_slot *slot);
/* The signals that the reaper handles, whatever the root does with them. */
uint64_t reaper_handled_signals(void);
/* When the reaper was killed the kernel kills the tasks, unless they have reset PR_SET_PDEATHSIG:
 * kills those. */
void reaper_kill_survivors(const struct space *space);
/* 0 if the reaper was killed: the ends of tasks are not reported any more. */
int reaper_alive(const struct space *space);

#endif
