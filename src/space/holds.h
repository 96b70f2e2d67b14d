/* src/space/holds.h: who holds whose memory, and giving it back when nobody does.
 *
 * holds[owner][holder] counts the imports that one member has of another's memory; only the holder
 * changes its cell, and the reaper zeroes it when the holder is gone. The owner's word `memory`
 * decides together with the cells (all sequentially consistent):
 *
 *   holder:  cell++                     reaper:  memory PRESENT -> GOING
 *            memory PRESENT? it holds            any cell of the row? back to PRESENT
 *            else cell--, too late               else unmap, memory NONE
 *
 * so at least one of the two sees the other. The same with the way back: the holder takes its cell
 * down and then looks at `holds_pending`, which the reaper has set before it looked at the cells.
 */
#ifndef ONESPACE_SPACE_HOLDS_H
#define ONESPACE_SPACE_HOLDS_H

#include "registry/space.h"

/* Takes a hold of `holder` on `owner`: 0, -EOWNERDEAD when the memory is gone, -EOVERFLOW. */
long holds_take(struct space *space, struct space_slot *owner, struct space_slot *holder);
/* Gives one back: 0 or -EINVAL. */
long holds_give(struct space *space, struct space_slot *owner, struct space_slot *holder);

/* Keeper: the member is gone; all its holds go. */
void holds_drop(struct space *space, struct space_slot *holder);
/* Keeper: the memory of these slots is wanted back, now or when the last hold goes. Neighbours go
 * together, for the fewer the changes to the address space the sooner all are done. */
void holds_wanted(struct space *space, struct space_slot *const *owners, unsigned count);
/* Keeper: looks again at what was held when it was wanted. */
void holds_reclaim(struct space *space);

#endif
