/* src/parallel/barrier.c: the team's barrier, its wait loop, and the detection of dead members.
 *
 * If every task has a CPU, a member spins for about ten times as long as sleeping and waking take.
 * After that, or if CPUs are oversubscribed, it sleeps on a futex. It wakes at least every 50 ms to
 * check that all members live, because the kernel wakes no sleeper when a peer is killed. */
#include "parallel/team.h"

#include <errno.h>
#include <sched.h>

#include "base/delay.h"
#include "base/futex.h"
#include "onespace.h"
#include "space/member.h"

enum { SPINS = 20000, OVERSUBSCRIBED_SPINS = 50, SPINS_PER_CHECK = 4096, SLEEP_MS = 50 };

int member_has_ended(int id)
{
    if (id == ONESPACE_ROOT)
        return 0; /* the root's end would have ended the caller */
    const struct space_slot *slot = slot_find(space_mine(), id);
    return !slot || !slot_is_alive(slot_state(slot));
}

static int has_member_ended(const struct team_block *block, int number)
{
    int32_t id = atomic_load_explicit(&block->members[number].id, memory_order_acquire) - 1;
    if (id + 1 == TEAM_LEFT)
        return 0;
    if (id < 0) /* not joined yet: it may have ended before */
        return block->first >= 0 && onespace_task(block->first + number) == -EOWNERDEAD;
    /* A member that left may end: it stored TEAM_LEFT before. */
    return member_has_ended(id) &&
           atomic_load_explicit(&block->members[number].id, memory_order_acquire) - 1 == id;
}

static void wake_broken(struct team_block *block)
{
    atomic_fetch_or(&block->generation, TEAM_BROKEN);
    futex_wake(&block->generation, INT32_MAX);
}

int team_check_lost(struct onespace_parallel *team)
{
    struct team_block *block = team->block;
    for (int i = 0; i < team->count && !atomic_load(&block->lost); i++) {
        uint32_t none = 0;
        if (has_member_ended(block, i))
            atomic_compare_exchange_strong(&block->lost, &none, (uint32_t)i + 1);
    }
    if (!atomic_load(&block->lost))
        return 0;
    wake_broken(block);
    return -EOWNERDEAD;
}

void team_break(struct team_block *block, int number)
{
    uint32_t none = 0;
    atomic_compare_exchange_strong(&block->lost, &none, (uint32_t)number + 1);
    wake_broken(block);
}

/* Returns whether the barrier that began with this word is complete. A broken team completes none.
 */
static int is_complete(const struct team_block *block, uint32_t generation)
{
    return (atomic_load(&block->generation) | TEAM_BROKEN) != (generation | TEAM_BROKEN);
}

/* `generation` has no TEAM_BROKEN, so that a broken team changes the word. */
static void sleep_on_generation(struct team_block *block, uint32_t generation)
{
    atomic_fetch_add(&block->sleepers, 1);
    if (atomic_load(&block->generation) == generation) {
        DELAY("team.sleep");
        futex_wait(&block->generation, generation, futex_deadline(SLEEP_MS));
    }
    atomic_fetch_sub(&block->sleepers, 1);
}

static int await_barrier(struct onespace_parallel *team, uint32_t generation)
{
    struct team_block *block = team->block;
    struct spin spin = {0};
    const unsigned limit = team->is_oversubscribed ? OVERSUBSCRIBED_SPINS : SPINS;
    while (!is_complete(block, generation)) {
        int is_spinning = spin_pause(&spin, limit);
        if (!is_spinning)
            sleep_on_generation(block, generation);
        else if (spin.count % SPINS_PER_CHECK)
            continue;
        /* A barrier that was completed counts, even if a member has ended since. */
        if (team_check_lost(team) < 0)
            return is_complete(block, generation) ? 0 : -EOWNERDEAD;
    }
    return 0;
}

int team_barrier(struct onespace_parallel *team)
{
    struct team_block *block = team->block;
    if (atomic_load(&block->lost))
        return -EOWNERDEAD;
    uint32_t generation = atomic_load(&block->generation) & ~(uint32_t)TEAM_BROKEN;
    if (atomic_fetch_add(&block->arrived, 1) + 1 < (uint32_t)team->count)
        return await_barrier(team, generation);
    atomic_store(&block->arrived, 0);
    atomic_store(&block->next_chunk, 0);
    atomic_fetch_add(&block->generation, TEAM_GENERATION);
    if (atomic_load(&block->sleepers) != 0)
        futex_wake(&block->generation, INT32_MAX);
    return 0;
}

int onespace_parallel_barrier(struct onespace_parallel *team)
{
    int result = team_check_barrier(team);
    return result ? result : team_barrier(team);
}

/* Compares the number of tasks that may run on the caller's CPUs with the number of CPUs of all of
 * them. The root counts only if it is a member: otherwise it waits for its tasks. */
void team_set_oversubscribed(struct onespace_parallel *team)
{
    struct space *space = space_mine();
    cpu_set_t own, task_cpus, all, common;
    int is_root_member = team->owner_id == ONESPACE_ROOT, sharing_tasks = 0;
    if (sched_getaffinity(0, sizeof(own), &own) != 0)
        return;
    all = own;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = is_root_member ? 0 : 1; i <= highest; i++) {
        int32_t pid = i == 0 ? space->root_pid : atomic_load(&space->pids[i]);
        if (pid <= 0 || (i > 0 && !slot_is_alive(slot_state(&space->slots[i]))) ||
            sched_getaffinity(pid, sizeof(task_cpus), &task_cpus) != 0)
            continue;
        CPU_AND(&common, &own, &task_cpus);
        if (CPU_COUNT(&common) == 0)
            continue;
        CPU_OR(&all, &all, &task_cpus);
        sharing_tasks++;
    }
    team->is_oversubscribed = sharing_tasks > CPU_COUNT(&all);
}
