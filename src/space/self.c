/* src/space/self.c: see self.h. */
#include "space/member.h"

#include <dlfcn.h>
#include <sys/auxv.h>

/* Set once, by attach() or space_set_root; several threads may ask first at once, and then store
 * the same. Release of `mine`, pairs with its acquire in space_mine: who sees it sees `self`. */
static struct space *_Atomic mine;
static struct space_slot *_Atomic self;

static void publish(struct space *space, struct space_slot *slot)
{
    atomic_store_explicit(&self, slot, memory_order_relaxed);
    atomic_store_explicit(&mine, space, memory_order_release);
}

void space_set_root(struct space *space)
{
    publish(space, space ? &space->slots[0] : NULL);
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
    publish(space, slot);
}

struct space *space_mine(void)
{
    struct space *space = atomic_load_explicit(&mine, memory_order_acquire);
    if (!space) {
        attach();
        space = atomic_load_explicit(&mine, memory_order_acquire);
    }
    return space && space_marked() ? space : NULL;
}

struct space_slot *space_self(void)
{
    return space_mine() ? atomic_load_explicit(&self, memory_order_relaxed) : NULL;
}

int space_was_member(void)
{
    return atomic_load_explicit(&mine, memory_order_relaxed) && !space_marked();
}
