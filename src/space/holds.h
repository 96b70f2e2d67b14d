/* src/space/holds.h: who holds whose memory, and unmapping it when nobody does.
 *
 * holds[owner][holder] counts the imports that one member has of another's memory; only the holder
 * changes its cell, and the reaper zeroes it when the holder is gone. The owner's word `memory`
 * decides together with the cells (all sequentially consistent):
 *
 *   holder:  cell++                     reaper:  memory PRESENT -> ASKED
 *            await memory not ASKED              any cell of the row? back to PRESENT
 *            memory PRESENT? it holds            else GOING: unmap, memory NONE
 *            else cell--, too late
 *
 * so at least one of the two sees the other. A holder does not give up while the reaper looks: that
 * may have seen its cell, and would leave memory that nobody holds. A release works likewise: the
 * holder decrements its cell and then reads the owner's `reclaim_pending`; the reaper sets
 * `reclaim_pending` and then reads the cells. So releasing a living member's memory costs no system
 * call, whatever other members' memory is still held.
 *
 * Calls hold the callee's memory without a cell, by the lender that they have (registry/calls.h).
 */
#ifndef ONESPACE_SPACE_HOLDS_H
#define ONESPACE_SPACE_HOLDS_H

#include "registry/space.h"

/* Takes a hold of `holder` on `owner`: 0, -EOWNERDEAD when the memory is gone, -EOVERFLOW. */
long holds_take(struct space *space, struct space_slot *owner, struct space_slot *holder);
/* Releases one: 0 or -EINVAL. */
long holds_give(struct space *space, struct space_slot *owner, struct space_slot *holder);

/* The same for as long as a copy takes: it gives `holder` no right to use the memory. */
long holds_take_copy(struct space *space, struct space_slot *owner, struct space_slot *holder);
void holds_give_copy(struct space *space, struct space_slot *owner, struct space_slot *holder);
/* Whether `holder` may use the memory of `owner`: it has imported, attached or held it. */
int holds_has(struct space *space, const struct space_slot *owner, const struct space_slot *holder);

/* Lets the reaper look again, after something else that held memory has gone. Sequentially
 * consistent after that. */
void holds_look_again(struct space *space);

/* Reaper: the member has ended or left; releases all its holds. */
void holds_drop(struct space *space, struct space_slot *holder);
/* Reaper: has the memory of these slots unmapped (space/unmapper.h), now or when the last hold is
 * released. Slots in sequence are unmapped by one call, since each call takes the lock of the
 * address space. */
void holds_wanted(struct space *space, struct space_slot *const *owners, unsigned count);
/* Unmaps all that can be unmapped: 0, or -errno if something stays. A sealed mapping (mseal) makes
 * munmap fail for the whole of what it is asked to unmap, so the rest goes in parts, and with the
 * mapping up to 64 KiB around it stay. */
long holds_unmap(uintptr_t start, size_t size);
/* Reaper, in each round: frees the slots whose memory is unmapped, and tries again to unmap what
 * was held. */
void holds_reclaim(struct space *space);

#endif
