/* src/xpmem/entries.h: the tables of segments and permits, two per slot of the space.
 *
 * They lie at fixed addresses next to the registry. An id contains the index of its entry:
 *
 *   id      space->pids[] of the slot, the id of a process, or of the thread that a task is |
 *           index of the entry (16) | number of allocations (15)
 *   slot    space->xpmem_slots[] of it, if space->pids[] agrees
 *
 * Only the slot's own threads allocate and free entries; all members read them. An entry's content
 * belongs to the id that is stored in it: a reader reads the id before and after the content. An
 * entry is allocated at most 32,767 times, so no id is reused while its process lives. When the
 * process has ended or executed another program, the reaper empties its tables. Memory is mapped on
 * demand and never unmapped, so no reader faults. Freestanding. */
#ifndef ONESPACE_XPMEM_ENTRIES_H
#define ONESPACE_XPMEM_ENTRIES_H

#include "space/registry.h"

enum entry_kind { ENTRY_SEGMENT, ENTRY_PERMIT };

enum {
    ENTRY_COUNT = 65536, /* per kind and process */
    ENTRY_USES = 0x7fff,
};

/* The content of an entry. */
struct entry_content {
    uint64_t first; /* a segment's address; the segment that a permit is for */
    uint64_t size;  /* a segment's bytes; unused */
    uint32_t mode;  /* a segment's permissions; a permit's flags */
    uint32_t owner; /* slot index of the segment's owner */
};

/* The process or thread id that a living member's entries have in their ids. */
uint32_t entry_pid(struct space *space, const struct space_slot *slot);
/* Returns the member whose process or thread the id names, or NULL if that is not a member. */
struct space_slot *entry_process(struct space *space, int64_t id);

/* Adds an entry of `self`. Returns its id or -ENOMEM. */
int64_t entry_add(struct space *space, struct space_slot *self, enum entry_kind kind,
                  const struct entry_content *content);
/* Reads an entry of `slot`: 0 or -ENOENT. */
long entry_read(struct space *space, const struct space_slot *slot, enum entry_kind kind,
                int64_t id, struct entry_content *content);
/* Removes an entry of `self`: 0, or -ENOENT if no entry has this id. */
long entry_remove(struct space *space, struct space_slot *self, enum entry_kind kind, int64_t id);

/* Empties the tables of a member that has ended or left. The reaper calls it. */
void entry_drop_all(struct space *space, struct space_slot *slot);

/* Puts the operations (operations.c) into the registry, and empties a member's tables when it ends.
 */
extern const struct member_hooks xpmem_hooks;

#endif
