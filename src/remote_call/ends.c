/* src/remote_call/ends.c: what the reaper does for calls when a member has ended. Freestanding.
 *
 * A member may be both sides: others are in calls into it, which must be left (see table.h), and
 * its threads may have died in calls into others, whose lenders cannot be used again. */
#include "remote_call/table.h"

#include "base/futex.h"
#include "space/member.h"

void call_give_up(struct call_lender *lender, enum call_lender_kind kind)
{
    atomic_store(&lender->state, kind);
    futex_bump(&lender->wake);
}

/* Calls into ended members are left by a signal, which is sent again until they are: the handler
 * does nothing while the thread handles another signal, and the queue of signals that a user may
 * have pending may be full. Not for ever, as a thread may have left its call by a jump, or be in
 * further calls for long; it finds out itself when those return, and tells (call.c). Who gives a
 * lender back at the moment of the end tells nobody: it is found in one of these rounds. */
enum { SOON_NS = 1000000, LATER_NS = 20000000, SOON = 20, ROUNDS = 500 };
static unsigned
    rounds; /* only the reaper uses it: those that are left, 0: nobody is in such a call */

/* Whether anybody is in calls into the member. */
static int send_to_borrowers(struct space *space, struct call_member *member)
{
    int found = 0;
    for (unsigned i = 0; i < CALL_LENDERS; i++) {
        uint64_t state = atomic_load(&member->lenders[i].state);
        if (call_kind(state) != LENDER_LENT)
            continue;
        int32_t process = atomic_load(&space->slots[call_borrower(state)].pid);
        raw(__NR_tgkill, process, call_borrower_thread(state), CALL_SIGNAL);
        found = 1;
    }
    return found;
}

static uint64_t poll(struct space *space)
{
    if (rounds == 0 || !atomic_load(&space->calls)) { /* or it is of a space that has ended */
        rounds = 0;
        return 0;
    }
    int found = 0;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 0; i <= highest; i++) {
        struct call_member *member = &call_table()->members[i];
        if (atomic_load(&member->gone))
            found |= send_to_borrowers(space, member);
    }
    rounds = found ? rounds - 1 : 0;
    if (!found)
        atomic_store(&space->holds_changed, 1); /* memory_reclaim is next */
    return rounds == 0 ? 0 : rounds > ROUNDS - SOON ? SOON_NS : LATER_NS;
}

/* It served: its memory is held by those that are in calls, until they have left. Theirs are seen
 * here, or they see `gone`. */
static void stop_serving(struct space *space, struct call_member *member)
{
    atomic_store(&member->gone, 1);
    if (send_to_borrowers(space, member))
        rounds = ROUNDS;
    futex_bump(&member->ready); /* who waits for a lender finds that it is gone */
}

/* It called: what its threads had of others is given up. */
static void stop_calling(struct space *space, unsigned index)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 0; i <= highest; i++) {
        struct call_member *member = &call_table()->members[i];
        if (i == index || !atomic_load(&member->owner))
            continue;
        for (unsigned k = 0; k < CALL_LENDERS; k++) {
            uint64_t state = atomic_load(&member->lenders[k].state);
            if (call_kind(state) == LENDER_LENT && call_borrower(state) == index)
                call_give_up(&member->lenders[k], LENDER_LOST);
        }
    }
    atomic_store(&space->holds_changed, 1); /* some may be of members that have ended */
}

static void ended(struct space *space, struct space_slot *slot)
{
    unsigned index = slot_index(space, slot);
    /* Acquire, pairs with the release of who mapped the table. */
    if (!atomic_load_explicit(&space->calls, memory_order_acquire))
        return;
    struct call_member *member = &call_table()->members[index];
    if (atomic_load(&member->owner) == (uint32_t)atomic_load(&slot->id) + 1)
        stop_serving(space, member);
    if (atomic_exchange(&member->calls, 0))
        stop_calling(space, index);
}

/* Whether threads of other members are in the member's context. Callers that come later find that
 * it has ended. */
static int holds_memory(struct space *space, const struct space_slot *slot)
{
    if (!atomic_load(&slot->was_called) || !atomic_load(&space->calls))
        return 0;
    const struct call_member *member = &call_table()->members[slot_index(space, slot)];
    for (unsigned i = 0; i < CALL_LENDERS; i++)
        if (call_kind(atomic_load(&member->lenders[i].state)) == LENDER_LENT)
            return 1;
    return 0;
}

const struct member_hooks call_hooks = {
    .space_ending = call_space_ends, .holds_memory = holds_memory, .ended = ended, .poll = poll};
