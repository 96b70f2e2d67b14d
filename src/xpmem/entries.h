/* src/xpmem/entries.h: the tables of segments and permits, two for each slot of the space.
 *
 * They lie at fixed addresses beside the registry, so that the entry of an id is found without a
 * search:
 *
 *   id      process id (32 bits) | index of the entry (16) | how often it was taken (15)
 *   slot    space->xpmem_slots[process id], if space->pids[] agrees
 *
 * Only the slot's own threads take entries and give them back; all members read. An entry's content
 * belongs to the id that is stored in it: a reader reads the id before and after the content. An
 * entry that was taken 32,767 times is not taken again, so no id is reused while its process lives.
 * When the process has ended or executed another program, the reaper empties its tables. Memory is
 * mapped on demand and never unmapped, so that no reader faults. Freestanding. */
#ifndef ONESPACE_XPMEM_ENTRIES_H
#define ONESPACE_XPMEM_ENTRIES_H

#include "space/registry.h"

enum entry_kind { ENTRY_SEGMENT, ENTRY_PERMIT };

enum {
    ENTRY_COUNT = 65536, /* of one kind, of one process */
    ENTRY_USES = 0x7fff,
};

/* The content of an entry. */
struct entry_content {
    uint64_t first; /* a segment's address; the segment that a permit is for */
    uint64_t size;  /* a segment's bytes; unused */
    uint32_t mode;  /* who may get a segment; a permit's flags */
    uint32_t owner; /* slot index of the segment's owner */
};

/* The member whose process the id names, or NULL if that is not, or no longer, a member. */
struct space_slot *entry_process(struct space *space, int64_t id);

/* A new entry of `self`: its id, or -ENOMEM. */
int64_t entry_add(struct space *space, struct space_slot *self, enum entry_kind kind,
                  const struct entry_content *content);
/* Reads an entry of `slot`: 0 or -ENOENT. */
long entry_read(struct space *space, const struct space_slot *slot, enum entry_kind kind,
                int64_t id, struct entry_content *content);
/* Gives an entry of `self` back: 0, or -ENOENT if there is none, or no longer one, of this id. */
long entry_remove(struct space *space, struct space_slot *self, enum entry_kind kind, int64_t id);

/* Reaper: the member has ended or left; empties its tables. */
void entry_drop_all(struct space *space, struct space_slot *slot);

#endif
