/* src/api/wait.c: collect the status of ended tasks. */
#include "onespace.h"

#include <errno.h>
#include <sys/wait.h>

#include "base/delay.h"
#include "base/futex.h"
#include "space/registry.h"
#include "space/member.h"
#include "reaper/reaper.h"

/* Whether the caller may wait for the task. One that never entered its program is the spawning
 * thread's, which reports the failure and collects it. */
static int is_mine(const struct space_slot *slot, int32_t me)
{
    return slot->spawner == me && !(slot->flags & ONESPACE_SPAWN_DETACHED) &&
           atomic_load(&slot->child_result) == 1;
}

/* Collects the status if the task has ended: its id, 0 if it lives, or -ECHILD if it is not the
 * caller's. Another thread may collect it at any moment, after which the slot may be another
 * task's: all that is read here counts only if `state`, which names the use of the slot, is still
 * the same when it is exchanged. `id`: whose, or ONESPACE_ANY. */
static int collect(struct space_slot *slot, int32_t me, int id, struct onespace_status *status)
{
    /* Acquire: what the reaper wrote before is seen below. */
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    uint32_t kind = state & SLOT_STATE_MASK;
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
    if (kind < SLOT_STARTING || kind > SLOT_ENDED || !is_mine(slot, me) ||
        (id != ONESPACE_ANY && found.id != id))
        return -ECHILD;
    if (kind != SLOT_ENDED)
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

static int collect_one(struct space *space, int32_t me, int id, struct onespace_status *status)
{
    struct space_slot *slot = slot_find(space, id);
    return !slot || id == ONESPACE_ROOT ? -ECHILD : collect(slot, me, id, status);
}

static int collect_any(struct space *space, int32_t me, struct onespace_status *status)
{
    int result = -ECHILD;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        int found = collect(&space->slots[i], me, ONESPACE_ANY, status);
        if (found > 0)
            return found;
        if (found == 0)
            result = 0;
    }
    return result;
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
        int result = id == ONESPACE_ANY ? collect_any(space, me, status)
                                        : collect_one(space, me, id, status);
        if (result != 0)
            return result;
        if (timeout_ms == 0 || (deadline != UINT64_MAX && futex_now_ns() >= deadline))
            return -ETIMEDOUT;
        if (!reaper_is_alive(space)) {
            if (me == ONESPACE_ROOT)
                reaper_kill_survivors(space);
            return -EOWNERDEAD;
        }
        uint64_t slice = futex_deadline(1000); /* to notice a killed reaper */
        futex_wait(&space->ends, seen, slice < deadline ? slice : deadline);
    }
}
