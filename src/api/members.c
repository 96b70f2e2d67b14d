/* src/api/members.c: who the caller is, and what is known of other members. */
#include "onespace.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/page.h"
#include "space/child.h"
#include "space/member.h"
#include "space/intervals.h"

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
    const struct child *child = (const struct child *)self->child_record;
    if (!child)
        return -ENOENT;
    if (data)
        *data = child->data;
    return self->spawner;
}

int onespace_task(int number)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    if (number < 0 || (uint32_t)number >= group_ntasks(space))
        return -EINVAL;
    /* Read before the slots: a task that was started by then and is in no slot now has ended. */
    int started = group_has_started(space, (uint32_t)number);
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        const struct space_slot *slot = &space->slots[i];
        uint32_t state = space_state(slot);
        if (slot->number != number)
            continue;
        if (slot_is_alive(state))
            return atomic_load(&slot->id);
        started &= state != SLOT_CLAIMED;
    }
    return started ? -EOWNERDEAD : -ESRCH;
}

/* The pid of a live task's process, or 0. */
static int pid_of(struct space *space, int id)
{
    struct space_slot *slot = slot_find(space, id);
    if (!slot)
        return 0;
    int pid = atomic_load(&space->pids[slot_index_of_id(id)]);
    return slot_find(space, id) ? pid : 0; /* still the same task? */
}

int onespace_pid(int id)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    int pid = pid_of(space, id);
    struct space_slot *slot = slot_find(space, id);
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
    struct space_slot *slot = slot_find(space, id);
    if (slot && space_is_thread(slot))
        return syscall(SYS_tgkill, atomic_load(&slot->pid), pid, signal) == 0 ? 0 : -errno;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) /* before Linux 5.3 */
        return kill(pid, signal) == 0 ? 0 : -errno;
    /* If the task is not reaped now, it was not when the descriptor was opened: the descriptor is
     * its own, not that of another process with the same pid. */
    int result = -ESRCH;
    if (pid_of(space, id) == pid)
        result = syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0) == 0 ? 0 : -errno;
    close(pidfd);
    return result;
}

const uint32_t *onespace_watch(int id)
{
    struct space *space = space_mine();
    struct space_slot *slot = space ? slot_find(space, id) : NULL;
    return slot ? (const uint32_t *)&slot->ended : NULL;
}

int onespace_owner(const void *address)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    unsigned char present;
    if (syscall(SYS_mincore, page_floor((uintptr_t)address), ARCH_PAGE, &present) != 0)
        return -ENOENT;
    unsigned index = layout_slot_of((uintptr_t)address);
    if (index == 0)
        return ONESPACE_ROOT;
    uint32_t highest = atomic_load(&space->highest);
    for (unsigned i = 1; index == LAYOUT_SLOTS && i <= highest; i++) {
        const struct space_slot *slot = &space->slots[i];
        if (space_state(slot) != SLOT_FREE &&
            intervals_overlap(slot, INTERVALS_OUT_OF_RANGE, (uintptr_t)address,
                              (uintptr_t)address + 1))
            index = i;
    }
    return index == LAYOUT_SLOTS ? ONESPACE_ROOT : atomic_load(&space->slots[index].id);
}
