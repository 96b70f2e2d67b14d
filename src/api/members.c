/* src/api/members.c: members: which they are, the barrier, signals, and collecting their status. */
#include "onespace.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/delay.h"
#include "base/futex.h"
#include "base/page.h"
#include "space/child.h"
#include "space/intervals.h"
#include "space/member.h"
#include "space/registry.h"

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
        uint32_t state = slot_state(slot);
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
    if (pid && slot && slot_is_thread(slot))
        pid = atomic_load(&slot->pid); /* of the process */
    return pid ? pid : -ESRCH;
}

int onespace_is_member(int id)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    const struct space_slot *slot = slot_find(space, id);
    int is_alive = slot && slot_is_alive(slot_state(slot));
    return is_alive && slot_find(space, id) == slot; /* still the same task? */
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
    if (slot && slot_is_thread(slot))
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
        if (slot_state(slot) != SLOT_FREE &&
            intervals_overlap(slot, INTERVALS_OUT_OF_RANGE, (uintptr_t)address,
                              (uintptr_t)address + 1))
            index = i;
    }
    return index == LAYOUT_SLOTS ? ONESPACE_ROOT : atomic_load(&space->slots[index].id);
}

/* ---- The barrier of tasks that were started together (space/member_group.c) ---- */

int onespace_barrier(int timeout_ms)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    struct space_slot *self = space_self();
    if (self->number < 0 || self->ntasks < 1)
        return -ENOENT;
    uint64_t deadline = futex_deadline(timeout_ms);
    uint32_t generation;
    int result = group_arrive(&space->barrier, self, &generation);
    if (result != 0)
        return result < 0 ? result : 0;
    result = group_wait(&space->barrier, generation, deadline);
    return result == -ETIMEDOUT ? group_withdraw(&space->barrier, generation) : result;
}

/* ---- Collecting the status of ended tasks ---- */

/* Whether the caller may wait for the task. If the task never entered its program, the spawning
 * thread reports the failure and collects it. */
static int may_wait_for(const struct space_slot *slot, int32_t me)
{
    return slot->spawner == me && !(slot->flags & ONESPACE_SPAWN_DETACHED) &&
           atomic_load(&slot->child_result) == 1;
}

/* Whether a slot of this state has a task, alive or ended, whose status the caller can collect. */
static int has_status_for(const struct space_slot *slot, uint32_t state, int32_t me)
{
    uint32_t kind = state & SLOT_STATE_MASK;
    return kind >= SLOT_STARTING && kind <= SLOT_ENDED && may_wait_for(slot, me);
}

/* Collects the status if the task has ended: its id, 0 if it lives, or -ECHILD if it is not the
 * caller's. Another thread may collect it at any moment, after which the slot may be another
 * task's: all that is read here counts only if `state`, which names the use of the slot, is still
 * the same when it is exchanged. `id`: whose, or ONESPACE_ANY. */
static int collect(struct space_slot *slot, int32_t me, int id, struct onespace_status *status)
{
    /* Acquire: what the reaper wrote before is seen below. */
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    struct onespace_status found = {
        .id = atomic_load(&slot->id),
        .pid = atomic_load(&slot->pid),
        .status = slot->status,
        .by_exit = WIFEXITED(slot->status) && atomic_load(&slot->called_exit),
        .user_us = slot->user_us,
        .system_us = slot->system_us,
        .copies = atomic_load(&slot->stats.cma_calls),
        .copied_bytes = atomic_load(&slot->stats.cma_bytes),
        .kernel_copies = atomic_load(&slot->stats.cma_kernel_calls),
        .collectives = atomic_load(&slot->stats.mpi_collectives),
        .attaches = atomic_load(&slot->stats.xpmem_attaches),
    };
    if (!has_status_for(slot, state, me) || (id != ONESPACE_ANY && found.id != id))
        return -ECHILD;
    if ((state & SLOT_STATE_MASK) != SLOT_ENDED)
        return 0;
    DELAY("wait.collect");
    if (state != slot_ended(found.id) ||
        !atomic_compare_exchange_strong(&slot->state, &state, SLOT_COLLECTED))
        return -ECHILD; /* another thread was faster */
    slot_free_if_done(slot);
    if (status)
        *status = found;
    return found.id;
}

static int collect_id(struct space *space, int32_t me, int id, struct onespace_status *status)
{
    struct space_slot *slot = slot_find(space, id);
    return !slot || id == ONESPACE_ROOT ? -ECHILD : collect(slot, me, id, status);
}

/* The caller's task that ended first; NULL: none has. The first scan may pass a task that is alive,
 * and then find a later end than its: the second one sees both. */
static struct space_slot *find_first_ended(struct space *space, int32_t me)
{
    struct space_slot *first = NULL;
    uint32_t lowest = 0, highest = atomic_load(&space->highest);
    for (int scan = 0; scan < 2 && (scan == 0 || first); scan++)
        for (uint32_t i = 1; i <= highest; i++) {
            struct space_slot *slot = &space->slots[i];
            /* Acquire, pairs with the reaper's release: the ends before this one are seen, too. */
            uint32_t order = atomic_load_explicit(&space->end_order[i], memory_order_acquire);
            if (!order || (first && (int32_t)(order - lowest) >= 0))
                continue;
            if (slot_state(slot) == SLOT_ENDED && may_wait_for(slot, me)) {
                first = slot;
                lowest = order;
            }
        }
    return first;
}

static int collect_any(struct space *space, int32_t me, struct onespace_status *status)
{
    struct space_slot *first;
    while ((first = find_first_ended(space, me))) {
        _Atomic uint32_t *order = &space->end_order[slot_index(space, first)];
        uint32_t seen = atomic_load(order);
        int found = collect(first, me, ONESPACE_ANY, status);
        if (found > 0) { /* the next scans pass it quickly, unless it has another task by now */
            atomic_compare_exchange_strong(order, &seen, 0);
            return found;
        }
    }
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++)
        if (has_status_for(&space->slots[i], slot_state(&space->slots[i]), me))
            return 0;
    return -ECHILD;
}

int onespace_wait(int id, struct onespace_status *status, int timeout_ms)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    int32_t me = atomic_load(&space_self()->id);
    uint64_t deadline = futex_deadline(timeout_ms);
    for (;;) {
        /* Acquire, pairs with futex_bump after each end. */
        uint32_t seen = atomic_load_explicit(&space->ends, memory_order_acquire);
        int result =
            id == ONESPACE_ANY ? collect_any(space, me, status) : collect_id(space, me, id, status);
        if (result != 0)
            return result;
        result = reaper_await(space, space_self(), &space->ends, seen, deadline);
        if (result < 0)
            return result;
    }
}
