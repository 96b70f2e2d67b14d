/* src/interpose/signals.c: faults: SIGSEGV and SIGBUS shared between our copies and the program,
 * and access through pointers of the program.
 *
 * The kernel has our handler; the program's is recorded, and returned when the program asks for it.
 * Our handler recovers from faults inside our own copy loop and passes everything else to the
 * program's, with the flags, mask and stack that the program asked for: our handler is installed
 * with those.
 *
 * A signal that the program ignores is ignored by the kernel too, since a handler would interrupt
 * calls that an ignored signal does not. Meanwhile copies between members are the kernel's
 * (interpose_can_recover).
 *
 * A child by fork or vfork has its own handlers, which begin as the task's. What it sets goes to
 * the kernel and is not recorded. */
#include <errno.h>
#include <signal.h>
#include <sys/uio.h>

#include "arch/constants.h"
#include "arch/copy.h"
#include "arch/syscall.h"
#include "arch/keys.h"
#include "arch/trampoline.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/guard/guard.h"
#include "interpose/interpose.h"
#include "space/locks.h"

static const int fault_signals[2] = {SIGSEGV, SIGBUS};

static struct space_sigaction *recorded(struct space_slot *self, int signal)
{
    return &self->interpose.actions[signal == SIGBUS];
}

struct space_sigaction interpose_our_action(const struct space_slot *self,
                                            const struct space_sigaction *wanted)
{
    struct space_sigaction ours = *wanted;
    ours.handler = self->interpose.fault_trampoline;
    ours.flags = (ours.flags & ~(unsigned long)SA_RESETHAND) | SA_SIGINFO | ARCH_SA_RESTORER;
    if (!(wanted->flags & ARCH_SA_RESTORER))
        ours.restorer = (uintptr_t)arch_signal_restorer;
    if (ARCH_HAS_KEYS && self->guard_key && space_registry()->guard.blocks_signals)
        ours.mask = SIGNAL_MASK_ALL;
    return ours;
}

/* Gives the kernel the action that follows from the record. */
static long install(struct space_slot *self, int signal)
{
    const struct space_sigaction *wanted = recorded(self, signal);
    if (wanted->handler == (uintptr_t)SIG_IGN)
        return raw(__NR_rt_sigaction, signal, wanted, NULL, ARCH_SIGNAL_SET_BYTES);
    struct space_sigaction ours = interpose_our_action(self, wanted);
    return raw(__NR_rt_sigaction, signal, &ours, NULL, ARCH_SIGNAL_SET_BYTES);
}

void interpose_install_fault_handlers(struct space_slot *self)
{
    uintptr_t trampolines = self->interpose.trampolines;
    self->interpose.fault_trampoline = ARCH_HAS_KEYS && self->guard_key
                                           ? arch_guard_trampoline(trampolines)
                                           : arch_fault_trampoline(trampolines);
    for (unsigned i = 0; i < 2; i++) {
        raw(__NR_rt_sigaction, fault_signals[i], NULL, recorded(self, fault_signals[i]),
            ARCH_SIGNAL_SET_BYTES);
        install(self, fault_signals[i]);
    }
}

int interpose_can_recover(struct space_slot *self)
{
    uint64_t blocked = 0;
    if (!self->interpose.fault_trampoline)
        return 0;
    for (unsigned i = 0; i < 2; i++)
        if (*(volatile uintptr_t *)&self->interpose.actions[i].handler == (uintptr_t)SIG_IGN)
            return 0;
    raw(__NR_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, ARCH_SIGNAL_SET_BYTES);
    return !(blocked & (signal_bit(SIGSEGV) | signal_bit(SIGBUS)));
}

/* The kernel drops flags that it does not know, by which programs detect what it knows. It would
 * keep of the program's flags what it has kept of ours, which include all of them except
 * SA_RESETHAND. */
void interpose_drop_unknown_flags(struct space_sigaction *wanted, int signal)
{
    struct space_sigaction kept;
    if (raw(__NR_rt_sigaction, signal, NULL, &kept, ARCH_SIGNAL_SET_BYTES) == 0)
        wanted->flags &= kept.flags | SA_RESETHAND;
}

/* In a guarded task's forked children, which have copies of the record, handlers begin in our
 * entry, too. */
static int may_record(const struct space_slot *self)
{
    return interpose_is_task(self) || (self->guard_key && !process_in_space());
}

/* Stores the old action in *before, as set_in_child does. */
static long set_in_task(struct space_slot *self, int signal, const struct space_sigaction *wanted,
                        struct space_sigaction *before)
{
    uint64_t signals = member_lock(self);
    long result = 0;
    *before = *recorded(self, signal);
    if (wanted) {
        *recorded(self, signal) = *wanted;
        /* The kernel never blocks these. */
        recorded(self, signal)->mask &= ~(signal_bit(SIGKILL) | signal_bit(SIGSTOP));
        result = install(self, signal);
        interpose_drop_unknown_flags(recorded(self, signal), signal);
    }
    member_unlock(self, signals);
    return result;
}

static long set_in_child(struct space_slot *self, int signal, const struct space_sigaction *wanted,
                         struct space_sigaction *before)
{
    long result = raw(__NR_rt_sigaction, signal, wanted, before, ARCH_SIGNAL_SET_BYTES);
    if (result == 0 && before->handler == self->interpose.fault_trampoline)
        *before = *recorded(self, signal); /* the child has not set one yet */
    return result;
}

