/* src/space/group.h: the tasks of a space that were started together. */
#ifndef ONESPACE_SPACE_GROUP_H
#define ONESPACE_SPACE_GROUP_H

#include "registry/space.h"

/* The spawner, before clone: adds a member, and begins a new group if the last one has ended. */
void group_join(struct space *space, const struct space_slot *slot);
/* The reaper, when a member has ended or left: breaks the barrier and wakes those who wait. */
void group_leave(struct space *space);
/* A member whose libraries are loaded waits for the others (ONESPACE_SPAWN_TOGETHER). */
void group_await_loaded(struct space *space, const struct space_slot *self);

#endif
