/* src/mpi/group/progress.c: see progress.h. */
#include "mpi/group/progress.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "arch/entry.h"

/* Orders progress_hold, _release and _end. Never held across a call of MPI. */
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
    real()->Status_set_cancelled(status, 0);
    return real()->Status_set_elements(status, MPI_BYTE, 0);
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

int progress_request(MPI_Request *request)
{
    return real()->Grequest_start(query, free_nothing, cancel_nothing, NULL, request);
}

static void finish(MPI_Request request)
{
    real()->Grequest_complete(request);
    real()->Wait(&request, MPI_STATUS_IGNORE);
}

int progress_hold(void)
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
    int result = progress_request(&made);
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

void progress_release(void)
{
    MPI_Request last;
    pthread_mutex_lock(&mutex);
    int is_last = --users == 0 && retire(&last);
    pthread_mutex_unlock(&mutex);
    if (is_last)
        finish(last);
}

void progress_end(void)
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
    return real()->Test(&request, &flag, MPI_STATUS_IGNORE);
}

int progress_make(void)
{
    if (!try_lock())
        return MPI_SUCCESS;
    int result = exists ? step() : MPI_SUCCESS;
    unlock();
    return result;
}

/* A step receives one or two messages in MPICH, and no function says whether it has received any.
 * Its duration does: a step that finds nothing takes 10 to 40 ns, one that receives a message at
 * least three times as long (measured with MPICH 4.0, Open MPI 4.1). A step that is long for
 * another reason, such as cold caches, costs a few short steps. A short step among those that
 * receive is no proof that all is there: MPICH sometimes finds a queued message at the second look.
 */
enum { STEPS_MAX = 256, SHORT_STEPS = 8 };

/* Sixteen times the ticks of a step that finds nothing: a moving average of short steps; 0:
 * unknown. Under `busy`. No minimum, which a clock of coarse steps would make too small. */
static uint64_t idle_ticks_16;

static int is_long(uint64_t ticks)
{
    if (idle_ticks_16 == 0)
        idle_ticks_16 = 16 * (ticks < 4 * ARCH_TICKS_NOISE ? ticks : 4 * ARCH_TICKS_NOISE) + 1;
    if (ticks > 2 * idle_ticks_16 / 16 + ARCH_TICKS_NOISE)
        return 1;
    idle_ticks_16 += ticks - idle_ticks_16 / 16; /* may wrap around, and back */
    return 0;
}

/* Makes steps until SHORT_STEPS in a row were short. */
static int step_until_idle(void)
{
    int result = MPI_SUCCESS, steps = 0, idle_steps = 0;
    uint64_t first = arch_ticks(), before = first;
    for (; result == MPI_SUCCESS && idle_steps < SHORT_STEPS && steps < STEPS_MAX; steps++) {
        result = step();
        uint64_t now = arch_ticks();
        idle_steps = is_long(now - before) ? 0 : idle_steps + 1;
        before = now;
    }
    if (steps == STEPS_MAX) /* the library has more to look at than before, or the CPU is slower */
        idle_ticks_16 = (before - first) * 16 / STEPS_MAX + 1;
    return result;
}

int progress_poll(void)
{
    int result = MPI_SUCCESS;
    lock();
    if (exists) {
        uint64_t before = arch_ticks();
        result = step();
        if (is_long(arch_ticks() - before) && result == MPI_SUCCESS)
            result = step_until_idle();
    }
    unlock();
    return result;
}
