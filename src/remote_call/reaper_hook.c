/* src/remote_call/reaper_hook.c: the reaper's work on calls when a member has ended. Freestanding.
 *
 * A member may be on both sides. Calls into it must be aborted (remote_call.h). Its own threads may
 * have died in calls into other members, whose donors cannot be used again. */
#include "remote_call/remote_call.h"

#include "base/futex.h"
#include "space/member.h"

void donor_discard(struct call_donor *donor, enum donor_state kind)
{
    atomic_store(&donor->state, kind);
    futex_bump(&donor->wake);
}

/* A signal aborts calls into ended members. The reaper repeats it, because the handler does nothing
 * while the thread handles another signal, and because the user's limit of pending signals may be
 * reached. The repetitions also find a donor that was released while its member ended, which
 * wakes no waiter. They are bounded: a thread may have abandoned its call by a jump, or be in
 * nested calls for long. Such a thread notices the end when those return, and notifies the reaper
 * (call.c). */
enum {
    FAST_POLL_NS = 1000000,
    SLOW_POLL_NS = 20000000,
    FAST_POLLS = 20,
    POLLS_MAX = 500,
};
static unsigned polls_remaining; /* only the reaper uses it; 0: no call needs a signal */

/* Signals all threads in calls into the member. Returns whether there was one. */
static int signal_borrowers(struct space *space, struct call_member *member)
{
    int found = 0;
    for (unsigned i = 0; i < CALL_DONORS; i++) {
        uint64_t state = atomic_load(&member->donors[i].state);
        if (donor_state_of(state) != DONOR_LENT)
            continue;
        int32_t process = atomic_load(&space->slots[donor_borrower_slot(state)].pid);
        raw(__NR_tgkill, process, donor_borrower_thread(state), CALL_SIGNAL);
        found = 1;
    }
    return found;
}

/* Hook `poll`: repeats the signals. Returns the time until the next poll, 0: none is needed. */
static uint64_t poll_borrowers(struct space *space)
{
    if (polls_remaining == 0 || !atomic_load(&space->calls)) { /* 0: the space is another one */
        polls_remaining = 0;
        return 0;
    }
    int found = 0;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 0; i <= highest; i++) {
        struct call_member *member = &call_table()->members[i];
        if (atomic_load(&member->gone))
            found |= signal_borrowers(space, member);
    }
    polls_remaining = found ? polls_remaining - 1 : 0;
    if (!found)
        atomic_store(&space->holds_changed, HOLDS_CHANGED); /* memory_reclaim is next */
    return polls_remaining == 0                       ? 0
           : polls_remaining > POLLS_MAX - FAST_POLLS ? FAST_POLL_NS
                                                      : SLOW_POLL_NS;
}

/* Aborts calls into the ended member, whose callers hold its memory. Either this function sees a
 * call, or the caller sees `gone`. */
static void abort_calls_into(struct space *space, struct call_member *member)
{
    atomic_store(&member->gone, 1);
    if (signal_borrowers(space, member))
        polls_remaining = POLLS_MAX;
    futex_bump(&member->ready); /* callers that wait for a donor see `gone` */
}

/* Discards the donors of other members that the ended member's threads had taken. */
static void discard_borrowed_donors(struct space *space, unsigned index)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 0; i <= highest; i++) {
        struct call_member *member = &call_table()->members[i];
        if (i == index || !atomic_load(&member->owner))
            continue;
        for (unsigned k = 0; k < CALL_DONORS; k++) {
            uint64_t state = atomic_load(&member->donors[k].state);
            if (donor_state_of(state) == DONOR_LENT && donor_borrower_slot(state) == index)
                donor_discard(&member->donors[k], DONOR_LOST);
        }
    }
    /* Some donors may belong to members that have ended. */
    atomic_store(&space->holds_changed, HOLDS_CHANGED);
}

static void member_ended(struct space *space, struct space_slot *slot)
{
    unsigned index = slot_index(space, slot);
    /* Acquire, pairs with the release in shared_table_map. */
    if (!atomic_load_explicit(&space->calls, memory_order_acquire))
        return;
    struct call_member *member = &call_table()->members[index];
    if (atomic_load(&member->owner) == (uint32_t)atomic_load(&slot->id) + 1)
        abort_calls_into(space, member);
    if (atomic_exchange(&member->calls, 0))
        discard_borrowed_donors(space, index);
}

/* Returns whether threads of other members are in the member's context. Later callers see that the
 * member has ended. */
static int holds_memory(struct space *space, const struct space_slot *slot)
{
    if (!atomic_load(&slot->was_called) || !atomic_load(&space->calls))
        return 0;
    const struct call_member *member = &call_table()->members[slot_index(space, slot)];
    for (unsigned i = 0; i < CALL_DONORS; i++)
        if (donor_state_of(atomic_load(&member->donors[i].state)) == DONOR_LENT)
            return 1;
    return 0;
}

const struct member_hooks call_hooks = {.space_ending = call_space_ends,
                                        .holds_memory = holds_memory,
                                        .ended = member_ended,
                                        .poll = poll_borrowers};
