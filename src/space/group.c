/* src/space/group.c: see group.h. Freestanding: runs in the keeper and in newborn tasks too. */
#include "space/group.h"

#include <errno.h>

#include "space/futex.h"

enum { LOAD_PATIENCE_MS = 2000 };

void group_join(struct space *space, uint32_t ntasks)
{
    if (atomic_load(&space->group_alive) == 0 && atomic_load(&space->group_started) >= ntasks) {
        atomic_store(&space->barrier, 0);
        atomic_store(&space->group_ended, 0);
        atomic_store(&space->group_loaded, 0);
        atomic_store(&space->group_started, 0);
    }
    atomic_fetch_add(&space->group_alive, 1);
    atomic_fetch_add(&space->group_started, 1);
}

void group_leave(struct space *space)
{
    atomic_fetch_add(&space->group_ended, 1);
    atomic_fetch_sub(&space->group_alive, 1);
    futex_wake((char *)&space->barrier + 4, INT32_MAX);
    futex_wake(&space->group_loaded, INT32_MAX);
}

/* Loading libraries takes the address space's lock hundreds of times. A rank that is through with it
 * and spins for its peers would keep those that hold the lock from running, so all sleep here until
 * the last one is through. It is a courtesy: whoever ends early or takes long ends the wait. */
void group_await_loaded(struct space *space, const struct space_slot *self)
{
    uint64_t deadline = futex_deadline(LOAD_PATIENCE_MS);
    uint32_t ntasks = (uint32_t)self->ntasks;
    uint32_t loaded = atomic_fetch_add(&space->group_loaded, 1) + 1;
    if (loaded >= ntasks)
        futex_wake(&space->group_loaded, INT32_MAX);
    while (loaded < ntasks && !atomic_load(&space->group_ended)) {
        if (futex_wait(&space->group_loaded, loaded, deadline) == -ETIMEDOUT)
            return;
        loaded = atomic_load(&space->group_loaded);
    }
}
