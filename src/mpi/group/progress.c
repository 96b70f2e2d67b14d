/* src/mpi/group/progress.c: lets MPI make progress while the layer waits. */
#include "mpi/group/group.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "arch/syscall.h"

/* Orders progress_enable, _release and _end. Never held across a call of MPI. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned users; /* progress_enable minus progress_disable */
static int is_finalized;

/* Guarded by `busy`, which is held while the request is tested: two threads must not test it at the
 * same time, and a request that is about to be completed must not be tested. */
static int exists;
static MPI_Request incomplete; /* valid while `exists` */

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
    pthread_mutex_lock(&mutex);
    users++;
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
    pthread_mutex_lock(&mutex);
    int is_last = --users == 0 && withdraw(&last);
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

/* A step receives at most two messages in MPICH, and no function says whether it has received any,
 * but its duration does. A step that finds nothing takes 10 to 40 ns. One that receives a message
 * takes at least two and a half times as long between two cores, and one and a half times as long
 * between two CPUs of one core (measured with MPICH 4.0, Open MPI 4.1). Each poll makes one step,
 * and more of them if it took longer than steps that find nothing. (One warm step instead of a
 * group halves the time of short operations in MPICH, but misses messages now and then.)
 *
 * Every eighth step of Open MPI takes longer, so the further steps are timed in groups. A group
 * that takes long for another reason, such as cold caches, costs one more group. If many groups all
 * take longer, the library now polls more, or the CPU is slower. That the CPU is faster again is
 * seen by the groups in each RECALIBRATION_POLLS-th poll. */
enum { GROUP_STEPS = 8, GROUPS_MAX = 32, CALIBRATION_POLLS = 8, RECALIBRATION_POLLS = 512 };

/* The fewest ticks that a group has taken; the most that a step by itself takes; polls so far.
 * Guarded by `busy`. */
static uint64_t idle_ticks = UINT64_MAX / 4, idle_step_ticks = UINT64_MAX / 4;
static unsigned polls;

static uint64_t timed_step(int *result)
{
    uint64_t before = arch_ticks();
    *result = step();
    return arch_ticks() - before;
}

/* By how much the durations of equal work differ, because a hypervisor may let the clock advance in
 * larger steps. Guarded by `busy`. */
static uint64_t clock_noise(void)
{
    enum { READINGS = 32 };
    static uint64_t noise;
    uint64_t least = ARCH_TICKS_NOISE + 1, last = 0;
    if (noise)
        return noise;
    for (int i = 0; i < READINGS; i++) {
        uint64_t before = arch_ticks(), ticks = arch_ticks() - before;
        uint64_t difference = ticks > last ? ticks - last : last - ticks;
        if (i && difference && difference < least)
            least = difference;
        last = ticks;
    }
    noise = least <= ARCH_TICKS_NOISE ? least : 1;
    return noise;
}

/* Measures idle_step_ticks after groups that found nothing: the longest step of each group, and the
 * shortest of these, because another process may have had the CPU in one. */
static int measure_step(void)
{
    enum { GROUPS = 4 };
    int result = MPI_SUCCESS;
    uint64_t shortest = UINT64_MAX / 4;
    for (int group = 0; group < GROUPS; group++) {
        uint64_t longest = 0;
        for (int i = 0; i < GROUP_STEPS && result == MPI_SUCCESS; i++) {
            uint64_t ticks = timed_step(&result);
            longest = ticks > longest ? ticks : longest;
        }
        shortest = longest < shortest ? longest : shortest;
    }
    idle_step_ticks = shortest;
    return result;
}

static int is_longer_than_idle(uint64_t ticks)
{
    uint64_t more = idle_step_ticks / 8, noise = clock_noise();
    return ticks > idle_step_ticks + (more > noise ? more : noise);
}

/* Makes groups of steps until one finds nothing; if this is to measure what such a group takes,
 * until one takes no less than the group before it, which may have received messages. */
static int step_until_idle(int is_measured)
{
    uint64_t least = UINT64_MAX, last = UINT64_MAX;
    for (int groups = 0; groups < GROUPS_MAX; groups++) {
        uint64_t before = arch_ticks();
        for (int i = 0; i < GROUP_STEPS; i++) {
            int result = step();
            if (result != MPI_SUCCESS)
                return result;
        }
        uint64_t ticks = arch_ticks() - before;
        least = ticks < least ? ticks : least; /* others may contain another process's turn */
        idle_ticks = ticks < idle_ticks ? ticks : idle_ticks;
        if (ticks <= idle_ticks + idle_ticks / 2 && (!is_measured || ticks > last - last / 4))
            return MPI_SUCCESS;
        last = ticks;
    }
    idle_ticks = least;
    return MPI_SUCCESS;
}

int progress_is_stepping(void)
{
    if (!try_lock())
        return 1;
    unlock();
    return 0;
}

int progress_until_idle(void)
{
    int result = MPI_SUCCESS;
    lock();
    if (exists) {
        int is_measured = polls < CALIBRATION_POLLS || polls % RECALIBRATION_POLLS == 0;
        int is_long = is_longer_than_idle(timed_step(&result));
        polls++;
        if ((is_long || is_measured) && result == MPI_SUCCESS)
            result = step_until_idle(is_measured);
        if (is_measured && result == MPI_SUCCESS)
            result = measure_step();
    }
    unlock();
    return result;
}
