/* src/space/api.c: the calls that look things up in the registry and share memory by name. */
#include "onespace.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "space/exports.h"
#include "space/futex.h"
#include "space/holds.h"
#include "space/registry.h"
#include "space/locking.h"
#include "task/birth.h"

static_assert(SPACE_FLAG_THREAD == ONESPACE_SPAWN_THREAD, "one flag, two headers");

int onespace_self(void)
{
    struct space_slot *self = space_self();
    return self ? atomic_load(&self->id) : -EPERM;
}

int onespace_number(void)
{
    struct space_slot *self = space_self();
    return !self ? -EPERM : self->number < 0 ? -ENOENT : self->number;
}

int onespace_ntasks(void)
{
    struct space_slot *self = space_self();
    return !self ? -EPERM : self->ntasks < 0 ? -ENOENT : self->ntasks;
}

int onespace_spawner(void **data)
{
    struct space_slot *self = space_self();
    if (!self)
        return -EPERM;
    const struct birth *birth = (const struct birth *)self->birth_record;
    if (!birth)
        return -ENOENT;
    if (data)
        *data = birth->data;
    return self->spawner;
}

int onespace_task(int number)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    if (number < 0 || (uint32_t)number >= atomic_load(&space->group_ntasks))
        return -EINVAL;
    /* Asked first: who is in no slot afterwards was there and has gone. */
    uint32_t word = atomic_load(&space->group_numbers[number / 32]);
    int started = (word >> number % 32 & 1) != 0;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        const struct space_slot *slot = &space->slots[i];
        uint32_t state = space_state(slot);
        if (slot->number != number)
            continue;
        if (state == SLOT_BORN || state == SLOT_RUNNING)
            return atomic_load(&slot->id);
        started &= state != SLOT_CLAIMED;
    }
    return started ? -EOWNERDEAD : -ESRCH;
}

/* The pid of a live task's process, or 0. */
static int pid_of(struct space *space, int id)
{
    struct space_slot *slot = space_slot(space, id);
    if (!slot)
        return 0;
    int pid = atomic_load(&space->pids[space_index(id)]);
    return space_slot(space, id) ? pid : 0; /* still the same task? */
}

int onespace_pid(int id)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    int pid = pid_of(space, id);
    struct space_slot *slot = space_slot(space, id);
    if (pid && slot && space_is_thread(slot))
        pid = atomic_load(&slot->pid); /* of the process */
    return pid ? pid : -ESRCH;
}

int onespace_kill(int id, int signal)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    int pid = pid_of(space, id);
    if (!pid)
        return -ESRCH;
    struct space_slot *slot = space_slot(space, id);
    if (slot && space_is_thread(slot))
        return syscall(SYS_tgkill, atomic_load(&slot->pid), pid, signal) == 0 ? 0 : -errno;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) /* before Linux 5.3 */
        return kill(pid, signal) == 0 ? 0 : -errno;
    /* The task was not reaped when the descriptor was opened if it is not now: no stranger is hit.
     */
    int result = -ESRCH;
    if (pid_of(space, id) == pid)
        result = syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0) == 0 ? 0 : -errno;
    close(pidfd);
    return result;
}

const uint32_t *onespace_watch(int id)
{
    struct space *space = space_mine();
    struct space_slot *slot = space ? space_slot(space, id) : NULL;
    return slot ? (const uint32_t *)&slot->ended : NULL;
}

int onespace_owner(const void *address)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    unsigned char present;
    uintptr_t page = (uintptr_t)address & ~(uintptr_t)4095;
    if (syscall(SYS_mincore, page, 4096, &present) != 0)
        return -ENOENT;
    unsigned index = layout_slot_of((uintptr_t)address);
    if (index == 0)
        return ONESPACE_ROOT;
    uint32_t highest = atomic_load(&space->highest);
    for (unsigned i = 1; index == LAYOUT_SLOTS && i <= highest; i++) {
        const struct space_slot *slot = &space->slots[i];
        for (unsigned f = 0; space_state(slot) != SLOT_FREE && f < SPACE_FOREIGN_MAX; f++) {
            struct space_foreign entry = slot->steer.foreign[f];
            if (entry.start <= (uintptr_t)address && (uintptr_t)address < entry.end)
                index = i;
        }
    }
    return index == LAYOUT_SLOTS ? ONESPACE_ROOT : atomic_load(&space->slots[index].id);
}

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
        result = locking_begin();
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

/* A name that is there is good as long as its owner is, or as its spawner holds the memory from the
 * start: all is looked at under a hold. */
static int import_now(struct space *space, struct space_slot *owner, int id, const char *name,
                      void **address, uint64_t *size)
{
    struct space_slot *self = space_self();
    long result = holds_take(space, owner, self);
    if (result < 0)
        return (int)result;
    uint32_t state = space_state(owner);
    if (space_slot(space, id) != owner)
        result = -ESRCH;
    else if (state == SLOT_RUNNING || state == SLOT_BORN)
        result = exports_find(space, id, name, address, size);
    else if (state == SLOT_LEFT || !(owner->flags & ONESPACE_SPAWN_HOLD) ||
             exports_find(space, id, name, address, size) != 0)
        result = -EOWNERDEAD;
    if (result < 0)
        (void)holds_give(space, owner, self);
    return (int)result;
}

int onespace_import(int id, const char *name, void **address, size_t *size, int timeout_ms)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    int result = !address ? -EINVAL : check_name(name);
    if (result == 0)
        result = locking_begin();
    if (result < 0)
        return result;
    uint64_t deadline = futex_deadline(timeout_ms), found_size = 0;
    void *found = NULL;
    for (;;) {
        /* Acquire: pairs with the bump after an export or an end. */
        uint32_t seen = atomic_load_explicit(&space->names, memory_order_acquire);
        struct space_slot *owner = space_slot(space, id);
        if (!owner)
            return -ESRCH;
        result = import_now(space, owner, id, name, &found, &found_size);
        if (result == -ENOENT && owner == space_self() && timeout_ms != 0)
            return -EDEADLK;
        if (result != -ENOENT)
            break;
        if (timeout_ms == 0 || futex_wait(&space->names, seen, deadline) == -ETIMEDOUT)
            return -ETIMEDOUT;
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
    struct space_slot *owner = space_slot(space, id);
    long result = owner ? holds_take(space, owner, space_self()) : -ESRCH;
    if (result == 0 && space_slot(space, id) != owner) { /* it went before it was held */
        (void)holds_give(space, owner, space_self());
        result = -ESRCH;
    }
    return (int)result;
}

int onespace_release(int id)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    struct space_slot *owner = &space->slots[space_index(id)];
    if (id < 0 || atomic_load(&owner->id) != id)
        return -EINVAL;
    return (int)holds_give(space, owner, space_self());
}
