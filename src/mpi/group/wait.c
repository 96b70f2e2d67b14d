/* src/mpi/group/wait.c: waits for other ranks in shared memory. */
#include "mpi/group/group.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "arch/syscall.h"
#include "base/futex.h"
#include "base/proc.h"
#include "mpi/pmpi/message.h"
#include "onespace.h"

enum {
    SPINS_OVERSUBSCRIBED = 16, /* take about as long as yielding the CPU */
    SPINS_OWN_CPU = 16384,     /* about a millisecond */
    SLEEP_NS = 20000,          /* the kernel adds one to two times as much */
    PROGRESS_FROM_SPIN = 1024, /* most waits are over by then */
    PROGRESS_EVERY_SPINS = 32, /* polling MPI's queues costs about as much as these spins */
    PROGRESS_EVERY_YIELDS = 8, /* Open MPI may yield in its poll, too */
    /* Between checks that all ranks are alive, which read a file per rank of another space. The
     * interval doubles from check to check. */
    CHECK_INTERVAL_MIN_MS = 10,
    CHECK_INTERVAL_MAX_MS = 320,
    LAUNCHER_KILL_MS = 500, /* from the discovery of a dead rank to the error */
};

static int is_dead(const struct group *group, int rank)
{
    if (group->is_one_space)
        return onespace_pid(group->members[rank]) == -ESRCH;
    return group->pids[rank] && proc_has_ended(group->pids[rank]);
}

static int fail(const struct wait *wait)
{
    const struct group *group = wait->group;
    int rank = wait->lost_rank;
    layer_message(group->rank,
                  "rank %d of the communicator has ended (%s %d): this operation was aborted", rank,
                  group->is_one_space ? "task" : "process",
                  group->is_one_space ? group->members[rank] : group->pids[rank]);
    return MPI_ERR_OTHER;
}

static void find_lost_rank(struct wait *wait, uint64_t now)
{
    const struct group *group = wait->group;
    for (int rank = 0; group->ranks > 1 && rank < group->ranks && !wait->lost_ns; rank++)
        if (rank != group->rank && is_dead(group, rank) &&
            (!wait->needs || wait->needs(wait->context, rank))) {
            wait->lost_ns = now;
            wait->lost_rank = rank;
        }
}

/* By time, not by rounds: one round may take a time slice of every other process. */
static int check_when_due(struct wait *wait)
{
    const uint64_t ms = 1000000;
    uint64_t now = futex_now_ns();
    if (wait->lost_ns)
        return now - wait->lost_ns < LAUNCHER_KILL_MS * ms ? MPI_SUCCESS : fail(wait);
    if (now < wait->next_check_ns)
        return MPI_SUCCESS;
    int is_first = wait->next_check_ns == 0;
    wait->check_interval_ns = is_first ? CHECK_INTERVAL_MIN_MS * ms
                              : wait->check_interval_ns < CHECK_INTERVAL_MAX_MS * ms
                                  ? 2 * wait->check_interval_ns
                                  : wait->check_interval_ns;
    wait->next_check_ns = now + wait->check_interval_ns;
    if (!is_first)
        find_lost_rank(wait, now);
    return MPI_SUCCESS;
}

uint32_t wait_spin_limit(int is_oversubscribed)
{
    return is_oversubscribed ? SPINS_OVERSUBSCRIBED : SPINS_OWN_CPU;
}

static void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){0, (long)ns}, NULL);
}

/* A rank that only yields gets as much time as one that computes: the scheduler sees two that are
 * always ready to run. So after a millisecond the rank sleeps instead, for a sixteenth of the time
 * that it has waited: it notices the end of the wait later by that much at most. */
enum { BACKOFF_YIELD_NS = 1000000, BACKOFF_SHARE = 16, BACKOFF_SLEEP_MAX_NS = 1000000 };

void backoff_wait(struct backoff *backoff)
{
    uint64_t now = futex_now_ns();
    if (!backoff->since_ns)
        backoff->since_ns = now;
    uint64_t waited = now - backoff->since_ns;
    if (waited < BACKOFF_YIELD_NS)
        sched_yield();
    else
        sleep_ns(waited / BACKOFF_SHARE < BACKOFF_SLEEP_MAX_NS ? waited / BACKOFF_SHARE
                                                               : BACKOFF_SLEEP_MAX_NS);
}

static void yield_cpu(struct wait *wait)
{
    if (wait->is_for_io)
        sleep_ns(SLEEP_NS);
    else if (wait->group->is_oversubscribed)
        backoff_wait(&wait->backoff);
    else
        sched_yield();
}

int wait_round(struct wait *wait)
{
    uint32_t round = ++wait->rounds,
             spins = wait->is_for_io ? SPINS_OVERSUBSCRIBED : wait->group->spin_limit;
    if (round < spins && (round < PROGRESS_FROM_SPIN || round % PROGRESS_EVERY_SPINS)) {
        arch_pause();
        return MPI_SUCCESS;
    }
    /* Another rank may be sending to this one, and arrive only afterwards. */
    int is_due =
        round < spins || (round - spins) % PROGRESS_EVERY_YIELDS == PROGRESS_EVERY_YIELDS - 1;
    int result = is_due ? progress_step() : MPI_SUCCESS;
    if (is_due)
        progress_help_others(&wait->asked);
    if (result != MPI_SUCCESS || round < spins)
        return result;
    yield_cpu(wait);
    return check_when_due(wait);
}

/* ---- Barrier ---- */

uint32_t barrier_arrive(struct barrier *barrier, int ranks)
{
    /* Relaxed: the generation cannot end before this rank has arrived. */
    uint32_t generation = atomic_load_explicit(&barrier->generation, memory_order_relaxed);
    /* Acquire-release: the last rank sees the writes of all and publishes them with the generation.
     */
    if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1 ==
        (uint32_t)ranks) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&barrier->generation, generation + 1, memory_order_release);
    }
    return generation;
}

int barrier_await(struct barrier *barrier, uint32_t ticket, struct wait *wait)
{
    int result = MPI_SUCCESS;
    while (result == MPI_SUCCESS &&
           atomic_load_explicit(&barrier->generation, memory_order_acquire) == ticket)
        result = wait_round(wait);
    if (result != MPI_SUCCESS)
        atomic_store_explicit(&barrier->is_broken, 1, memory_order_relaxed);
    else if (atomic_load_explicit(&barrier->is_broken, memory_order_relaxed))
        result = MPI_ERR_OTHER;
    return result;
}
