/* src/space/self.c: see self.h. */
#include "space/self.h"

#include <dlfcn.h>
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
    Dl_info library;
    if (!space || !slot)
        return;
    const char *file = dladdr((void *)attach, &library) ? library.dli_fname : "libonespace";
    static _Atomic int has_warned; /* a program asks more than once */
    if (!space_is_ours(space, atomic_exchange(&has_warned, 1) ? NULL : file))
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
