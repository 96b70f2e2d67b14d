/* src/task/reaper.h: the kernel task beside the root that makes and reaps the tasks. */
#ifndef ONESPACE_TASK_REAPER_H
#define ONESPACE_TASK_REAPER_H

#include "registry/space.h"

/* Starts the reaper of a fresh space; 0 or -errno. */
long reaper_start(struct space *space);
/* Asks the reaper to end and waits until it has: 0, -EBUSY while tasks live. */
long reaper_stop(struct space *space);
/* Makes the reaper look around: something changed. */
void reaper_poke(struct space *space);
/* Hands a claimed slot with a birth record to the reaper, which makes its kernel task. */
void reaper_request(struct space *space, struct space_slot *slot);
/* Signals for which the reaper has handlers, whatever the root does with them. */
uint64_t reaper_handled_signals(void);
/* 0 when the reaper was killed: nobody reaps any more. */
int reaper_alive(const struct space *space);

#endif
