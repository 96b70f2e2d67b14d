/* src/mpi/group/progress.c: lets MPI make progress while the layer waits. */
#include "mpi/group/group.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "arch/syscall.h"

/* Orders progress_enable, _release and _end. Never held across a call of MPI. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static int ended;

/* Under `busy`, which is held while the request is tested: two threads must not test it at the same
 * time, and a request that is about to be completed must not be tested. */
static int exists;
static MPI_Request never; /* incomplete; valid while `exists` */

/* Any thread sets it (acquire) and clears it (release): what one thread wrote to the two variables
 * above is visible to the next. */
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

/* Takes the request out of use. 1: there was one, in *request, for the caller to complete. */
static int retire(MPI_Request *request)
{
    lock();
    int was_there = exists;
    *request = never;
    exists = 0;
    unlock();
    return was_there;
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

static void finish(MPI_Request request)
{
    pmpi()->Grequest_complete(request);
    pmpi()->Wait(&request, MPI_STATUS_IGNORE);
}

int progress_enable(void)
{
    MPI_Request made;
    pthread_mutex_lock(&mutex);
    users++;
    lock();
    int is_needed = !exists && !ended;
    unlock();
    pthread_mutex_unlock(&mutex);
    if (!is_needed)
        return MPI_SUCCESS;
    int result = progress_grequest_start(&made);
    if (result != MPI_SUCCESS)
        return result;
    lock();
    int is_spare = exists; /* another thread was first */
    if (!is_spare)
        never = made;
    exists = 1;
    unlock();
    if (is_spare)
        finish(made);
    return MPI_SUCCESS;
}

void progress_disable(void)
{
    MPI_Request last;
    pthread_mutex_lock(&mutex);
    int is_last = --users == 0 && retire(&last);
    pthread_mutex_unlock(&mutex);
    if (is_last)
        finish(last);
}

void progress_finalize(void)
{
    MPI_Request last;
    pthread_mutex_lock(&mutex);
    int is_there = retire(&last);
    ended = 1;
    pthread_mutex_unlock(&mutex);
    if (is_there)
        finish(last);
}

/* The caller has locked. */
static int step(void)
{
    int flag;
    MPI_Request request = never;
    return pmpi()->Test(&request, &flag, MPI_STATUS_IGNORE);
}

int progress_step(void)
{
    if (!try_lock())
        return MPI_SUCCESS;
    int result = exists ? step() : MPI_SUCCESS;
    unlock();
    return result;
}

/* A step receives at most two messages in MPICH, and no function says whether it has received any.
 * The duration tells: a step that finds nothing takes 10 to 40 ns, one that receives a message at
 * least two and a half times as long (measured with MPICH 4.0, Open MPI 4.1). Every eighth step of
 * Open MPI does more and takes longer, and a clock may advance by as much as a step takes, so steps
 * are compared by groups. A group that is long for another reason, such as cold caches, costs one
 * more. */
enum { GROUP_STEPS = 8, GROUPS_MAX = 32, CALIBRATION_POLLS = 8 };

/* Ticks of a group that finds nothing: the smallest that was seen. Under `busy`, as `polls`, which
 * counts to CALIBRATION_POLLS. */
static uint64_t idle_ticks = UINT64_MAX / 4;
static unsigned polls;

/* Makes groups of steps until one finds nothing. */
static int step_until_idle(void)
{
    uint64_t ticks = 0;
    for (int groups = 0; groups < GROUPS_MAX; groups++) {
        uint64_t before = arch_ticks();
        for (int i = 0; i < GROUP_STEPS; i++) {
            int result = step();
            if (result != MPI_SUCCESS)
                return result;
        }
        ticks = arch_ticks() - before;
        idle_ticks = ticks < idle_ticks ? ticks : idle_ticks;
        if (ticks <= idle_ticks + idle_ticks / 2)
            return MPI_SUCCESS;
    }
    idle_ticks = ticks; /* the library has more to look at than before, or the CPU is slower */
    return MPI_SUCCESS;
}

int progress_until_idle(void)
{
    int result = MPI_SUCCESS;
    lock();
    if (exists) {
        uint64_t before = arch_ticks();
        result = step();
        int is_long = arch_ticks() - before > 2 * idle_ticks / GROUP_STEPS + ARCH_TICKS_NOISE;
        int is_calibrated = polls == CALIBRATION_POLLS;
        polls += !is_calibrated;
        if ((is_long || !is_calibrated) && result == MPI_SUCCESS)
            result = step_until_idle();
    }
    unlock();
    return result;
}
