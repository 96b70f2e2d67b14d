/* src/remote_call/serve.c: onespace_call_serve: the donors of a member and their factory.
 *
 * A serving program has a donor factory: a thread that creates donors when callers find none idle,
 * because only a thread of the program's own process can. Donors and factory block all signals, so
 * signals to the process go to its other threads. Two signals of glibc cannot be blocked (setuid
 * and similar calls interrupt all threads), so DONOR_GAP_BYTES separate a donor's own frames from
 * those of calls. */
#include "onespace/call.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

#include "arch/constants.h"
#include "base/futex.h"
#include "remote_call/remote_call.h"
#include "space/member.h"

enum {
    DONOR_GAP_BYTES = 64 * 1024,     /* fits a signal frame with all registers, and its handler */
    STACK_GUARD_BYTES = 1024 * 1024, /* one page is not enough: large frames skip it */
    FACTORY_STACK_BYTES = 128 * 1024,
    FIRST_DONOR_TIMEOUT_MS = 10000,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t factory;  /* under the lock */
static uint64_t served_in; /* under the lock: created_ns of the space; 0: not serving */

/* glibc 2.35 and later register an rseq area per thread, where the kernel stores the CPU that the
 * thread runs on. A borrower would read the donor's CPU there, and the kernel would not restart the
 * borrower's restartable sequences. With the area unregistered, its users (sched_getcpu,
 * allocators) take their fallback. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

static void unregister_rseq(void)
{
    enum { UNREGISTER = 1, AREA = 32 };
    if (!&__rseq_offset || !&__rseq_size || __rseq_size == 0)
        return;
    unsigned size = __rseq_size < AREA ? AREA : __rseq_size;
    raw(__NR_rseq, arch_thread_pointer() + (uintptr_t)__rseq_offset, size, UNREGISTER,
        ARCH_RSEQ_SIGNATURE);
}

static void *donor_main(void *argument)
{
    struct call_donor *donor = argument;
    struct call_thread *thread = call_thread();
    pthread_detach(pthread_self());
    prctl(PR_SET_NAME, "onespace-donor");
    unregister_rseq();
    thread->donor = donor;
    donor->pointer = arch_thread_pointer();
    donor->stack = ((uintptr_t)__builtin_frame_address(0) - DONOR_GAP_BYTES) & -(uintptr_t)16;
    donor->boundary = (uintptr_t)arch_remote_call_boundary;
    donor->current = (uintptr_t)&thread->current;
    atomic_store(&donor->state, DONOR_IDLE);
    futex_bump(&donor_member(donor)->ready);
    for (;;) {
        uint32_t wake = atomic_load_explicit(&donor->wake, memory_order_acquire);
        enum donor_state state = donor_state_of(atomic_load(&donor->state));
        if (state == DONOR_RETIRED || state == DONOR_LOST)
            atomic_store(&donor->state, DONOR_FREE);
        if (state == DONOR_RETIRED)
            return NULL;
        if (state == DONOR_LOST)
            for (;;)
                raw(__NR_exit, 0);
        futex_wait(&donor->wake, wake, UINT64_MAX);
    }
}

/* Starts a thread that blocks all signals: 0 or an error number. */
static int start_thread(pthread_t *thread, void *(*function)(void *), void *argument, size_t stack)
{
    sigset_t all, mask;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_attr_init(&attr);
    if (!stack) {
        pthread_attr_getstacksize(&attr, &stack);
        stack += STACK_GUARD_BYTES;
        pthread_attr_setguardsize(&attr, STACK_GUARD_BYTES);
    }
    pthread_attr_setstacksize(&attr, stack);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    int error = pthread_create(thread, &attr, function, argument);
    if (error == EINVAL) /* the program's thread-local storage does not fit */
        error = pthread_create(thread, NULL, function, argument);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

static struct call_donor *find_donor(struct call_member *member, enum donor_state state)
{
    for (unsigned i = 0; i < CALL_DONORS; i++)
        if (donor_state_of(atomic_load(&member->donors[i].state)) == state)
            return &member->donors[i];
    return NULL;
}

/* Starts a donor unless one is idle or starting. */
static void donor_start(struct call_member *member)
{
    struct call_donor *donor = find_donor(member, DONOR_FREE);
    if (!donor || find_donor(member, DONOR_IDLE) || find_donor(member, DONOR_STARTING))
        return;
    atomic_store(&donor->state, DONOR_STARTING);
    pthread_t thread;
    int error = start_thread(&thread, donor_main, donor, 0);
    atomic_store(&member->failed, (uint32_t)error);
    if (error) {
        atomic_store(&donor->state, DONOR_FREE);
        futex_bump(&member->ready);
    }
}

static void *factory_main(void *argument)
{
    struct call_member *member = argument;
    prctl(PR_SET_NAME, "onespace-donors");
    while (!atomic_load(&member->gone)) {
        uint32_t wanted = atomic_load_explicit(&member->wanted, memory_order_acquire);
        donor_start(member);
        if (!atomic_load(&member->gone)) /* set before `wanted` is bumped */
            futex_wait(&member->wanted, wanted, UINT64_MAX);
    }
    return NULL;
}

/* Clears the state of an earlier member in this slot. */
static void reset_member(struct call_member *member)
{
    atomic_store(&member->owner, 0);
    for (unsigned i = 0; i < CALL_DONORS; i++)
        atomic_store(&member->donors[i].state, DONOR_FREE);
    atomic_store(&member->failed, 0);
    atomic_store(&member->gone, 0);
}

/* Ends the donors and the factory: none of them uses the table any more. */
static void stop_donors(struct call_member *member)
{
    atomic_store(&member->gone, 1);
    futex_bump(&member->wanted);
    pthread_join(factory, NULL);
    for (unsigned i = 0; i < CALL_DONORS; i++) {
        struct call_donor *donor = &member->donors[i];
        while (donor_state_of(atomic_load(&donor->state)) == DONOR_STARTING)
            spin_yield();
        enum donor_state state = donor_state_of(atomic_load(&donor->state));
        if (state != DONOR_FREE)
            donor_discard(donor, state == DONOR_LENT ? DONOR_LOST : DONOR_RETIRED);
        while (donor_state_of(atomic_load(&donor->state)) != DONOR_FREE)
            spin_yield();
    }
}

/* Waits until the factory has made a donor: 0 or an error number. */
static int await_first_donor(struct call_member *member)
{
    uint64_t deadline = futex_deadline(FIRST_DONOR_TIMEOUT_MS);
    int error = 0;
    while (error == 0) {
        uint32_t ready = atomic_load_explicit(&member->ready, memory_order_acquire);
        if (find_donor(member, DONOR_IDLE))
            return 0;
        error = (int)atomic_load(&member->failed);
        if (error == 0 && futex_wait(&member->ready, ready, deadline) == -ETIMEDOUT)
            error = EAGAIN;
    }
    stop_donors(member); /* the caller may try again */
    return error;
}

static int start_serving(struct call_member *member, uint32_t owner)
{
    reset_member(member);
    unwind_install_handler();
    int error = start_thread(&factory, factory_main, member, FACTORY_STACK_BYTES);
    if (error == 0)
        error = await_first_donor(member);
    if (error)
        return call_fail(
            -EAGAIN,
            "no donor thread for calls can be created: %s: raise the limit of processes "
            "(ulimit -u)",
            strerror(error));
    atomic_store(&member->owner, owner);
    return 0;
}

int onespace_call_serve(void)
{
    struct space *space = space_mine();
    if (!space)
        return call_fail(-EPERM, "the caller is not a member of a space: call onespace_init first");
    struct space_slot *self = space_self();
    uint32_t owner = (uint32_t)atomic_load(&self->id) + 1;
    if (slot_is_thread(self))
        return call_fail(-ENOTSUP,
                         "member %u is in thread mode, which cannot serve calls: start "
                         "it without ONESPACE_SPAWN_THREAD",
                         owner - 1);
    if (self->guard_key)
        return call_fail(-ENOTSUP, "calls between guarded tasks are not possible: start them "
                                   "without --guard");
    if (force_libc_locking() < 0)
        return call_fail(-EAGAIN, "no thread can be created: raise the limit of processes");
    int result = call_table_map(space);
    if (result < 0)
        return result;
    pthread_mutex_lock(&lock);
    if (served_in != space->created_ns)
        result = start_serving(&call_table()->members[slot_index(space, self)], owner);
    if (result == 0)
        served_in = space->created_ns;
    pthread_mutex_unlock(&lock);
    return result;
}

/* No task is left then. The table is unmapped afterwards. */
void call_space_ends(struct space *space)
{
    pthread_mutex_lock(&lock);
    if (served_in && served_in == space->created_ns)
        stop_donors(&call_table()->members[0]);
    served_in = 0;
    pthread_mutex_unlock(&lock);
}
