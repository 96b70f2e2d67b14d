/* src/xpmem/entries.h: the tables of segments and permits, two for each slot of the space.
 *
 * They lie at fixed addresses beside the registry, so that an id finds its entry without a search:
 *
 *   id      process id (32 bits) | index of the entry (16) | how often it was taken (15)
 *   slot    space->xpmem_slots[process id], when space->pids[] agrees
 *
 * Only the slot's own threads take and give entries; everybody reads. An entry belongs to an id as
 * long as it carries it: whoever reads one looks at the id before and after. An entry that was
 * taken 32,767 times is not taken again, so no id comes back while its process lives. When the
 * process has ended or executed another program, the reaper empties its tables. Memory is mapped as
 * it is needed and never unmapped, so no reader faults. Freestanding. */
#ifndef ONESPACE_XPMEM_ENTRIES_H
#define ONESPACE_XPMEM_ENTRIES_H

#include "registry/space.h"

enum entry_kind { ENTRY_SEGMENT, ENTRY_PERMIT };

enum {
    ENTRY_COUNT = 65536, /* of one kind, of one process */
    ENTRY_USES = 0x7fff,
};

/* What an entry says. */
struct entry_content {
    uint64_t first; /* a segment's address; the segment that a permit is for */
    uint64_t size;  /* a segment's bytes; unused */
    uint32_t mode;  /* who may get a segment; a permit's flags */
    uint32_t owner; /* slot index of the segment's owner */
};

/* The process that ids name, or NULL when it is no member (any more). */
struct space_slot *entry_process(struct space *space, int64_t id);

/* A new entry of `self`: its id, or -ENOMEM. */
int64_t entry_add(struct space *space, struct space_slot *self, enum entry_kind kind,
                  const struct entry_content *content);
/* Reads an entry of `slot`: 0 or -ENOENT. */
long entry_read(struct space *space, const struct space_slot *slot, enum entry_kind kind,
                int64_t id, struct entry_content *content);
/* Gives an entry of `self` back: 0, or -ENOENT when there is none of this id (any more). */
long entry_remove(struct space *space, struct space_slot *self, enum entry_kind kind, int64_t id);

/* Keeper: the member is gone. */
void entry_drop_all(struct space *space, struct space_slot *slot);

#endif
