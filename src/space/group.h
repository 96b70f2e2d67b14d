/* src/space/group.h: the tasks of a space that were started together. */
#ifndef ONESPACE_SPACE_GROUP_H
#define ONESPACE_SPACE_GROUP_H

#include "registry/space.h"

/* The spawner, before a member's birth: begins a new group when the last one is gone. */
void group_join(struct space *space, const struct space_slot *slot);
/* The reaper, when a member ended or left: breaks the barrier and wakes who waits for it. */
void group_leave(struct space *space);
/* A member whose libraries are loaded waits for the others, as ONESPACE_SPAWN_TOGETHER asks. */
void group_await_loaded(struct space *space, const struct space_slot *self);

#endif
