/* src/space/turns.h: changes of the memory map take turns where tasks outnumber CPUs.
 *
 * The kernel has one lock for the map. A thread that must wait for it sleeps, is given it while it
 * still waits for a CPU, behind tasks that poll for messages, and all others wait with it. So where
 * the space is oversubscribed those who are about to change the map wait for each other here first:
 * who gets the turn is running already, and the kernel's lock is free.
 *
 * A turn is a help for speed alone and protects nothing. Those who wait look every 50 ms whether
 * the holder still exists, and the one that has waited for a second goes on without: the holder may
 * be in a slow call. Not sooner, because a holder that lost its CPU gets it back when all others on
 * it had theirs, 0.1 s later where there are 32, and whoever goes on meanwhile waits for the
 * kernel's lock after all. A handler that interrupts its own thread's change does not wait.
 * Freestanding. */
#ifndef ONESPACE_SPACE_TURNS_H
#define ONESPACE_SPACE_TURNS_H

#include "registry/space.h"

/* Waits for a turn; not 0, for turn_end: the caller's TID. Not in a forked child, whose map is its
 * own.
 */
uint32_t turn_begin(struct space *space);
void turn_end(struct space *space, uint32_t begun);

#endif
