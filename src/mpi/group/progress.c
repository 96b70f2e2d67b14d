/* src/mpi/group/progress.c: lets MPI make progress while the layer waits. */
#include "mpi/group/group.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "arch/syscall.h"

/* Orders progress_enable, progress_disable and progress_finalize. A step may call these, when MPICH
 * frees a communicator in it, but then does not take the mutex: another thread may hold it, and
 * wait for the step. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned users; /* progress_enable minus progress_disable */
static int is_finalized;

/* Guarded by `busy`, which is held while the request is tested: two threads must not test it at the
 * same time, and a request that is about to be completed must not be tested. */
static int exists;
static MPI_Request incomplete; /* valid while `exists` */

/* This thread is inside a step, in which MPI may call functions of the program's. */
static _Thread_local int is_stepping;

/* A spin lock of any thread: set with acquire, cleared with release. */
static atomic_flag busy = ATOMIC_FLAG_INIT;

static int try_lock(void)
{
    return !atomic_flag_test_and_set_explicit(&busy, memory_order_acquire);
}

static void lock(void)
{
    while (!try_lock())
        sched_yield();
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

/* Takes the request out of use. 1: the caller must complete *request. */
static int withdraw(MPI_Request *request)
{
    lock();
    int did_exist = exists;
    *request = incomplete;
    exists = 0;
    unlock();
    return did_exist;
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    pmpi()->Status_set_cancelled(status, 0);
    return pmpi()->Status_set_elements(status, MPI_BYTE, 0);
}

static int free_nothing(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int cancel_nothing(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

int progress_grequest_start(MPI_Request *request)
{
    return pmpi()->Grequest_start(query, free_nothing, cancel_nothing, NULL, request);
}

static void complete(MPI_Request request)
{
    pmpi()->Grequest_complete(request);
    pmpi()->Wait(&request, MPI_STATUS_IGNORE);
}

int progress_enable(void)
{
    MPI_Request made;
    if (is_stepping) { /* with the request */
        atomic_fetch_add(&users, 1);
        return MPI_SUCCESS;
    }
    pthread_mutex_lock(&mutex);
    atomic_fetch_add(&users, 1);
    lock();
    int is_needed = !exists && !is_finalized;
    unlock();
    pthread_mutex_unlock(&mutex);
    if (!is_needed)
        return MPI_SUCCESS;
    int result = progress_grequest_start(&made);
    if (result != MPI_SUCCESS)
        return result;
    lock();
    int is_surplus = exists; /* another thread was first */
    if (!is_surplus)
        incomplete = made;
    exists = 1;
    unlock();
    if (is_surplus)
        complete(made);
    return MPI_SUCCESS;
}

void progress_disable(void)
{
    MPI_Request last;
    if (is_stepping) { /* the request stays until another last user, or MPI_Finalize */
        atomic_fetch_sub(&users, 1);
        return;
    }
    pthread_mutex_lock(&mutex);
    int is_last = atomic_fetch_sub(&users, 1) == 1 && withdraw(&last);
    pthread_mutex_unlock(&mutex);
    if (is_last)
        complete(last);
}

void progress_finalize(void)
{
    MPI_Request last;
    pthread_mutex_lock(&mutex);
    int did_exist = withdraw(&last);
    is_finalized = 1;
    pthread_mutex_unlock(&mutex);
    if (did_exist)
        complete(last);
}

/* The caller holds `busy`. */
static int step(void)
{
    int flag;
    MPI_Request request = incomplete;
    is_stepping = 1;
    int result = pmpi()->Test(&request, &flag, MPI_STATUS_IGNORE);
    is_stepping = 0;
    return result;
}

int progress_is_stepping(void)
{
    if (!try_lock())
        return 1;
    unlock();
    return 0;
}

int progress_step(void)
{
    if (!try_lock())
        return MPI_SUCCESS;
    int result = exists ? step() : MPI_SUCCESS;
    unlock();
    return result;
}

/* ---- Messages that were sent before an operation of the layer's ----
 *
 * Most programs never ask for them at once: they receive, which waits for the message. So an
 * operation makes one step at most, which receives one or two messages in MPICH, and the rest is
 * for a test that finds nothing. The step is for transfers that need this rank, while it computes;
 * it takes a fifth of a short operation's time. So one of several short operations makes it. */

/* BEHIND: an operation has ended since the library's progress was last up to date. Any thread that
 * ends one writes BEHIND, with release. The holder of `busy` exchanges it for CATCHING_UP, with
 * acquire, so that its steps come after any operation that it does not see again afterwards; then
 * it replaces CATCHING_UP by UP_TO_DATE, with release. A thread that reads this, with acquire,
 * tests after those steps. */
enum { UP_TO_DATE, BEHIND, CATCHING_UP };
static _Atomic int state;

/* Whether a step that finds nothing gives the CPU away: Open MPI does where tasks outnumber CPUs.
 * It then takes as long as the others let it wait. */
static int step_may_yield(void)
{
    return pmpi_is_open_mpi() && task_shares_cpu();
}

/* Between steps after operations: a program may loop over operations, none of which waits, until a
 * rank has done something that sends to this one first. */
static uint64_t step_interval(void)
{
    enum { TURNS = 200 }; /* a tenth of a millisecond, as a step may take a turn of another rank */
    return arch_ticks_of_half_us() * (step_may_yield() ? TURNS : 1);
}

int progress_after_operation(void)
{
    /* Any thread's, relaxed: a step more or less does no harm. */
    static _Atomic uint64_t last_step;
    uint64_t now = arch_ticks();
    atomic_store_explicit(&state, BEHIND, memory_order_release);
    if (now - atomic_load_explicit(&last_step, memory_order_relaxed) < step_interval())
        return MPI_SUCCESS;
    atomic_store_explicit(&last_step, now, memory_order_relaxed);
    return progress_step();
}

int progress_is_behind(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) != UP_TO_DATE && !is_stepping;
}

/* No function says whether a step has received anything, but its duration does. A step that finds
 * nothing takes 10 to 40 ns. One that receives a message takes at least one and a half times as
 * long (measured with MPICH 4.0 and 5.0, Open MPI 4.1, two CPUs of one core). Every eighth step of
 * Open MPI takes longer, so steps are timed in groups. After a group of which not all steps have
 * received something, nothing is left.
 *
 * A group that takes long for another reason, such as cold caches, costs one more group. If many
 * groups all take longer, the library now polls more, or the CPU is slower. That the CPU is faster
 * again is not seen while each time finds more messages than one group receives. So at the first
 * times, and then at each RECALIBRATION-th, many groups are made, the last of which find nothing.
 */
enum {
    GROUP_STEPS = 8,
    GROUPS_MAX = 32,
    MEASURED_GROUPS = 12,
    CALIBRATIONS = 8,
    RECALIBRATION = 128
};

/* The fewest ticks that a group has taken; how often progress has caught up. Guarded by `busy`. */
static uint64_t idle_ticks = UINT64_MAX / 4;
static unsigned times;

static int step_until_idle(void)
{
    if (step_may_yield())
        return step(); /* Open MPI's receives dozens of messages */
    int is_measured = times < CALIBRATIONS || times % RECALIBRATION == 0, result = MPI_SUCCESS;
    uint64_t least = UINT64_MAX;
    times++;
    for (int groups = 0; groups < (is_measured ? MEASURED_GROUPS : GROUPS_MAX); groups++) {
        uint64_t before = arch_ticks();
        for (int i = 0; i < GROUP_STEPS && result == MPI_SUCCESS; i++)
            result = step();
        if (result != MPI_SUCCESS)
            return result;
        uint64_t ticks = arch_ticks() - before;
        least = ticks < least ? ticks : least; /* others may contain another process's turn */
        idle_ticks = ticks < idle_ticks ? ticks : idle_ticks;
        if (!is_measured && ticks <= idle_ticks + idle_ticks / 4)
            return MPI_SUCCESS;
    }
    idle_ticks = least;
    return MPI_SUCCESS;
}

/* The caller holds `busy`. */
static int catch_up(void)
{
    int expected = CATCHING_UP, result = MPI_SUCCESS;
    if (atomic_exchange_explicit(&state, CATCHING_UP, memory_order_acq_rel) == BEHIND && exists)
        result = step_until_idle();
    atomic_compare_exchange_strong_explicit(&state, &expected, UP_TO_DATE, memory_order_release,
                                            memory_order_relaxed);
    return result;
}

int progress_catch_up(void)
{
    if (!progress_is_behind())
        return MPI_SUCCESS;
    lock();
    int is_enabled = exists, result = is_enabled ? catch_up() : MPI_SUCCESS;
    unlock();
    if (is_enabled)
        return result;
    /* The program has freed what the layer had enabled progress for. */
    result = progress_enable();
    if (result == MPI_SUCCESS) {
        lock();
        result = catch_up();
        unlock();
    }
    progress_disable();
    return result;
}
