/* src/remote_call/signals.c: signals of a thread that is in another program's context.
 *
 * The handlers are those of the thread's own process, which need its own thread pointer. So the
 * first call of a task puts a handler of ours before each handler of the program, and interposed
 * sigaction does likewise from then on (interpose/signals.c). Where sigaction is not interposed, in
 * the root and with NO_INTERPOSE, signals are blocked during calls instead.
 *
 * CALL_SIGNAL comes from the reaper: the member that the thread has called into has ended, and what
 * the function waits for may never come. The handler leaves the call, unless the thread is in
 * another, living member's context by then; that call ends first, and its caller finds out. Nor
 * while the thread handles another signal, whose mask would stay: the reaper sends it again.
 *
 * Freestanding: until the thread pointer is restored, no thread-local storage may be used. What is
 * read in the table's memory and, while the thread is in its context, in the callee's, is mapped.
 */
#include "remote_call/context.h"

#include <errno.h>
#include <signal.h>
#include <ucontext.h>

#include "arch/constants.h"
#include "arch/registers.h"
#include "arch/syscall.h"
#include "base/raw.h"
#include "space/locks.h"

/* The program's handlers, by signal; kept by interposed sigaction, too. */
static _Atomic uintptr_t handlers[SIGNAL_MAX + 1];
/* The process's handler of CALL_SIGNAL: glibc's, for setuid and the like. */
static _Atomic uintptr_t next_handler;
static struct space_slot *own_slot; /* set before any handler of ours */
static int by_call;

typedef void handler_function(int, siginfo_t *, void *);

/* The code that runs for another signal with the lender's thread pointer, in a section of its own.
 */
#define HANDLER __attribute__((section("call_handlers"), noinline))
extern const char __start_call_handlers[] __attribute__((visibility("hidden")));
extern const char __stop_call_handlers[] __attribute__((visibility("hidden")));
static _Atomic uintptr_t restorer; /* the code that the program's handlers return to */
enum { RESTORER_BYTES = 16 };

static int is_in_handler(uintptr_t at)
{
    return at - (uintptr_t)__start_call_handlers <
               (uintptr_t)(__stop_call_handlers - __start_call_handlers) ||
           at - atomic_load(&restorer) < RESTORER_BYTES;
}

/* The lender of that member with this thread pointer that the calling kernel thread has, or NULL.
 */
HANDLER static struct call_lender *find_in(unsigned index, uintptr_t pointer, int32_t thread)
{
    struct call_member *member = &call_table()->members[index];
    if (!atomic_load(&member->owner))
        return NULL;
    for (unsigned i = 0; i < CALL_LENDERS; i++) {
        struct call_lender *lender = &member->lenders[i];
        uint64_t state = atomic_load(&lender->state);
        if (lender->pointer == pointer && call_kind(state) == LENDER_LENT &&
            call_borrower_thread(state) == thread)
            return lender;
    }
    return NULL;
}

/* The lender whose context the calling thread is in, or NULL. Nearly always the address of the
 * thread pointer names the member; outside the ranges it may be anybody's. */
HANDLER static struct call_lender *find_lender(void)
{
    uintptr_t pointer = arch_thread_pointer();
    unsigned index = layout_slot_of(pointer);
    if (own_slot && index == slot_index(space_registry(), own_slot))
        return NULL;
    int32_t thread = (int32_t)raw(__NR_gettid);
    if (index != LAYOUT_SLOTS)
        return find_in(index, pointer, thread);
    uint32_t highest = atomic_load(&space_registry()->highest);
    for (index = 0; index <= highest; index++) {
        struct call_lender *lender = find_in(index, pointer, thread);
        if (lender)
            return lender;
    }
    return NULL;
}

HANDLER static void run_handler(uintptr_t handler, const struct call_lender *lender, int signal,
                                siginfo_t *info, void *context)
{
    arch_set_thread_pointer(lender->own, by_call);
    ((handler_function *)handler)(signal, info, context);
    arch_set_thread_pointer(lender->pointer, by_call);
}

HANDLER static void on_signal(int signal, siginfo_t *info, void *context)
{
    uintptr_t handler = atomic_load(&handlers[signal]);
    const struct call_lender *lender = find_lender();
    if (handler <= (uintptr_t)SIG_IGN)
        return;
    if (lender)
        run_handler(handler, lender, signal, info, context);
    else
        ((handler_function *)handler)(signal, info, context);
}

HANDLER static int on_fault(int signal, void *information, void *context, uintptr_t handler)
{
    const struct call_lender *lender = find_lender();
    if (lender)
        run_handler(handler, lender, signal, information, context);
    return lender != NULL;
}

