/* src/space/member_group.c: the group of numbered tasks, and the words on which its members wait.
 *
 * Tasks that are started together have numbers and form a group. `space->group` names the current
 * one: its id in the upper half, below it its number of tasks and a count of joins. A slot belongs
 * to a group from group_join until group_leave, and `slot->group` is that group's id, otherwise 0.
 * The next group begins when no slot belongs to the current one.
 *
 * Members wait for one another on 64-bit words (`space->barrier`, `space->group_loaded`), so that a
 * task may be killed at any instruction and still leave them consistent:
 *
 *   bits 63..48  group        the lower bits of the id of the group that used the word last
 *   bits 47..32  generation   advanced when all have arrived *and* when a member leaves
 *   bit  31      broken       a member has left: all waits of this group fail
 *   bits 30..0   arrived      members that have arrived in this generation
 *
 * Waiters sleep on the upper half. Both events that end a wait change that half in the same
 * compare-and-swap that makes them visible, so a waiter that checked too early finds another futex
 * value and does not sleep. A word of an earlier group counts as a new generation with no arrivals.
 *
 * Writers: members (arrive, withdraw), the reaper and a spawner that fails (group_leave). All
 * orderings are sequentially consistent: a barrier publishes everything that its members wrote
 * before they arrived.
 *
 * Freestanding: runs in the reaper and in children. */
#include "space/member.h"

#include <errno.h>

#include "base/delay.h"
#include "base/futex.h"

enum { LOAD_TIMEOUT_MS = 2000 };

/* ---- The group: space->group is id << 32 | tasks << 16 | joins ---- */

static uint32_t id_of(uint64_t group)
{
    return (uint32_t)(group >> 32);
}

static uint32_t ntasks_of(uint64_t group)
{
    return (uint32_t)group >> 16;
}

static uint64_t count_join(uint64_t group)
{
    return (group & ~UINT64_C(0xffff)) | ((group + 1) & 0xffff);
}

/* Skips the id 0, which means no group. */
static uint64_t next_group(uint64_t group, uint32_t ntasks)
{
    const uint64_t one = UINT64_C(0x100000000);
    uint64_t next = (group & ~(one - 1)) + one;
    return (next ? next : one) | ntasks << 16;
}

/* Reads the slots. A counter would stay wrong if a spawner were killed between a slot and the
 * counter. */
static int has_members(struct space *space, uint32_t id, const struct space_slot *joining)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; id && i <= highest; i++)
        if (&space->slots[i] != joining && atomic_load(&space->slots[i].group) == id)
            return 1;
    return 0;
}

/* Several threads may spawn at once. Each stores the id in its slot before it counts its join in
 * `space->group`, so a thread that has found no members begins the next group only if none has
 * joined meanwhile. If threads begin one at the same time, one succeeds and the others join
 * it. A slot whose spawner dies in between belongs to the group until the reaper finds it. */
void group_join(struct space *space, struct space_slot *slot)
{
    uint32_t ntasks = (uint32_t)slot->ntasks;
    _Atomic uint32_t *started = &space->group_started[(uint32_t)slot->number % LAYOUT_SLOTS];
    uint32_t stored = 0; /* the group in which this call has set `started` */
    DELAY("group.join");
    uint64_t group = atomic_load(&space->group);
    for (;;) {
        uint32_t id = id_of(group);
        int was_started = atomic_load(started) == id && stored != id;
        int is_other = !id || ntasks != ntasks_of(group) || was_started;
        if (is_other && !has_members(space, id, slot)) {
            DELAY("group.begin");
            atomic_compare_exchange_strong(&space->group, &group, next_group(group, ntasks));
            group = atomic_load(&space->group);
            continue;
        }
        atomic_store(&slot->group, id);
        if (!was_started) {
            atomic_store(started, id);
            stored = id;
        }
        DELAY("group.count");
        if (atomic_compare_exchange_strong(&space->group, &group, count_join(group)))
            return;
    }
}

uint32_t group_ntasks(const struct space *space)
{
    return ntasks_of(atomic_load(&space->group));
}

int group_has_started(const struct space *space, uint32_t number)
{
    return number < LAYOUT_SLOTS &&
           atomic_load(&space->group_started[number]) == id_of(atomic_load(&space->group));
}

/* ---- The words on which members wait ---- */

