/* src/remote_call/signals.c: signals of a thread that is in another program's context.
 *
 * A signal runs a handler of the thread's own process, which needs its own thread pointer. So the
 * first call of a task installs on_signal in front of each handler of the program, and interposed
 * sigaction does so from then on (interpose/signals.c). Where sigaction is not interposed (in the
 * root and with NO_INTERPOSE), signals are blocked during calls instead.
 *
 * The reaper sends CALL_SIGNAL when the member that the thread has called into has ended: the
 * function may wait for an event that never comes. The handler aborts the call, except
 *   - if the thread is now in another, living member's context: that call returns first, and its
 *     caller sees that the member has ended;
 *   - while the thread handles another signal, whose mask would stay set: the reaper repeats the
 *     signal.
 * glibc sends the same signal to all threads, for setuid: its handler gets it in any case.
 *
 * Freestanding: until the thread pointer is restored, no thread-local storage may be used. The
 * table of donors is always mapped; the callee's memory is mapped while the thread is in its
 * context. */
#include "remote_call/remote_call.h"

#include <errno.h>
#include <signal.h>

#include "arch/constants.h"
#include "arch/registers.h"
#include "arch/syscall.h"
#include "base/raw.h"
#include "space/locks.h"
#include "space/member.h"

/* The program's handlers, by signal; interposed sigaction updates them, too. */
static _Atomic uintptr_t handlers[SIGNAL_MAX + 1];
/* The process's own handler of CALL_SIGNAL: glibc's, for setuid and similar calls. */
static _Atomic uintptr_t next_handler;
static struct space_slot *own_slot; /* set before any handler is installed */
static int by_call;                 /* the thread pointer is set by a system call */

typedef void handler_function(int, siginfo_t *, void *);

/* The section of the code that handles other signals while the donor's thread pointer is set. */
#define HANDLER __attribute__((section("call_handlers"), noinline))
extern const char __start_call_handlers[] __attribute__((visibility("hidden")));
extern const char __stop_call_handlers[] __attribute__((visibility("hidden")));
static _Atomic uintptr_t restorer; /* the code that the program's handlers return to */
enum { RESTORER_BYTES = 16 };

static int is_in_handler(uintptr_t address)
{
    return address - (uintptr_t)__start_call_handlers <
               (uintptr_t)(__stop_call_handlers - __start_call_handlers) ||
           address - atomic_load(&restorer) < RESTORER_BYTES;
}

/* Returns the donor of that member that has this thread pointer and is lent to `thread`, or NULL.
 */
HANDLER static struct call_donor *find_donor_of(unsigned index, uintptr_t pointer, int32_t thread)
{
    struct call_member *member = &call_table()->members[index];
    if (!atomic_load(&member->owner))
        return NULL;
    for (unsigned i = 0; i < CALL_DONORS; i++) {
        struct call_donor *donor = &member->donors[i];
        uint64_t word = atomic_load(&donor->state);
        if (donor->pointer == pointer && donor_state_of(word) == DONOR_LENT &&
            donor_borrower_thread(word) == thread)
            return donor;
    }
    return NULL;
}

/* Returns the donor whose context the calling thread is in, or NULL. The range that the thread
 * pointer lies in names the member. A thread pointer outside all ranges may belong to any. */
HANDLER static struct call_donor *current_donor(void)
{
    uintptr_t pointer = arch_thread_pointer();
    unsigned index = layout_slot_of(pointer);
    if (!atomic_load(&space_is_mapped))
        return NULL;
    if (own_slot && index == slot_index(space_registry(), own_slot))
        return NULL;
    int32_t thread = (int32_t)raw(__NR_gettid);
    if (index != LAYOUT_SLOTS)
        return find_donor_of(index, pointer, thread);
    uint32_t highest = atomic_load(&space_registry()->highest);
    for (index = 0; index <= highest; index++) {
        struct call_donor *donor = find_donor_of(index, pointer, thread);
        if (donor)
            return donor;
    }
    return NULL;
}

HANDLER static void run_handler(uintptr_t handler, const struct call_donor *donor, int signal,
                                siginfo_t *info, void *context)
{
    arch_set_thread_pointer(donor->borrower_pointer, by_call);
    ((handler_function *)handler)(signal, info, context);
    arch_set_thread_pointer(donor->pointer, by_call);
}

HANDLER static void on_signal(int signal, siginfo_t *info, void *context)
{
    uintptr_t handler = atomic_load(&handlers[signal]);
    const struct call_donor *donor = current_donor();
    if (handler <= (uintptr_t)SIG_IGN)
        return;
    if (donor)
        run_handler(handler, donor, signal, info, context);
    else
        ((handler_function *)handler)(signal, info, context);
}

