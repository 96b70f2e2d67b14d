/* src/task/hooks.h: what the layers above this one add to the life of a space and of its members.
 *
 * A layer that keeps something of its own for each member has hooks; whoever links the layers into
 * a library or a program lists them in layer_hooks (src/libonespace/hooks.c). So nothing here calls
 * upwards. */
#ifndef ONESPACE_TASK_HOOKS_H
#define ONESPACE_TASK_HOOKS_H

#include "registry/space.h"

struct layer_hooks {
    /* By the root, while it fills the registry, before there is a task. NULL: nothing to do. */
    void (*space_begins)(struct space *space);
    /* By the reaper, when a member has ended or left and none of its threads runs in the space any
     * more: undo what it had in the layer. Its memory is still there. Freestanding. NULL: nothing.
     */
    void (*member_gone)(struct space *space, struct space_slot *slot);
};

/* NULL-terminated. Defined once in each library or program that is made of the layers. */
extern const struct layer_hooks *const layer_hooks[];

#endif
