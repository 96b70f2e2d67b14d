/* src/remote_call/serve.c: lend threads.
 *
 * A serving program has a maker, a thread that creates lenders when callers find none idle: only a
 * thread of the program's own process can. All of them block signals: what comes to the process is
 * for its other threads. Two signals of glibc's own cannot be blocked (setuid and the like stop all
 * threads for a moment), hence GAP between a lender's own frames and those of calls. */
#include "onespace/call.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

#include "arch/constants.h"
#include "base/futex.h"
#include "remote_call/context.h"
#include "space/member.h"

enum {
    GAP = 64 * 1024,     /* a signal frame with all registers that there are, and its handler */
    GUARD = 1024 * 1024, /* below the stack: frames of 64 KiB and more skip one page */
    MAKER_STACK = 128 * 1024, /* bytes */
    WAIT_MS = 10000,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t maker;    /* under the lock */
static uint64_t served_in; /* under the lock: created_ns of the space, 0: it does not serve */

/* glibc 2.35 and later register an area of each thread with the kernel, which writes to it on which
 * CPU the thread runs: for a borrower that would be the lender's CPU, and a restartable sequence of
 * its would not be restarted. An area that is not registered sends all its users (sched_getcpu,
 * allocators) to what they do without. */
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

static void *lend(void *argument)
{
    struct call_lender *lender = argument;
    struct call_thread *thread = call_thread();
    pthread_detach(pthread_self());
    prctl(PR_SET_NAME, "onespace-lender");
    unregister_rseq();
    thread->lender = lender;
    lender->pointer = arch_thread_pointer();
    lender->stack = ((uintptr_t)__builtin_frame_address(0) - GAP) & -(uintptr_t)16;
    lender->boundary = (uintptr_t)arch_remote_call_boundary;
    lender->current = (uintptr_t)&thread->current;
    atomic_store(&lender->state, LENDER_IDLE);
    futex_bump(&call_member_of(lender)->ready);
    for (;;) {
        uint32_t seen = atomic_load_explicit(&lender->wake, memory_order_acquire);
        enum call_lender_kind kind = call_kind(atomic_load(&lender->state));
        if (kind == LENDER_RETIRED || kind == LENDER_LOST)
            atomic_store(&lender->state, LENDER_FREE);
        if (kind == LENDER_RETIRED)
            return NULL;
        if (kind == LENDER_LOST)
            for (;;)
                raw(__NR_exit, 0);
        futex_wait(&lender->wake, seen, UINT64_MAX);
    }
}

/* Starts a thread that blocks all signals: 0 or an error number. */
static int start_thread(pthread_t *thread, void *(*function)(void *), void *argument, size_t stack)
{
    sigset_t all, mask;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_attr_init(&attr);
    if (stack)
        pthread_attr_setstacksize(&attr, stack);
    else
        pthread_attr_setguardsize(&attr, GUARD);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    int error = pthread_create(thread, &attr, function, argument);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

static struct call_lender *find(struct call_member *member, enum call_lender_kind kind)
{
    for (unsigned i = 0; i < CALL_LENDERS; i++)
        if (call_kind(atomic_load(&member->lenders[i].state)) == kind)
            return &member->lenders[i];
    return NULL;
}

/* One more lender, unless one is idle or about to be. */
static void make_lender(struct call_member *member)
{
    struct call_lender *lender = find(member, LENDER_FREE);
    if (!lender || find(member, LENDER_IDLE) || find(member, LENDER_MAKING))
        return;
    atomic_store(&lender->state, LENDER_MAKING);
    pthread_t thread;
    int error = start_thread(&thread, lend, lender, 0);
    atomic_store(&member->failed, (uint32_t)error);
    if (error) {
        atomic_store(&lender->state, LENDER_FREE);
        futex_bump(&member->ready);
    }
}

static void *make_lenders(void *argument)
{
    struct call_member *member = argument;
    prctl(PR_SET_NAME, "onespace-maker");
    while (!atomic_load(&member->gone)) {
        uint32_t seen = atomic_load_explicit(&member->wanted, memory_order_acquire);
        make_lender(member);
        if (!atomic_load(&member->gone)) /* set before `wanted` is bumped */
            futex_wait(&member->wanted, seen, UINT64_MAX);
    }
    return NULL;
}

/* What another task, which had this slot before, has left there. */
static void clear(struct call_member *member)
{
    atomic_store(&member->owner, 0);
    for (unsigned i = 0; i < CALL_LENDERS; i++)
        atomic_store(&member->lenders[i].state, LENDER_FREE);
    atomic_store(&member->failed, 0);
    atomic_store(&member->gone, 0);
}

static int begin(struct call_member *member, uint32_t owner)
{
    clear(member);
    call_prepare_unwinding();
    int error = start_thread(&maker, make_lenders, member, MAKER_STACK);
    uint64_t deadline = futex_deadline(WAIT_MS);
    while (error == 0) {
        uint32_t seen = atomic_load_explicit(&member->ready, memory_order_acquire);
        if (find(member, LENDER_IDLE))
            break;
        error = (int)atomic_load(&member->failed);
        if (error == 0 && futex_wait(&member->ready, seen, deadline) == -ETIMEDOUT)
            error = EAGAIN;
    }
    if (error)
        return call_fail(-EAGAIN,
                         "no thread can be made that lends itself to calls: %s: raise the limit of "
                         "processes (ulimit -u)",
                         strerror(error));
    atomic_store(&member->owner, owner);
    return 0;
}

int onespace_call_serve(void)
{
    struct space *space = space_mine();
    if (!space)
        return call_fail(-EPERM, "the caller is no member of a space: call onespace_init first");
    struct space_slot *self = space_self();
    uint32_t owner = (uint32_t)atomic_load(&self->id) + 1;
    if (space_is_thread(self))
        return call_fail(-ENOTSUP,
                         "member %u is in thread mode, which cannot serve calls: start "
                         "it without ONESPACE_SPAWN_THREAD",
                         owner - 1);
    if (self->guard_key)
        return call_fail(-ENOTSUP, "calls between guarded tasks are not possible: start them "
                                   "without --guard");
    if (force_libc_locking() < 0)
        return call_fail(-EAGAIN, "no thread is to be had: raise the limit of processes");
    int result = call_map_table(space);
    if (result < 0)
        return result;
    pthread_mutex_lock(&lock);
    if (served_in != space->created_ns)
        result = begin(&call_table()->members[slot_index(space, self)], owner);
    if (result == 0)
        served_in = space->created_ns;
    pthread_mutex_unlock(&lock);
    return result;
}

/* The root ends a space without tasks in which it has served: its threads must leave the table,
 * which is about to be unmapped. */
static void end_serving(struct call_member *member)
{
    atomic_store(&member->gone, 1);
    futex_bump(&member->wanted);
    pthread_join(maker, NULL);
    for (unsigned i = 0; i < CALL_LENDERS; i++) {
        struct call_lender *lender = &member->lenders[i];
        while (call_kind(atomic_load(&lender->state)) == LENDER_MAKING)
            spin_yield();
        enum call_lender_kind kind = call_kind(atomic_load(&lender->state));
        if (kind != LENDER_FREE)
            call_give_up(lender, kind == LENDER_LENT ? LENDER_LOST : LENDER_RETIRED);
        while (call_kind(atomic_load(&lender->state)) != LENDER_FREE)
            spin_yield();
    }
}

void call_space_ends(struct space *space)
{
    pthread_mutex_lock(&lock);
    if (served_in && served_in == space->created_ns)
        end_serving(&call_table()->members[0]);
    served_in = 0;
    pthread_mutex_unlock(&lock);
}
