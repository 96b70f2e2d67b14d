/* src/interpose/guard/signals.c: a guarded task's handlers run with its rights.
 *
 * The kernel enters a handler with the right to key 0 alone. It has our entry for every signal that
 * the program handles (arch_guard_trampoline), which leads here with the right to everything; from
 * here the program's handler gets the task's rights. When that returns, the kernel restores those
 * of the interrupted code from the signal's frame.
 *
 * Before Linux 6.12 the kernel writes a frame with the rights of the interrupted code. A second
 * signal that comes before our entry's first instructions are done would end the process: so all
 * signals are blocked at the entry, and here those that the program does not want blocked are let
 * through. Of sigsuspend and the like, whose temporary mask the kernel does not tell, that is the
 * mask from before: a signal that only the temporary one lets through waits until the next call. */
#include <errno.h>
#include <signal.h>

#include "arch/constants.h"
#include "arch/copy.h"
#include "arch/keys.h"
#include "arch/trampoline.h"
#include "base/raw.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/record.h"
#include "interpose/interpose.h"
#include "interpose/pointers.h"
#include "interpose/signals.h"
#include "space/locks.h"

/* The end of a step over a violation that is only reported. */
static int is_always_ours(const struct space_slot *self, int signal)
{
    return signal == SIGTRAP && (self->flags & ONESPACE_SPAWN_GUARD_REPORT);
}

static struct space_sigaction *action_of(struct space_slot *self, int signal)
{
    return signal == SIGSEGV || signal == SIGBUS ? &self->interpose.actions[signal == SIGBUS]
                                                 : &guard_record(self)->actions[signal - 1];
}

/* Whether the caller may change the record: a vforked child has its parent's. */
static int may_record(const struct space_slot *self)
{
    return !process_in_space() || interpose_is_task(self);
}

static long set(struct space_slot *self, int signal, const struct space_sigaction *wanted,
                struct space_sigaction *before)
{
    uint64_t signals = member_lock(self);
    struct space_sigaction *action = action_of(self, signal), old = *action, ours;
    int has_entry = wanted && may_record(self) &&
                    (wanted->handler > (uintptr_t)SIG_IGN || is_always_ours(self, signal));
    if (has_entry) {
        *action = *wanted; /* before the kernel knows: the entry reads it */
        action->mask &= ~(signal_bit(SIGKILL) | signal_bit(SIGSTOP));
        ours = interpose_our_action(self, wanted);
    }
    long result =
        raw(__NR_rt_sigaction, signal, has_entry ? &ours : wanted, before, ARCH_SIGNAL_SET_BYTES);
    if (has_entry && result != 0)
        *action = old;
    else if (has_entry)
        interpose_drop_unknown_flags(action, signal);
    if (result == 0 && before->handler == self->interpose.fault_trampoline)
        *before = old;
    member_unlock(self, signals);
    return result;
}

long guard_sigaction(struct space_slot *self, const long a[6])
{
    int signal = (int)a[0];
    struct space_sigaction wanted, before;
    if (signal < 1 || signal > SIGNAL_MAX || signal == SIGKILL || signal == SIGSTOP ||
        a[3] != ARCH_SIGNAL_SET_BYTES)
        return raw(__NR_rt_sigaction, a[0], a[1], a[2], a[3]);
    if (a[1] && interpose_copy_from_user(&wanted, (void *)a[1], sizeof(wanted)) != 0)
        return -EFAULT;
    long result = set(self, signal, a[1] ? &wanted : NULL, &before);
    if (result == 0 && a[2])
        result = interpose_copy_to_user((void *)a[2], &before, sizeof(before));
    return result;
}

void guard_install_handlers(struct space_slot *self)
{
    struct space_sigaction *action = action_of(self, SIGTRAP);
    if (!is_always_ours(self, SIGTRAP))
        return;
    raw(__NR_rt_sigaction, SIGTRAP, NULL, action, ARCH_SIGNAL_SET_BYTES);
    struct space_sigaction ours = interpose_our_action(self, action);
    raw(__NR_rt_sigaction, SIGTRAP, &ours, NULL, ARCH_SIGNAL_SET_BYTES);
}

/* The instruction that was let through has been executed: closes what was opened for it. */
static int ended_step(const struct space_slot *self, int signal, void *context)
{
    const struct space_guard *guard = &space_registry()->guard;
    if (!is_always_ours(self, signal))
        return 0;
    uint32_t *saved = arch_saved_rights(context, guard->saved_at);
    uint32_t closed = self->guard_rights & guard->no_write;
    if ((*saved & closed) == closed)
        return 0;
    *saved |= closed;
    arch_set_stepping(context, 0);
    return 1;
}

/* The program's handler, or 0: there is nothing to be called. */
static uintptr_t handler_of(struct space_slot *self, int signal, const siginfo_t *info)
{
    struct space_sigaction *action = action_of(self, signal);
    uintptr_t handler = *(volatile uintptr_t *)&action->handler;
    if (handler == (uintptr_t)SIG_IGN)
        return 0;
    if (handler == (uintptr_t)SIG_DFL) { /* it comes again, with the default action */
        struct space_sigaction none = {.handler = (uintptr_t)SIG_DFL};
        raw(__NR_rt_sigaction, signal, &none, NULL, ARCH_SIGNAL_SET_BYTES);
        raw(__NR_rt_tgsigqueueinfo, raw(__NR_getpid), raw(__NR_gettid), signal, info);
        return 0;
    }
    if (action->flags & SA_RESETHAND) {
        struct space_sigaction none = {.handler = (uintptr_t)SIG_DFL};
        raw(__NR_rt_sigaction, signal, &none, NULL, ARCH_SIGNAL_SET_BYTES);
    }
    return handler;
}

/* Whether the signal was ours; else *handler is what to call. */
static int took(struct space_slot *self, int signal, siginfo_t *info, void *context,
                uintptr_t *handler)
{
    *handler = 0;
    if (signal == SIGSEGV && info->si_code == SEGV_PKUERR &&
        (arch_fault_recover(context) || guard_violated(self, info, context)))
        return 1;
    if (ended_step(self, signal, context))
        return 1;
    *handler = signal == SIGSEGV || signal == SIGBUS ? interpose_fault(signal, info, context, self)
                                                     : handler_of(self, signal, info);
    return *handler == 0;
}

/* What the kernel would have blocked for the program's handler. */
static void block_as_wanted(struct space_slot *self, int signal, const void *context)
{
    const struct space_sigaction *action = action_of(self, signal);
    uint64_t mask = *(const uint64_t *)&((const ucontext_t *)context)->uc_sigmask;
    mask |= action->mask | (action->flags & SA_NODEFER ? 0 : signal_bit(signal));
    signals_set_mask(mask);
}

uintptr_t guard_signal(int signal, void *information, void *context, void *slot)
{
    struct space_slot *self = slot;
    uintptr_t handler;
    int was_ours = took(self, signal, information, context, &handler);
    arch_set_rights(self->guard_rights);
    if (!was_ours && space_registry()->guard.blocks_signals)
        block_as_wanted(self, signal, context);
    return handler;
}
