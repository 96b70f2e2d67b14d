/* src/space/slots.h: finding, claiming and freeing slots. */
#ifndef ONESPACE_SPACE_SLOTS_H
#define ONESPACE_SPACE_SLOTS_H

#include "registry/space.h"

/* The slot that carries `id` now, or NULL. */
struct space_slot *space_slot(struct space *space, int32_t id);
/* A free slot, CLAIMED for `spawner`, with a fresh id; or NULL when the table is full. */
struct space_slot *space_claim(struct space *space, int32_t spawner);

/* Frees a slot if its status was collected and its memory is unmapped. The collector calls it after
 * setting COLLECTED, the reaper after setting MEMORY_NONE (both sequentially consistent), so the
 * later one sees both; a compare-and-swap lets one of them free it. */
void space_release_slot(struct space_slot *slot);
/* Makes a slot that only the caller refers to free again. */
void space_free_slot(struct space *space, struct space_slot *slot);

/* Stores the CPU time that the member's process has used, from getrusage or wait4. */
void space_note_times(struct space_slot *slot, const struct rusage *usage);

#endif
