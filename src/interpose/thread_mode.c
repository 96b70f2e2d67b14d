/* src/interpose/thread_mode.c: see thread_mode.h. */
#include "interpose/thread_mode.h"

#include <signal.h>
#include <sys/resource.h>

#include "arch/constants.h"
#include "arch/syscall.h"
#include "base/futex.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "interpose/pointers.h"
#include "space/member.h"

/* The handlers of THREAD_MODE_SIGNAL behind ours: the process's own, and those of the tasks' libcs,
 * by slot, for their threads (setuid and the like). In the root's copy of the library. Written with
 * release by children, by tasks that set a handler and by exiting ones; read with acquire by our
 * handler. */
static _Atomic uintptr_t next_handler, task_handlers[LAYOUT_SLOTS];

static int is_own_signal(const siginfo_t *info)
{
    const struct space_slot *slot = info->si_value.sival_ptr;
    struct space *space = space_registry();
    return info->si_code == SI_QUEUE && slot > space->slots && slot < space->slots + LAYOUT_SLOTS &&
           layout_slot_of((uintptr_t)&slot) == slot_index(space, slot) && /* on its stack */
           atomic_load_explicit(&slot->exited, memory_order_acquire);
}

static void on_end_signal(int number, siginfo_t *info, void *context)
{
    if (is_own_signal(info))
        for (;;)
            raw(__NR_exit, 0);
    unsigned index = layout_slot_of((uintptr_t)&info); /* whose stack it is */
    uintptr_t next = index < LAYOUT_SLOTS
                         ? atomic_load_explicit(&task_handlers[index], memory_order_acquire)
                         : 0;
    if (!next)
        next = atomic_load_explicit(&next_handler, memory_order_acquire);
    if (next > (uintptr_t)SIG_IGN)
        ((void (*)(int, siginfo_t *, void *))next)(number, info, context);
}

void thread_mode_install_handler(void)
{
    struct space_sigaction before, ours = {.handler = (uintptr_t)on_end_signal,
                                           .flags = SA_SIGINFO | SA_RESTART | ARCH_SA_RESTORER,
                                           .restorer = (uintptr_t)arch_signal_restorer};
    raw(__NR_rt_sigaction, THREAD_MODE_SIGNAL, NULL, &before, ARCH_SIGNAL_SET_BYTES);
    if (before.handler == ours.handler)
        return;
    atomic_store_explicit(&next_handler, before.handler, memory_order_release);
    raw(__NR_rt_sigaction, THREAD_MODE_SIGNAL, &ours, NULL, ARCH_SIGNAL_SET_BYTES);
}

int thread_mode_set_handler(struct space_slot *self, const long a[6], long *result)
{
    if (a[0] != THREAD_MODE_SIGNAL || !a[1] || !space_is_thread(self) || !interpose_is_task(self))
        return 0;
    struct space_sigaction wanted;
    *result = interpose_copy_from_user(&wanted, (const void *)a[1], sizeof(wanted));
    if (*result == 0)
        atomic_store_explicit(&task_handlers[slot_index(space_registry(), self)], wanted.handler,
                              memory_order_release);
    return 1;
}

_Noreturn void thread_mode_exit(struct space_slot *self, int status)
{
    struct rusage usage;
    uint32_t none = 0;
    if (!interpose_is_task(self))
        for (;;)
            raw(__NR_exit_group, status);
    atomic_store_explicit(&task_handlers[slot_index(space_registry(), self)], 0,
                          memory_order_release);
    thread_mode_install_handler(); /* another libc of the process, as musl, may have set a handler
                                      since */
    if (raw(__NR_getrusage, RUSAGE_THREAD, &usage) == 0)
        slot_set_cpu_times(self, &usage);
    atomic_compare_exchange_strong_explicit(&self->exited, &none,
                                            SLOT_EXITED | ((uint32_t)status & 0xff),
                                            memory_order_release, memory_order_relaxed);
    futex_bump(&space_registry()->events);
    for (;;)
        raw(__NR_exit, 0);
}

long interpose_exit_group(struct space_slot *self, long nr, const long a[6])
{
    if (space_is_thread(self))
        thread_mode_exit(self, (int)a[0]);
    return raw(nr, a[0]);
}
