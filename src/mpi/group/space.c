/* src/mpi/group/space.c: see space.h. */
#include "mpi/group/space.h"

#include <sys/auxv.h>

#include "onespace.h"
#include "registry/space.h"

int space_has_self(void)
{
    return onespace_self() >= 0;
}

/* With --mpi-layer off the agent still loads this library for functions with large counts that the
 * MPI library lacks. */
int space_layer_is_off(void)
{
    const struct space_slot *slot = (const struct space_slot *)getauxval(SPACE_AT_SLOT);
    return space_has_self() && slot && (slot->flags & ONESPACE_SPAWN_NO_MPI_LAYER);
}
