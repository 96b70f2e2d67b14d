/* src/space/self.c: see self.h. */
#include "space/self.h"

#include <sys/auxv.h>

static struct space *mine;      /* set once, by attach() or space_set_root */
static struct space_slot *self; /* NULL until then */

void space_set_root(struct space *space)
{
    self = space ? &space->slots[0] : NULL;
    mine = space;
}

/* A task finds the space in its auxiliary vector. */
static void attach(void)
{
    struct space *space = (struct space *)getauxval(SPACE_AT_REGISTRY);
    struct space_slot *slot = (struct space_slot *)getauxval(SPACE_AT_SLOT);
    if (!space || !slot || space->magic != SPACE_MAGIC || space->abi != SPACE_ABI ||
        space->size != sizeof(*space))
        return;
    self = slot;
    mine = space;
}

struct space *space_mine(void)
{
    if (!mine)
        attach();
    return mine && space_marked() ? mine : NULL;
}

struct space_slot *space_self(void)
{
    return space_mine() ? self : NULL;
}

int space_was_member(void)
{
    return mine && !space_marked();
}
