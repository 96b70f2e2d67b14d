/* tests/spawn/as_guarded.c: see as_guarded.h. The registry's header is C, hence this file. */
#include "as_guarded.h"

#include "onespace.h"
#include "space/registry.h"

void begin_as_guarded(void)
{
    struct space_slot *root = &space_registry()->slots[0];
    root->guard_key = 1;
    root->flags |= ONESPACE_SPAWN_GUARD;
}

void end_as_guarded(void)
{
    struct space_slot *root = &space_registry()->slots[0];
    root->guard_key = 0;
    root->flags &= ~ONESPACE_SPAWN_GUARD;
}
