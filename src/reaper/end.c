/* src/reaper/end.c: undo in the registry what an ended task did. Runs only in the reaper. */
#include "reaper/reaper.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/futex.h"
#include "onespace.h"
#include "space/member.h"

/* What is left of a task whose spawner has ended: it is the root's, or nobody's. The spawner may
 * have died right after it had collected the status, before it had freed the slot. */
static void orphan_child(struct space *space, struct space_slot *child)
{
    atomic_store(&child->orphan, 1);
    uint32_t ended = slot_ended(atomic_load(&child->id)); /* there is no waiter left */
    atomic_compare_exchange_strong(&child->state, &ended, SLOT_COLLECTED);
    if (space_state(child) == SLOT_ABORTING && atomic_load(&child->memory) == MEMORY_NONE)
        slot_free(space, child);
    else
        slot_free_if_done(child);
}

/* Undoes what the dead member was spawning, and leaves the tasks that it had spawned to the root.
 * Slots that others have CLAIMED meanwhile still have its id: they are left alone. */
static void orphan_children(struct space *space, struct space_slot *slot)
{
    if (!atomic_load(&slot->has_spawned))
        return;
    unsigned index = slot_index(space, slot);
    uint32_t highest = atomic_load(&space->highest);
    int32_t id = atomic_load(&slot->id);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *child = &space->slots[i];
        uint32_t state = atomic_load(&child->state), kind = state & SLOT_STATE_MASK;
        int not_started =
            (state == (SLOT_CLAIMED | index << 8)) ||
            (state == SLOT_STARTING && child->spawner == id && !atomic_load(&space->pids[i]));
        if (not_started) {
            group_leave(space, child);
            atomic_store(&child->state, SLOT_ABORTING);
            memory_release(space, &child, 1);
        } else if (kind >= SLOT_STARTING && kind <= SLOT_ABORTING && child->spawner == id) {
            orphan_child(space, child);
        }
    }
}

/* Undoes all of its membership except its memory. */
static void leave_space(struct space *space, struct space_slot *slot)
{
    debugger_unlink(slot);
    /* The names of an ended task that its spawner holds stay as long as its memory
     * (memory_release).
     */
    if (!(slot->flags & ONESPACE_SPAWN_HOLD) || space_state(slot) == SLOT_LEFT)
        exports_remove_all(space, slot);
    for (const struct member_hooks *const *layer = member_hooks; *layer; layer++)
        if ((*layer)->ended)
            (*layer)->ended(space, slot);
    hold_release_all(space, slot);
    group_leave(space, slot);
}

void member_left(struct space *space, struct space_slot *slot)
{
    thread_tasks_end_with_process(space, slot, SIGKILL);
    atomic_store(&slot->state, SLOT_LEFT);
    leave_space(space, slot);
    memory_release(space, &slot, 1);
    futex_bump(&space->names);
}

/* From ENDED on the slot is the waiter's and may be reused at any time. Everything else is
 * therefore done before; only waking, which is harmless in a reused slot, comes after. */
static void publish_status(struct space_slot *slot)
{
    int32_t unknown = 0; /* it died before it reported whether it entered its program */
    if (atomic_compare_exchange_strong(&slot->child_result, &unknown, -ECHILD))
        futex_wake(&slot->child_result, INT32_MAX);
    /* The spawner collects a child that never entered its program, whatever the flags. */
    int entered = atomic_load(&slot->child_result) == 1;
    int alone = atomic_load(&slot->orphan) || (entered && (slot->flags & ONESPACE_SPAWN_DETACHED));
    atomic_store(&slot->ended, 1);
    atomic_store(&slot->state, alone ? SLOT_COLLECTED : slot_ended(atomic_load(&slot->id)));
    if (alone)
        slot_free_if_done(slot);
    futex_wake(&slot->ended, INT32_MAX);
    futex_wake_shared(&slot->ended, INT32_MAX); /* onespace_watch: either kind of FUTEX_WAIT */
}

void members_ended(struct space *space, const struct member_end *ends, unsigned count)
{
    struct space_slot *members[MEMBER_ENDS_MAX] = {NULL}, *killed[MEMBER_ENDS_MAX] = {NULL};
    unsigned member_count = 0, killed_count = 0;
    for (unsigned i = 0; i < count; i++) {
        struct space_slot *slot = ends[i].slot;
        slot->status = ends[i].status;
        thread_tasks_end_with_process(space, slot, ends[i].status);
        atomic_store(&space->pids[slot_index(space, slot)], 0);
        if (space_state(slot) == SLOT_LEFT)
            continue;
        leave_space(space, slot);
        members[member_count++] = slot;
        if (WIFSIGNALED(ends[i].status))
            killed[killed_count++] = slot;
    }
    vfork_children_hold(space, killed, killed_count);
    memory_release(space, members, member_count);
    for (unsigned i = 0; i < count; i++) {
        orphan_children(space, ends[i].slot);
        publish_status(ends[i].slot);
    }
    futex_bump(&space->ends);
    futex_bump(&space->names); /* importers that wait for their names find them ended now */
}
