/* src/api/share.c: share memory by name, and hold it. */
#include "onespace.h"

#include <errno.h>
#include <string.h>

#include "base/futex.h"
#include "base/page.h"
#include "space/member.h"

static int check_name(const char *name)
{
    if (!name || !*name)
        return -EINVAL;
    return strnlen(name, SPACE_EXPORT_NAME) == SPACE_EXPORT_NAME ? -ENAMETOOLONG : 0;
}

int onespace_export(const char *name, void *address, size_t size)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    int result = check_name(name);
    if (result == 0)
        result = force_libc_locking();
    if (result == 0)
        result = (int)exports_add(space, space_self(), name, address, size);
    if (result == 0)
        futex_bump(&space->names);
    return result;
}

int onespace_unexport(const char *name)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    int result = check_name(name);
    return result ? result : (int)exports_remove(space, space_self(), name);
}

/* A name is valid while its owner lives, and while the spawner holds the memory from the start
 * (ONESPACE_SPAWN_HOLD). Both are tested under a hold, so that neither changes meanwhile. */
static int import_now(struct space *space, struct space_slot *owner, int id, const char *name,
                      void **address, uint64_t *size)
{
    struct space_slot *self = space_self();
    long result = hold_take(space, owner, self);
    if (result < 0)
        return (int)result;
    uint32_t state = slot_state(owner);
    if (slot_find(space, id) != owner)
        result = -ESRCH;
    else if (slot_is_alive(state))
        result = exports_find(space, id, name, address, size);
    else if (state == SLOT_LEFT || !(owner->flags & ONESPACE_SPAWN_HOLD) ||
             exports_find(space, id, name, address, size) != 0)
        result = -EOWNERDEAD;
    if (result < 0)
        (void)hold_release(space, owner, self);
    return (int)result;
}

int onespace_import(int id, const char *name, void **address, size_t *size, int timeout_ms)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    int result = !address ? -EINVAL : check_name(name);
    if (result == 0)
        result = force_libc_locking();
    if (result < 0)
        return result;
    uint64_t deadline = futex_deadline(timeout_ms), found_size = 0;
    void *found = NULL;
    for (;;) {
        /* Acquire, pairs with futex_bump after an export or an end. */
        uint32_t seen = atomic_load_explicit(&space->names, memory_order_acquire);
        struct space_slot *owner = slot_find(space, id);
        if (!owner)
            return -ESRCH;
        result = import_now(space, owner, id, name, &found, &found_size);
        if (result == -ENOENT && owner == space_self() && timeout_ms != 0)
            return -EDEADLK;
        if (result != -ENOENT)
            break;
        result = reaper_await(space, space_self(), &space->names, seen, deadline);
        if (result < 0)
            return result;
    }
    if (result == 0) {
        *address = found;
        if (size)
            *size = found_size;
    }
    return result;
}

int onespace_hold(int id)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    struct space_slot *owner = slot_find(space, id);
    long result = owner ? hold_take(space, owner, space_self()) : -ESRCH;
    if (result == 0 && slot_find(space, id) != owner) { /* the member ended before it was held */
        (void)hold_release(space, owner, space_self());
        result = -ESRCH;
    }
    return (int)result;
}

int onespace_release(int id)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    struct space_slot *owner = &space->slots[slot_index_of_id(id)];
    if (id < 0 || atomic_load(&owner->id) != id)
        return -EINVAL;
    return (int)hold_release(space, owner, space_self());
}

int onespace_unmapping(const void *address, size_t size)
{
    struct space *space = space_mine();
    uintptr_t start = (uintptr_t)address, end = start + size;
    if (!space)
        return -EPERM;
    if (!size || end < start || end > INTERVAL_ADDRESSES - ARCH_PAGE)
        return -EINVAL;
    return (int)registrations_notify(space, space_self(), NOTIFY_OTHERS, page_floor(start),
                                     page_ceiling(end));
}