/* Makes the thread continue in arch_remote_call_leave, as if the function had called it. */
static void leave_call(struct call_frame *frame, void *context)
{
    arch_continue_in(context, (uintptr_t)frame->arch.leave, frame->arch.own_stack, (uintptr_t)frame,
                     -EOWNERDEAD);
}

static void on_end_of_callee(int signal, siginfo_t *info, void *context)
{
    const struct call_lender *lender = find_lender();
    uintptr_t next = atomic_load(&next_handler);
    if (lender && atomic_load(&call_member_of(lender)->gone)) {
        struct call_frame *frame = *(struct call_frame **)lender->current;
        uintptr_t at = arch_interrupted_at(context);
        if (frame && frame->arch.armed && !is_in_handler(at))
            leave_call(frame, context);
        return;
    }
    /* The handler of thread mode may have been put before this one and have it as its next. */
    static _Atomic uintptr_t passed_on;
    if (next <= (uintptr_t)SIG_IGN || atomic_load(&passed_on) == (uintptr_t)context)
        return;
    atomic_store(&passed_on, (uintptr_t)context);
    if (lender)
        run_handler(next, lender, signal, info, context);
    else
        ((handler_function *)next)(signal, info, context);
    atomic_store(&passed_on, 0);
}

static void set_end_handler(void)
{
    struct space_sigaction before, ours = {.handler = (uintptr_t)on_end_of_callee,
                                           .flags = SA_SIGINFO | SA_RESTART | ARCH_SA_RESTORER,
                                           .restorer = (uintptr_t)arch_signal_restorer};
    raw(__NR_rt_sigaction, CALL_SIGNAL, NULL, &before, ARCH_SIGNAL_SET_BYTES);
    atomic_store(&next_handler, before.handler);
    raw(__NR_rt_sigaction, CALL_SIGNAL, &ours, NULL, ARCH_SIGNAL_SET_BYTES);
}

/* SIGSEGV and SIGBUS have a handler of interpose/signals.c already. 32 is glibc's for cancelling
 * threads: its handler looks at the lender's thread, which nobody cancels, and does nothing. */
static int is_passed_over(int signal)
{
    return signal == SIGKILL || signal == SIGSTOP || signal == SIGSEGV || signal == SIGBUS ||
           signal == CALL_SIGNAL - 1 || signal == CALL_SIGNAL;
}

static void put_before_all(void)
{
    for (int signal = 1; signal <= SIGNAL_MAX; signal++) {
        struct space_sigaction action;
        if (is_passed_over(signal) ||
            raw(__NR_rt_sigaction, signal, NULL, &action, ARCH_SIGNAL_SET_BYTES) != 0 ||
            action.handler <= (uintptr_t)SIG_IGN)
            continue;
        atomic_store(&handlers[signal], action.handler);
        atomic_store(&restorer, action.restorer);
        action.handler = (uintptr_t)on_signal;
        raw(__NR_rt_sigaction, signal, &action, NULL, ARCH_SIGNAL_SET_BYTES);
    }
}

static int is_interposed(const struct space_slot *self)
{
    return self->interpose.fault_trampoline && !(self->flags & ONESPACE_SPAWN_NO_INTERPOSE);
}

int call_prepare_signals(struct space *space, struct space_slot *self, int may_set_pointer)
{
    static _Atomic int is_ready;
    _Atomic uint32_t *calls = &call_table()->members[slot_index(space, self)].calls;
    if (!atomic_load_explicit(calls, memory_order_relaxed)) /* in each space of a root */
        atomic_store(calls, 1);
    if (atomic_load_explicit(&is_ready, memory_order_acquire))
        return !is_interposed(self);
    uint64_t signals = member_lock(self); /* among the program's threads */
    if (!atomic_load(&is_ready)) {
        by_call = !may_set_pointer;
        own_slot = self;
        set_end_handler();
        if (is_interposed(self)) {
            atomic_store(&self->interpose.call_handlers, (uintptr_t)handlers);
            atomic_store(&self->interpose.call_fault, (uintptr_t)on_fault);
            /* Release: who sees it sees the two above. */
            atomic_store_explicit(&self->interpose.call_handler, (uintptr_t)on_signal,
                                  memory_order_release);
            put_before_all();
        }
        atomic_store_explicit(&is_ready, 1, memory_order_release);
    }
    member_unlock(self, signals);
    /* CALL_SIGNAL again: the mask that was restored may block it. */
    uint64_t bit = signal_bit(CALL_SIGNAL);
    raw(__NR_rt_sigprocmask, SIG_UNBLOCK, &bit, NULL, ARCH_SIGNAL_SET_BYTES);
    return !is_interposed(self);
}
