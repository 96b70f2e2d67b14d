/* src/space/locks.h: locks among the threads of a space. */
#ifndef ONESPACE_SPACE_LOCKS_H
#define ONESPACE_SPACE_LOCKS_H

#include "space/registry.h"

/* The lock among the threads of one member.
 *
 * It guards what these threads change in the member's own records (its out-of-range mappings, its
 * exports, its handlers). Signals are blocked while it is held: a handler may map memory. Only the
 * member's threads and its vfork children take it, and the reaper reads those records without it
 * when they have ended. A vfork child may be killed while it holds the lock: the next one takes it
 * over. In a forked child, which changes none of these records, it locks nothing. Freestanding. */

/* Takes the lock and blocks all signals; the old mask is for member_unlock. */
uint64_t member_lock(struct space_slot *slot);
void member_unlock(struct space_slot *slot, uint64_t signals);

/* Changes of the memory map take turns where tasks outnumber CPUs.
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

/* Waits for a turn; not 0, for map_throttle_end: the caller's TID. Not in a forked child, whose map
 * is its own.
 */
uint32_t map_throttle_begin(struct space *space);
void map_throttle_end(struct space *space, uint32_t begun);

#endif
