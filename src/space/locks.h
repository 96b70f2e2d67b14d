/* src/space/locks.h: the member lock, and the throttle of changes of the memory map.
 *
 * The member lock excludes the threads of one member from one another. It protects what they change
 * in the member's own records: its intervals, its exports, its shared mappings, its signal
 * handlers. Signals are blocked while it is held, because a handler may map memory. Only the
 * member's threads and its vfork children take it; the reaper reads those records without it when
 * all of them have ended. If an owner dies, the next thread takes the lock over. In a forked child,
 * which changes none of these records, it does nothing.
 *
 * The throttle lets one thread of the space at a time change the memory map, where tasks outnumber
 * CPUs. The kernel hands its own lock of the map to a thread that still waits for a CPU, behind
 * tasks that poll for messages, and every other thread then waits for both. A thread that waits for
 * the throttle instead is running when it gets it, and finds the kernel's lock free. The throttle
 * is a performance hint; correctness never depends on it. A waiter checks every 50 ms whether the
 * holder still exists, and stops waiting after a second, because the holder may be in a slow call.
 * A shorter limit would be worse: with 32 tasks on a CPU, a holder that was preempted runs again
 * after 0.1 s.
 *
 * Freestanding. */
#ifndef ONESPACE_SPACE_LOCKS_H
#define ONESPACE_SPACE_LOCKS_H

#include "space/registry.h"

/* Takes the lock and blocks all signals. Returns the previous mask, for member_unlock. */
uint64_t member_lock(struct space_slot *slot);
void member_unlock(struct space_slot *slot, uint64_t signals);

/* Returns the caller's TID if it must call map_throttle_end, or 0: the space is not oversubscribed,
 * the caller is a forked child, or it is a signal handler that interrupted its own thread's change.
 */
uint32_t map_throttle_begin(struct space *space);
void map_throttle_end(struct space *space, uint32_t owner);

#endif
