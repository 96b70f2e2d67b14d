/* src/space/lock.h: the lock among the threads of one member.
 *
 * It guards what these threads change in the member's own records (its out-of-range mappings, its
 * exports, its handlers). Signals are blocked while it is held: a handler may map memory. Only the
 * member's threads and its vfork children take it, and the reaper reads those records without it
 * when they have ended. A vfork child may be killed while it holds the lock: the next one takes it
 * over. In a forked child, which changes none of these records, it locks nothing. Freestanding. */
#ifndef ONESPACE_SPACE_LOCK_H
#define ONESPACE_SPACE_LOCK_H

#include "registry/space.h"

/* Takes the lock and blocks all signals; the old mask is for space_unlock. */
uint64_t space_lock(struct space_slot *slot);
void space_unlock(struct space_slot *slot, uint64_t signals);

#endif
