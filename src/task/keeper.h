/* src/task/keeper.h: the kernel task beside the root that makes and reaps the tasks. */
#ifndef ONESPACE_TASK_KEEPER_H
#define ONESPACE_TASK_KEEPER_H

#include "space/registry.h"

/* Starts the keeper of a fresh space; 0 or -errno. */
long keeper_start(struct space *space);
/* Asks the keeper to end and waits until it has: 0, -EBUSY while tasks live. */
long keeper_stop(struct space *space);
/* Makes the keeper look around: something changed. */
void keeper_poke(struct space *space);
/* Hands a claimed slot with a birth record to the keeper, which makes its kernel task. */
void keeper_request(struct space *space, struct space_slot *slot);
/* Signals for which the keeper has handlers, whatever the root does with them. */
uint64_t keeper_handled_signals(void);
/* 0 when the keeper was killed: nobody reaps any more. */
int keeper_alive(const struct space *space);

#endif