HANDLER static int on_fault(int signal, void *information, void *context, uintptr_t handler)
{
    const struct call_donor *donor = current_donor();
    if (donor)
        run_handler(handler, donor, signal, information, context);
    return donor != NULL;
}

static void on_callee_ended(int signal, siginfo_t *info, void *context)
{
    const struct call_donor *donor = current_donor();
    uintptr_t next = atomic_load(&next_handler);
    int is_of_libc = info->si_code == SI_TKILL && info->si_pid == (pid_t)raw(__NR_getpid);
    if (!is_of_libc && donor && atomic_load(&donor_member(donor)->gone)) {
        struct call_frame *frame = *(struct call_frame **)donor->current;
        uintptr_t interrupted = arch_interrupted_at(context);
        if (frame && frame->arch.armed && !is_in_handler(interrupted))
            /* The thread continues there as if the function had called it. */
            arch_continue_in(context, (uintptr_t)frame->arch.leave, frame->arch.own_stack,
                             (uintptr_t)frame, -EOWNERDEAD);
        return;
    }
    if (next <= (uintptr_t)SIG_IGN)
        return;
    if (donor)
        run_handler(next, donor, signal, info, context);
    else
        ((handler_function *)next)(signal, info, context);
}

/* Installs on_callee_ended in front of the libc's handler, and behind that of thread mode, which
 * another thread may install at any time. */
static void install_call_signal_handler(void)
{
    const struct space_operations *operations = &space_registry()->operations;
    struct space_sigaction old, before,
        new = {.handler = (uintptr_t)on_callee_ended,
               .flags = SA_SIGINFO | SA_RESTART | ARCH_SA_RESTORER,
               .restorer = (uintptr_t)arch_signal_restorer};
    raw(__NR_rt_sigaction, CALL_SIGNAL, NULL, &old, ARCH_SIGNAL_SET_BYTES);
    while (old.handler != operations->thread_mode_handler()) {
        atomic_store(&next_handler, old.handler);
        raw(__NR_rt_sigaction, CALL_SIGNAL, &new, &before, ARCH_SIGNAL_SET_BYTES);
        if (before.handler == old.handler || before.handler == new.handler)
            return;
        old = before;
    }
    _Atomic uintptr_t *behind = operations->thread_mode_handler_behind();
    uintptr_t next = atomic_load(behind);
    if (next != new.handler) /* thread mode's was not installed in front of this one just now */
        atomic_store(&next_handler, next);
    atomic_store(behind, new.handler);
    raw(__NR_rt_sigaction, CALL_SIGNAL, &old, NULL, ARCH_SIGNAL_SET_BYTES);
}

/* interpose/signals.c handles SIGSEGV and SIGBUS. glibc cancels threads by signal 32: in a call its
 * handler reads the state of the donor's thread, which is never cancelled, and does nothing. */
static int keeps_handler(int signal)
{
    return signal == SIGKILL || signal == SIGSTOP || signal == SIGSEGV || signal == SIGBUS ||
           signal == CALL_SIGNAL - 1 || signal == CALL_SIGNAL;
}

/* Installs on_signal in front of all handlers of the program. */
static void wrap_handlers(void)
{
    for (int signal = 1; signal <= SIGNAL_MAX; signal++) {
        struct space_sigaction action;
        if (keeps_handler(signal) ||
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

int call_install_handlers(struct space *space, struct space_slot *self, int may_set_pointer)
{
    static _Atomic int is_ready;
    _Atomic uint32_t *calls = &call_table()->members[slot_index(space, self)].calls;
    if (!atomic_load_explicit(calls, memory_order_relaxed)) /* once per space of a root */
        atomic_store(calls, 1);
    if (atomic_load_explicit(&is_ready, memory_order_acquire))
        return !is_interposed(self);
    uint64_t signals = member_lock(self); /* among the program's threads */
    if (!atomic_load(&is_ready)) {
        by_call = !may_set_pointer;
        own_slot = self;
        install_call_signal_handler();
        if (is_interposed(self)) {
            atomic_store(&self->interpose.call_handlers, (uintptr_t)handlers);
            atomic_store(&self->interpose.call_fault, (uintptr_t)on_fault);
            /* Release: a thread that sees it sees the two above. */
            atomic_store_explicit(&self->interpose.call_handler, (uintptr_t)on_signal,
                                  memory_order_release);
            wrap_handlers();
        }
        atomic_store_explicit(&is_ready, 1, memory_order_release);
    }
    member_unlock(self, signals);
    /* member_unlock restored a mask that may block CALL_SIGNAL. */
    uint64_t bit = signal_bit(CALL_SIGNAL);
    raw(__NR_rt_sigprocmask, SIG_UNBLOCK, &bit, NULL, ARCH_SIGNAL_SET_BYTES);
    return !is_interposed(self);
}
