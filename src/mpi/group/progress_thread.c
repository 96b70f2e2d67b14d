/* src/mpi/group/progress_thread.c: `onespace run --progress`: a rank that waits makes progress for
 * ranks that compute.
 *
 * An MPI library moves a large message, or the next part of a nonblocking collective operation,
 * only while the rank that it needs is in an MPI call. So each rank has a progress
 * thread, its helper, which sleeps. A rank that has waited for a while wakes the helper of a rank
 * that has made no progress for as long, binds it to the CPU that it runs on itself, and yields
 * until the helper sleeps again, which makes some steps in its rank's library meanwhile. Ranks that
 * compute keep their CPUs.
 *
 * The helper is an ordinary thread of its process: it has the rank's descriptors, thread-local
 * storage of its own, and calls MPI as MPI_THREAD_MULTIPLE allows. A function of another task,
 * called from the rank that waits, would be faster, but would use that rank's descriptors.
 *
 * tests/models/progress_thread.pml checks the word by which it is woken and ended. */
#include "mpi/group/group.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "arch/syscall.h"
#include "base/futex.h"
#include "mpi/pmpi/message.h"
#include "onespace.h"
#include "space/registry.h"

enum {
    INTERVAL_HALF_US = 40, /* between two requests of a rank, and from a rank's last step to one */
    MOST_INTERVALS = 500,  /* for which a rank gives its CPU to a helper */
    STEPS = 16,            /* Open MPI polls some transports in every eighth only */
};

/* Written once, by the thread that starts the helper: release; any thread reads it, acquire. */
static _Atomic enum { UNKNOWN, OFF, ON } state;
static struct space_slot *own;
static pthread_t thread;
static pid_t process; /* a forked child has no helper */

static int is_wanted(void)
{
    own = (struct space_slot *)getauxval(SPACE_AT_SLOT);
    return own && task_is_in_space() && (own->flags & ONESPACE_SPAWN_PROGRESS);
}

static void note_progress(uint64_t now)
{
    atomic_store_explicit(&own->progress_thread.progressed, now, memory_order_relaxed);
}

/* ---- The helper ---- */

static void *help(void *unused)
{
    struct space_progress_thread *helper = &own->progress_thread;
    (void)unused;
    prctl(PR_SET_NAME, "mpi-progress");
    atomic_store_explicit(&helper->tid, (int32_t)raw(__NR_gettid), memory_order_relaxed);
    atomic_store_explicit(&helper->state, PROGRESS_THREAD_ASLEEP, memory_order_release);
    futex_wake(&helper->state, 1); /* start_thread */
    for (;;) {
        /* Acquire: pairs with the compare-and-swap of the rank that waits, and with
         * progress_thread_stop. */
        uint32_t seen = atomic_load_explicit(&helper->state, memory_order_acquire);
        if (seen == PROGRESS_THREAD_NONE)
            break;
        if (seen == PROGRESS_THREAD_ASLEEP) {
            futex_wait(&helper->state, seen, UINT64_MAX);
            continue;
        }
        for (int i = 0; i < STEPS; i++)
            (void)progress_step(); /* an error is the program's next call's, too */
        note_progress(arch_ticks());
        /* Fails if progress_thread_stop was faster. */
        atomic_compare_exchange_strong(&helper->state, &seen, PROGRESS_THREAD_ASLEEP);
    }
    atomic_store(&helper->tid, 0);
    futex_wake(&helper->tid, 1); /* stop_at_exit */
    return NULL;
}

int layer_thread_start(pthread_t *made, void *(*function)(void *), void *argument)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t most, old;
    sigfillset(&most);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&most, faults[i]);
    pthread_sigmask(SIG_SETMASK, &most, &old);
    int error = pthread_create(made, NULL, function, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

/* Waits until the thread runs: it could otherwise be on this thread's CPU, behind it, for as long
 * as this one computes. */
static int start_thread(void)
{
    int error = layer_thread_start(&thread, help, NULL);
    while (!error && atomic_load(&own->progress_thread.state) == PROGRESS_THREAD_NONE)
        futex_wait(&own->progress_thread.state, PROGRESS_THREAD_NONE, UINT64_MAX);
    return error;
}

/* Binds the helper to this thread's CPU: a rank that is bound to several may share them with one
 * that computes. */
static void take_to_own_cpu(struct space_progress_thread *helper)
{
    int cpu = sched_getcpu();
    int32_t tid = atomic_load(&helper->tid);
    cpu_set_t cpus;
    if (tid <= 0 || cpu < 0 || cpu >= CPU_SETSIZE ||
        atomic_load_explicit(&helper->cpu, memory_order_relaxed) == cpu)
        return;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(tid, sizeof(cpus), &cpus) == 0)
        atomic_store_explicit(&helper->cpu, cpu, memory_order_relaxed);
}

/* Whether the caller must wait until the thread has ended. That runs on this CPU then: on another
 * one a rank of real-time priority may keep it waiting. */
static int ask_to_end(void)
{
    if (atomic_load_explicit(&state, memory_order_acquire) != ON || getpid() != process)
        return 0;
    atomic_store_explicit(&state, OFF, memory_order_release);
    atomic_store_explicit(&own->progress_thread.state, PROGRESS_THREAD_NONE, memory_order_release);
    take_to_own_cpu(&own->progress_thread);
    futex_wake(&own->progress_thread.state, 1);
    return 1;
}

