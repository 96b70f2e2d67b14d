/* tests/space/probe.c: see probe.h. The registry's header is C, hence this file. */
#include "probe.h"

#include "space/registry.h"

int probe_slots(void)
{
    struct space *space = space_registry();
    int count = 0;
    for (unsigned i = 1; i < LAYOUT_SLOTS; i++)
        count += space_state(&space->slots[i]) != SLOT_FREE;
    return count;
}

int probe_exports(void)
{
    struct space *space = space_registry();
    int count = 0;
    for (unsigned i = 0; i < SPACE_EXPORTS; i++) {
        unsigned state = atomic_load(&space->exports[i].state) & 0xff;
        count += state == EXPORT_LIVE || state == EXPORT_CLAIMED;
    }
    return count;
}

int probe_holds(void)
{
    struct space *space = space_registry();
    int count = 0;
    unsigned highest = atomic_load(&space->highest);
    for (unsigned owner = 0; owner <= highest; owner++)
        for (unsigned holder = 0; holder <= highest; holder++)
            count += atomic_load(&space->holds[owner][holder]);
    return count;
}
