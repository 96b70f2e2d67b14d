/* src/interpose/guard/signals.c: a guarded task's handlers run with its rights.
 *
 * The kernel enters a handler with the right to key 0 only. It has our entry for every signal that
 * the program handles (arch_guard_trampoline), which calls guard_signal with the right to all
 * memory. That sets the task's rights for the program's handler. When the handler returns, the
 * kernel restores the rights of the interrupted code from the signal's frame.
 *
 * Before Linux 6.12 the kernel writes a frame with the rights of the interrupted code. A second
 * signal that arrives before the first instructions of our entry would kill the process. So all
 * signals are blocked at the entry, and guard_signal unblocks those that the program wants.
 * sigsuspend's temporary mask is unknown here; the previous one is used, so a signal that only the
 * temporary mask allows waits until the next call. */
#include <errno.h>
#include <signal.h>

#include "arch/constants.h"
#include "arch/copy.h"
#include "arch/keys.h"
#include "arch/trampoline.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/guard/guard.h"
#include "interpose/interpose.h"
#include "space/locks.h"

/* SIGTRAP ends the single step over a violation that is only reported. */
static int always_has_handler(const struct space_slot *self, int signal)
{
    return signal == SIGTRAP && (self->flags & ONESPACE_SPAWN_GUARD_REPORT);
}

static struct space_sigaction *action_of(struct space_slot *self, int signal)
{
    return signal == SIGSEGV || signal == SIGBUS ? &self->interpose.actions[signal == SIGBUS]
                                                 : &guard_record(self)->actions[signal - 1];
}

static long set_action(struct space_slot *self, int signal, const struct space_sigaction *wanted,
                       struct space_sigaction *before)
{
    uint64_t signals = member_lock(self);
    struct space_sigaction *action = action_of(self, signal), old = *action, ours;
    /* A vforked child must not change the record, which is its parent's. */
    int has_entry = wanted && (!process_in_space() || interpose_is_task(self)) &&
                    (wanted->handler > (uintptr_t)SIG_IGN || always_has_handler(self, signal));
    if (has_entry) {
        *action = *wanted; /* before the kernel has our entry, which reads it */
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

long guard_sigaction(struct space_slot *self, int is_loader, long nr, const long a[6])
{
    int signal = (int)a[0];
    struct space_sigaction wanted, before;
    if (signal == SIGSEGV || signal == SIGBUS)
        return interpose_run_call(self, is_loader, nr, a);
    if (signal < 1 || signal > SIGNAL_MAX || signal == SIGKILL || signal == SIGSTOP ||
        a[3] != ARCH_SIGNAL_SET_BYTES)
        return raw(__NR_rt_sigaction, a[0], a[1], a[2], a[3]);
    if (a[1] && interpose_copy_from_user(&wanted, (void *)a[1], sizeof(wanted)) != 0)
        return -EFAULT;
    long result = set_action(self, signal, a[1] ? &wanted : NULL, &before);
    if (result == 0 && a[2])
        result = interpose_copy_to_user((void *)a[2], &before, sizeof(before));
    return result;
}

void guard_install_handlers(struct space_slot *self)
{
    struct space_sigaction *action = action_of(self, SIGTRAP);
    if (!always_has_handler(self, SIGTRAP))
        return;
    raw(__NR_rt_sigaction, SIGTRAP, NULL, action, ARCH_SIGNAL_SET_BYTES);
    struct space_sigaction ours = interpose_our_action(self, action);
    raw(__NR_rt_sigaction, SIGTRAP, &ours, NULL, ARCH_SIGNAL_SET_BYTES);
}

/* The instruction that was let through has been executed: removes the rights that it was given. */
static int end_step(const struct space_slot *self, int signal, void *context)
{
    const struct space_guard *guard = &space_registry()->guard;
    if (!always_has_handler(self, signal))
        return 0;
    uint32_t *saved = arch_saved_rights(context, guard->saved_at);
    uint32_t closed = self->guard_rights & guard->no_write;
    if ((*saved & closed) == closed)
        return 0;
    *saved |= closed;
    arch_set_stepping(context, 0);
    return 1;
}

/* The program's handler, or 0 if none is to be called. */
static uintptr_t handler_of(struct space_slot *self, int signal, const siginfo_t *info)
{
    struct space_sigaction *action = action_of(self, signal);
    uintptr_t handler = *(volatile uintptr_t *)&action->handler;
    if (handler == (uintptr_t)SIG_IGN)
        return 0;
    int is_default = handler == (uintptr_t)SIG_DFL;
    if (is_default || (action->flags & SA_RESETHAND)) {
        struct space_sigaction none = {.handler = (uintptr_t)SIG_DFL};
        raw(__NR_rt_sigaction, signal, &none, NULL, ARCH_SIGNAL_SET_BYTES);
    }
    if (is_default) /* sends it again, with the default action */
        raw(__NR_rt_tgsigqueueinfo, raw(__NR_getpid), raw(__NR_gettid), signal, info);
    return is_default ? 0 : handler;
}

/* Whether the signal is handled; else *handler is to be called. */
static int handle_own(struct space_slot *self, int signal, siginfo_t *info, void *context,
                      uintptr_t *handler)
{
    *handler = 0;
    if (signal == SIGSEGV && info->si_code == SEGV_PKUERR &&
        (arch_fault_recover(context) || guard_violated(self, info, context)))
        return 1;
    if (end_step(self, signal, context))
        return 1;
    *handler = signal == SIGSEGV || signal == SIGBUS ? interpose_fault(signal, info, context, self)
                                                     : handler_of(self, signal, info);
    return *handler == 0;
}

/* Sets the mask that the kernel would have set for the program's handler. */
static void set_handler_mask(struct space_slot *self, int signal, const void *context)
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
    int is_handled = handle_own(self, signal, information, context, &handler);
    arch_set_rights(self->guard_rights);
    if (!is_handled && space_registry()->guard.blocks_signals)
        set_handler_mask(self, signal, context);
    return handler;
}