#define BROKEN          (UINT64_C(1) << 31)
#define ARRIVED_MASK    (BROKEN - 1)
#define GENERATION_ONE  (UINT64_C(1) << 32)
#define GENERATION_MASK (UINT64_C(0xffff) << 32)
#define GROUP_SHIFT     48
#define GROUP_MASK      (UINT64_C(0xffff) << GROUP_SHIFT)

/* The half that waiters sleep on: group and generation. */
static uint32_t generation_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static const void *generation_address(const _Atomic uint64_t *word)
{
    return (const char *)word + 4; /* little-endian */
}

/* The next generation of the same group, with no arrivals. */
static uint64_t next_generation(uint64_t word)
{
    return (word & GROUP_MASK) | ((word + GENERATION_ONE) & GENERATION_MASK);
}

/* The word as this group sees it, because an earlier group may have used it last. A later group
 * cannot have, because none begins before all members of this one have left. */
static uint64_t word_of_group(uint64_t word, uint32_t group)
{
    uint64_t tag = (uint64_t)group << GROUP_SHIFT;
    return (word & GROUP_MASK) == tag ? word : tag | (next_generation(word) & GENERATION_MASK);
}

static void break_word(_Atomic uint64_t *word, uint32_t group)
{
    uint64_t old = atomic_load(word), now;
    do {
        now = word_of_group(old, group);
        if (now & BROKEN)
            return;
        now = next_generation(now) | BROKEN;
    } while (!atomic_compare_exchange_weak(word, &old, now));
    futex_wake(generation_address(word), INT32_MAX);
}

/* Takes the slot out of the group last, so that the next group finds the words broken. */
void group_leave(struct space *space, struct space_slot *slot)
{
    uint32_t group = atomic_load(&slot->group);
    if (!group)
        return;
    break_word(&space->barrier, group);
    break_word(&space->group_loaded, group);
    atomic_store(&slot->group, 0);
}

int group_arrive(_Atomic uint64_t *word, const struct space_slot *self, uint32_t *generation)
{
    uint32_t group = atomic_load(&self->group);
    uint64_t old = atomic_load(word), now, next;
    int is_last;
    do {
        now = word_of_group(old, group);
        if (!group || (now & BROKEN))
            return -EOWNERDEAD;
        is_last = (now & ARRIVED_MASK) + 1 >= (uint64_t)self->ntasks;
        next = is_last ? next_generation(now) : now + 1;
    } while (!atomic_compare_exchange_weak(word, &old, next));
    *generation = generation_of(now);
    if (is_last)
        futex_wake(generation_address(word), INT32_MAX);
    return is_last;
}

/* How the wait in that generation has ended: 0 or -EOWNERDEAD. If it was completed, the next
 * generation is not broken; a member that leaves right afterwards advances the word once more. */
static int result_of(uint64_t now, uint32_t generation)
{
    uint32_t next = generation_of(next_generation((uint64_t)generation << 32));
    return (now & BROKEN) && generation_of(now) == next ? -EOWNERDEAD : 0;
}

int group_wait(_Atomic uint64_t *word, uint32_t generation, uint64_t deadline)
{
    for (int timed_out = 0;;) {
        uint64_t now = atomic_load(word);
        if (generation_of(now) != generation)
            return result_of(now, generation);
        if (timed_out)
            return -ETIMEDOUT;
        DELAY("group.wait");
        timed_out = futex_wait(generation_address(word), generation, deadline) == -ETIMEDOUT;
    }
}

int group_withdraw(_Atomic uint64_t *word, uint32_t generation)
{
    uint64_t now = atomic_load(word);
    do
        if (generation_of(now) != generation)
            return result_of(now, generation);
    while (!atomic_compare_exchange_weak(word, &now, now - 1));
    return -ETIMEDOUT;
}

/* Loading libraries takes the address space's lock hundreds of times. A rank that has finished and
 * spins on its peers would keep the lock's holders off the CPU, so all sleep here until the last
 * one has finished. A performance hint: the wait ends early when a member ends or time is up. */
void group_wait_loaded(struct space *space, const struct space_slot *self)
{
    uint32_t generation;
    uint64_t deadline = futex_deadline(LOAD_TIMEOUT_MS);
    if (group_arrive(&space->group_loaded, self, &generation) == 0)
        (void)group_wait(&space->group_loaded, generation, deadline);
}
