/* src/interpose/signals.c: SIGSEGV and SIGBUS shared between our copies and the program.
 *
 * The kernel always has our handler; the program's is recorded, and returned when it asks. Our
 * handler recovers from faults inside our own copy loop and passes everything else to the
 * program's, with the flags, mask and stack that the program asked for: our handler is installed
 * with those. */
#include "interpose/signals.h"

#include <errno.h>
#include <signal.h>

#include "arch/constants.h"
#include "arch/copy.h"
#include "arch/entry.h"
#include "arch/trampoline.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "interpose/thread_mode.h"
#include "space/lock.h"

const int interpose_fault_signals[2] = {SIGSEGV, SIGBUS};

static struct space_sigaction *recorded(struct space_slot *self, int signal)
{
    return &self->interpose.actions[signal == SIGBUS];
}

long interpose_install_handler(struct space_slot *self, int signal)
{
    const struct space_sigaction *wanted = recorded(self, signal);
    struct space_sigaction ours = *wanted;
    ours.handler = self->interpose.fault_trampoline;
    ours.flags = (ours.flags & ~(unsigned long)SA_RESETHAND) | SA_SIGINFO | ARCH_SA_RESTORER;
    if (!(wanted->flags & ARCH_SA_RESTORER))
        ours.restorer = (uintptr_t)arch_signal_restorer;
    return raw(__NR_rt_sigaction, signal, &ours, NULL, ARCH_SIGNAL_SET_BYTES);
}

void interpose_install_handlers(struct space_slot *self)
{
    self->interpose.fault_trampoline = arch_fault_trampoline(self->interpose.trampolines);
    for (unsigned i = 0; i < 2; i++) {
        raw(__NR_rt_sigaction, interpose_fault_signals[i], NULL,
            recorded(self, interpose_fault_signals[i]), ARCH_SIGNAL_SET_BYTES);
        interpose_install_handler(self, interpose_fault_signals[i]);
    }
}

long interpose_sigaction(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    int signal = (int)a[0];
    struct space_sigaction wanted;
    long done;
    if (thread_mode_took_handler(self, a, &done))
        return done;
    if ((signal != SIGSEGV && signal != SIGBUS) || !self->interpose.fault_trampoline ||
        a[3] != ARCH_SIGNAL_SET_BYTES)
        return raw(__NR_rt_sigaction, a[0], a[1], a[2], a[3]);
    if (a[1] && arch_guarded_copy(&wanted, (void *)a[1], sizeof(wanted)) != 0)
        return -EFAULT;
    uint64_t signals = space_lock(self);
    struct space_sigaction before = *recorded(self, signal);
    long result = 0;
    if (a[1] && space_marked() && !interpose_is_task(self)) {
        result =
            raw(__NR_rt_sigaction, signal, &wanted, NULL, ARCH_SIGNAL_SET_BYTES); /* vfork child */
    } else if (a[1]) {
        *recorded(self, signal) = wanted;
        result = interpose_install_handler(self, signal);
    }
    space_unlock(self, signals);
    if (result == 0 && a[2] && arch_guarded_copy((void *)a[2], &before, sizeof(before)) != 0)
        return -EFAULT;
    return result;
}

/* The default action of the signal. */
static void die_by_default(int signal, const siginfo_t *info)
{
    struct space_sigaction none = {.handler = (uintptr_t)SIG_DFL};
    raw(__NR_rt_sigaction, signal, &none, NULL, ARCH_SIGNAL_SET_BYTES);
    /* A fault recurs on return; a signal that was sent must be sent again. */
    if (info->si_code <= 0)
        raw(__NR_rt_tgsigqueueinfo, raw(__NR_getpid), raw(__NR_gettid), signal, info);
}

uintptr_t interpose_fault(int signal, void *information, void *context, void *slot)
{
    const siginfo_t *info = information;
    struct space_slot *self = slot;
    int is_fault = info->si_code > 0;
    if (is_fault && arch_fault_recover(context))
        return 0;
    struct space_sigaction *action = recorded(self, signal);
    uintptr_t handler = *(volatile uintptr_t *)&action->handler;
    if (handler == (uintptr_t)SIG_IGN && !is_fault)
        return 0;
    if (handler == (uintptr_t)SIG_DFL || handler == (uintptr_t)SIG_IGN) {
        die_by_default(signal, info);
        return 0;
    }
    if (action->flags & SA_RESETHAND)
        action->handler = (uintptr_t)SIG_DFL;
    return handler;
}