/* Once the program calls into other members, the kernel has one handler of ours for all signals
 * that the program handles. It runs the program's handler with the thread's own thread pointer
 * (remote_call/signals.c). An action that a child sets goes to the kernel. */
static long set_with_call_handler(struct space_slot *self, const long a[6], uintptr_t ours)
{
    struct space_sigaction wanted, before;
    int signal = (int)a[0];
    if (signal < 1 || signal > SIGNAL_MAX || a[3] != ARCH_SIGNAL_SET_BYTES)
        return raw(__NR_rt_sigaction, a[0], a[1], a[2], a[3]);
    if (a[1] && interpose_copy_from_user(&wanted, (void *)a[1], sizeof(wanted)) != 0)
        return -EFAULT;
    _Atomic uintptr_t *known =
        (_Atomic uintptr_t *)atomic_load(&self->interpose.call_handlers) + signal;
    int is_task = interpose_is_task(self);
    uint64_t signals = is_task ? member_lock(self) : 0;
    uintptr_t old = atomic_load(known);
    if (a[1] && is_task && wanted.handler > (uintptr_t)SIG_IGN) {
        atomic_store(known, wanted.handler); /* first: the signal may arrive at once */
        wanted.handler = ours;
    }
    long result = raw(__NR_rt_sigaction, a[0], a[1] ? &wanted : NULL, &before, a[3]);
    if (result != 0)
        atomic_store(known, old);
    if (is_task)
        member_unlock(self, signals);
    if (result == 0 && before.handler == ours)
        before.handler = old;
    return result == 0 && a[2] ? interpose_copy_to_user((void *)a[2], &before, sizeof(before))
                               : result;
}

long interpose_sigaction(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    int signal = (int)a[0];
    struct space_sigaction wanted, before;
    long result;
    if (thread_mode_set_handler(self, a, &result))
        return result;
    if ((signal != SIGSEGV && signal != SIGBUS) || !self->interpose.fault_trampoline ||
        a[3] != ARCH_SIGNAL_SET_BYTES) {
        /* Acquire, pairs with the release in call_install_handlers. */
        uintptr_t ours = atomic_load_explicit(&self->interpose.call_handler, memory_order_acquire);
        return ours ? set_with_call_handler(self, a, ours)
                    : raw(__NR_rt_sigaction, a[0], a[1], a[2], a[3]);
    }
    if (a[1] && interpose_copy_from_user(&wanted, (void *)a[1], sizeof(wanted)) != 0)
        return -EFAULT;
    const struct space_sigaction *change = a[1] ? &wanted : NULL;
    result = may_record(self) ? set_in_task(self, signal, change, &before)
                              : set_in_child(self, signal, change, &before);
    if (result == 0 && a[2])
        result = interpose_copy_to_user((void *)a[2], &before, sizeof(before));
    return result;
}

/* Restores the default action and sends the signal again. Most faults would recur on return, but
 * not those that report damaged memory before it is accessed. */
static void take_default_action(int signal, const siginfo_t *info)
{
    struct space_sigaction none = {.handler = (uintptr_t)SIG_DFL};
    raw(__NR_rt_sigaction, signal, &none, NULL, ARCH_SIGNAL_SET_BYTES);
    raw(__NR_rt_tgsigqueueinfo, raw(__NR_getpid), raw(__NR_gettid), signal, info);
}

/* SA_RESETHAND. */
static void reset_handler(struct space_slot *self, int signal)
{
    struct space_sigaction none = *recorded(self, signal);
    none.handler = (uintptr_t)SIG_DFL;
    if (may_record(self))
        recorded(self, signal)->handler = none.handler;
    else
        raw(__NR_rt_sigaction, signal, &none, NULL, ARCH_SIGNAL_SET_BYTES);
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
        take_default_action(signal, info);
        return 0;
    }
    if (action->flags & SA_RESETHAND)
        reset_handler(self, signal);
    /* During a call into another member the program's handler needs its own thread pointer. */
    interpose_call_fault *in_call = (interpose_call_fault *)atomic_load_explicit(
        &self->interpose.call_fault, memory_order_acquire);
    if (in_call && in_call(signal, information, context, handler))
        return 0;
    return handler;
}

/* ---- Pointers of the program ---- */

static int copy_user(long nr, void *local_address, void *user_address, size_t size)
{
    struct iovec local = {local_address, size}, user = {user_address, size};
    long result = raw(nr, raw(__NR_getpid), &local, 1, &user, 1, 0);
    if (result >= 0 || result == -EFAULT)
        return result == (long)size ? 0 : -EFAULT;
    int failed = nr == __NR_process_vm_readv ? arch_guarded_copy(local_address, user_address, size)
                                             : arch_guarded_copy(user_address, local_address, size);
    return failed ? -EFAULT : 0;
}

int interpose_copy_from_user(void *to, const void *from, size_t size)
{
    return copy_user(__NR_process_vm_readv, to, (void *)from, size);
}

int interpose_copy_to_user(void *to, const void *from, size_t size)
{
    return copy_user(__NR_process_vm_writev, (void *)from, to, size);
}
