/* src/space/turns.h: changes of the memory map take turns where tasks outnumber CPUs.
 *
 * The kernel has one lock for the map. A thread that must wait for it sleeps, is given it while it
 * still waits for a CPU, behind tasks that poll for messages, and all others wait with it. So where
 * the space is oversubscribed those who are about to change the map wait for each other here first:
 * who gets the turn is running already, and the kernel's lock is free.
 *
 * A turn is a help for speed alone and protects nothing. Whoever waited for 20 ms goes on without:
 * the holder may have ended, or be in a slow call, or be the caller's own thread, interrupted by
 * the signal whose handler calls this. Freestanding. */
#ifndef ONESPACE_SPACE_TURNS_H
#define ONESPACE_SPACE_TURNS_H

#include "registry/space.h"

/* Waits for a turn; not 0: to be ended. Not in a forked child, whose map is its own. */
int turn_begin(struct space *space);
void turn_end(struct space *space, int begun);

#endif