void progress_thread_stop(void)
{
    if (ask_to_end())
        pthread_join(thread, NULL);
}

/* For a program that has not called MPI_Finalize. If this thread is inside MPI, as when MPI_Abort
 * exits, the helper may wait for it; then this does not wait for the helper. */
static void stop_at_exit(void)
{
    enum { MOST_MS = 1000 };
    uint64_t deadline = futex_deadline(MOST_MS);
    int32_t tid = ask_to_end() ? atomic_load(&own->progress_thread.tid) : 0;
    while (tid && futex_now_ns() < deadline) {
        futex_wait(&own->progress_thread.tid, (uint32_t)tid, deadline);
        tid = atomic_load(&own->progress_thread.tid);
    }
}

/* The job's first rank on this node speaks for all. */
static int say_no_effect(const char *why)
{
    if (onespace_number() <= 0)
        layer_message(0, "--progress has no effect: %s", why);
    return OFF;
}

static int start(void)
{
    int level = MPI_THREAD_SINGLE;
    if (task_shares_cpu())
        return say_no_effect("ranks outnumber their CPUs");
    if (pmpi()->Query_thread(&level) != MPI_SUCCESS || level < MPI_THREAD_MULTIPLE)
        return say_no_effect("MPI was initialised with less than MPI_THREAD_MULTIPLE");
    if (progress_enable() != MPI_SUCCESS)
        return OFF;
    process = getpid();
    if (start_thread() != 0) {
        progress_disable();
        return say_no_effect("no thread can be created");
    }
    (void)atexit(stop_at_exit);
    return ON;
}

void progress_thread_start(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    if (atomic_load_explicit(&state, memory_order_relaxed) == UNKNOWN)
        atomic_store_explicit(&state, is_wanted() ? start() : OFF, memory_order_release);
    pthread_mutex_unlock(&mutex);
}

int progress_thread_is_on(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) == ON;
}

/* ---- Ranks that wait ---- */

/* Binds it to its rank's CPUs. */
static void send_home(const struct space_slot *slot, struct space_progress_thread *helper)
{
    int32_t pid = atomic_load(&slot->pid), tid = atomic_load(&helper->tid);
    cpu_set_t cpus;
    atomic_store_explicit(&helper->cpu, -1, memory_order_relaxed);
    if (pid > 0 && tid > 0 && sched_getaffinity(pid, sizeof(cpus), &cpus) == 0)
        (void)sched_setaffinity(tid, sizeof(cpus), &cpus);
}

/* Gives this CPU to the helper until it sleeps again. It must not stay behind on this CPU when the
 * rank goes on to compute: it may have a lock that its own rank waits for. */
static void let_run(const struct space_slot *slot, struct space_progress_thread *helper,
                    uint64_t most)
{
    uint64_t began = arch_ticks();
    while (atomic_load_explicit(&helper->state, memory_order_relaxed) == PROGRESS_THREAD_WANTED) {
        if (arch_ticks() - began > most) {
            send_home(slot, helper);
            return;
        }
        sched_yield();
    }
}

/* Whether the helper is to be woken by the caller. One that was asked long ago, and sleeps, was
 * asked by a rank that ended before it could wake it. */
static int can_be_asked(struct space_progress_thread *helper, uint64_t age, uint64_t interval)
{
    uint32_t asleep = PROGRESS_THREAD_ASLEEP;
    if ((int64_t)age < (int64_t)interval)
        return 0;
    return atomic_load_explicit(&helper->state, memory_order_relaxed) == PROGRESS_THREAD_WANTED
               ? (int64_t)age >= (int64_t)(MOST_INTERVALS * interval)
               : atomic_compare_exchange_strong(&helper->state, &asleep, PROGRESS_THREAD_WANTED);
}

/* Lets the helper of one rank run that has made no progress for an interval. */
static void help_one(uint64_t now, uint64_t interval)
{
    static _Atomic uint32_t last; /* relaxed: where to begin, so that each rank has its turn */
    struct space *space = space_registry();
    uint32_t highest = atomic_load(&space->highest);
    uint32_t begin = atomic_load_explicit(&last, memory_order_relaxed);
    for (uint32_t i = 0; i < highest; i++) {
        uint32_t index = (begin + i) % highest + 1;
        struct space_slot *slot = &space->slots[index];
        struct space_progress_thread *helper = &slot->progress_thread;
        uint64_t progressed = atomic_load_explicit(&helper->progressed, memory_order_relaxed);
        if (slot == own || slot_state(slot) != SLOT_RUNNING ||
            !can_be_asked(helper, now - progressed, interval))
            continue;
        atomic_store_explicit(&last, index, memory_order_relaxed);
        atomic_store_explicit(&helper->progressed, now, memory_order_relaxed);
        take_to_own_cpu(helper);
        futex_wake(&helper->state, 1);
        let_run(slot, helper, MOST_INTERVALS * interval);
        return;
    }
}

void progress_note(void)
{
    if (progress_thread_is_on())
        note_progress(arch_ticks());
}

void progress_help_others(uint64_t *asked)
{
    if (!progress_thread_is_on())
        return;
    uint64_t now = arch_ticks(), interval = INTERVAL_HALF_US * arch_ticks_of_half_us();
    note_progress(now);
    if (!*asked)
        *asked = now;
    if (now - *asked < interval || task_shares_cpu())
        return;
    help_one(now, interval);
    *asked = arch_ticks();
}
