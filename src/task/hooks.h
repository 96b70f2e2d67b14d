/* src/task/hooks.h: what the layers above this one add to the life of a space and of its members.
 *
 * A layer that keeps state of its own for each member has hooks. Each library or program that is
 * linked from the layers lists their hooks in layer_hooks (src/libonespace/hooks.c), so no layer
 * calls one above it. */
#ifndef ONESPACE_TASK_HOOKS_H
#define ONESPACE_TASK_HOOKS_H

#include "registry/space.h"

struct layer_hooks {
    /* Called by the root while it fills the registry, before there is a task. NULL: nothing to do.
     */
    void (*space_begins)(struct space *space);
    /* Called by the root in onespace_fini, when the reaper has ended and before anything is
     * unmapped. NULL: nothing to do. */
    void (*space_ends)(struct space *space);
    /* Called by the reaper when a member has ended or left and none of its threads runs in the
     * space any more: undo what it had in the layer. Its memory is still mapped. Freestanding.
     * NULL: nothing to do. */
    void (*member_gone)(struct space *space, struct space_slot *slot);
    /* Called by the reaper in each of its rounds. Nanoseconds until it must be called again at the
     * latest, 0: when something happens. Freestanding. NULL: nothing to do. */
    uint64_t (*watch)(struct space *space);
};

/* NULL-terminated. Defined once in each library or program that is made of the layers. */
extern const struct layer_hooks *const layer_hooks[];

#endif
