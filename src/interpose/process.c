/* src/interpose/process.c: calls that act on the whole process: execve, prctl and seccomp, and the
 * exit of a task in thread mode. */
#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "arch/constants.h"
#include "arch/syscall.h"
#include "base/delay.h"
#include "base/futex.h"
#include "base/text.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "interpose/memory/memory.h"
#include "space/child.h"
#include "space/member.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65 /* Linux 6.3 */
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856 /* Linux 6.4 */
#endif

/* ---- Executing another program ---- */

const char *interpose_program(const struct space_slot *self)
{
    return ((const struct child *)self->child_record)->program;
}

/* Copies a string of the program: at most `capacity` - 1 bytes. The string may end right before an
 * unmapped page, so the copy goes beyond the end of a page only if the string does. 0, or -1 if it
 * cannot be read. */
static int copy_string(char *text, const char *from, size_t capacity)
{
    size_t size = ARCH_PAGE - (uintptr_t)from % ARCH_PAGE;
    size = size < capacity - 1 ? size : capacity - 1;
    if (interpose_copy_from_user(text, from, size) != 0)
        return -1;
    text[size] = text[capacity - 1] = 0;
    if (text_length(text) < size || size == capacity - 1)
        return 0;
    return interpose_copy_from_user(text + size, from + size, capacity - 1 - size);
}

/* Whether the path is this process's executable, which for the kernel is the root's. */
static int is_own_executable(const char *path)
{
    char text[PROC_PATH_PREFIX_MAX];
    const char *file =
        path && copy_string(text, path, sizeof(text)) == 0 ? interpose_proc_self_file(text) : NULL;
    return file && text_equal(file, "exe");
}

/* Records that the task leaves, and for which program: 1, or 0 if another task has left before.
 * execve reports a path that cannot be read. */
static int record_departure(struct space *space, const struct space_slot *self, const char *path)
{
    struct space_departure *departure = &space->departure;
    uint32_t expected = FILE_EMPTY;
    if (!atomic_compare_exchange_strong(&departure->state, &expected, FILE_FILLING))
        return 0;
    if (copy_string(departure->path, path, SPACE_PROGRAM_MAX) != 0)
        departure->path[0] = 0;
    departure->id = atomic_load(&self->id);
    atomic_store_explicit(&departure->state, FILE_READY, memory_order_release);
    return 1;
}

long interpose_execve(struct space_slot *self, long nr, const long a[6])
{
    long b[6] = {a[0], a[1], a[2], a[3], a[4], a[5]};
    long *path = nr == __NR_execve ? &b[0] : &b[1];
    struct space *space = space_registry();
    int leaves = interpose_is_task(self); /* not a forked or vforked child */
    if (leaves && slot_is_thread(self))
        return -EPERM; /* it would end all other threads of the process */
    if (is_own_executable((const char *)*path))
        *path = (long)interpose_program(self);
    int is_recorded = leaves && record_departure(space, self, (const char *)*path);
    if (leaves) {
        /* Counted: another thread's execve may fail while this one succeeds. Release, pairs with
         * the reaper's acquire load of `departures`: it sees `leaving`, too. */
        atomic_fetch_add_explicit(&self->leaving, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&space->departures, 1, memory_order_release);
        futex_bump(&space->events);
    }
    DELAY("exec.enter");
    long result = raw_syscall6(nr, b[0], b[1], b[2], b[3], b[4], b[5]);
    if (is_recorded)
        atomic_store_explicit(&space->departure.state, FILE_EMPTY, memory_order_release);
    if (leaves)
        atomic_fetch_sub_explicit(&self->leaving, 1, memory_order_release);
    return result;
}

/* ---- Restricting itself: seccomp filters, PR_SET_MDWE; and PR_GET_AUXV ---- */

/* A filter may allow brk but not mmap, by which the break is moved here: what the break may need is
 * mapped before the filter is set. */
static long set_filter(struct space_slot *self, long nr, const long a[6])
{
    int is_first = brk_reserve(self);
    long result = raw(nr, a[0], a[1], a[2], a[3], a[4]);
    if (is_first && raw_failed(result))
        brk_unreserve(self);
    return result;
}

/* The kernel's vector is the root's. As the kernel does, fills the rest of the buffer with zeros
 * and returns the whole size, however little the caller asks for. */
static long get_auxv(const struct space_slot *self, long nr, const long a[6])
{
    static const char zeros[64];
    const void *auxv;
    size_t size = interpose_auxv(self, &auxv), length = (size_t)a[2];
    long kernel_size = raw(nr, a[0], a[1], 0, a[3], a[4]); /* copies nothing */
    if (kernel_size < 0)
        return kernel_size;
    if (size == 0)
        return raw(nr, a[0], a[1], a[2], a[3], a[4]);
    size_t total = (size_t)kernel_size < size ? size : (size_t)kernel_size;
    length = length < total ? length : total;
    size = size < length ? size : length;
    if (interpose_copy_to_user((char *)a[1], auxv, size) != 0)
        return -EFAULT;
    while (size < length) {
        size_t padding = length - size < sizeof(zeros) ? length - size : sizeof(zeros);
        if (interpose_copy_to_user((char *)a[1] + size, zeros, padding) != 0)
            return -EFAULT;
        size += padding;
    }
    return (long)total;
}

/* PR_SET_MDWE acts on the address space and cannot be undone: no later task could start. The error
 * is that of a kernel without it. A forked child has an address space of its own. */
long interpose_prctl(struct space_slot *self, long nr, const long a[6])
{
    if (a[0] == PR_SET_MDWE && process_in_space())
        return -EINVAL;
    if (a[0] == PR_SET_SECCOMP)
        return set_filter(self, nr, a);
    if (a[0] == PR_GET_AUXV)
        return get_auxv(self, nr, a);
    return raw(nr, a[0], a[1], a[2], a[3], a[4]);
}

long interpose_seccomp(struct space_slot *self, long nr, const long a[6])
{
    if (a[0] == SECCOMP_SET_MODE_FILTER || a[0] == SECCOMP_SET_MODE_STRICT)
        return set_filter(self, nr, a);
    return raw(nr, a[0], a[1], a[2]);
}

/* ---- The exit of a task that is a thread of its spawner's process ----
 *
 * The exit must not end the process, and must end the task's remaining threads: a signal ends them.
 * The reaper detects when none is left (reaper/reaper.h). */

/* The handlers of THREAD_MODE_SIGNAL behind ours, by slot: a process's (its libc's, or that of
 * calls, see remote_call/signals.c), and in thread mode what the task's libc has set for its
 * threads (setuid and the like). In the root's copy of the library. Written with release by
 * children, by tasks that set a handler, by exiting ones and by the first call; read with acquire
 * by our handler.
 */
static _Atomic uintptr_t handlers_behind[LAYOUT_SLOTS];

_Atomic uintptr_t *thread_mode_handler_behind(void)
{
    struct space *space = space_registry();
    const struct space_slot *slot = slot_of_pid(space, (int32_t)raw(__NR_getpid));
    return &handlers_behind[slot ? slot_index(space, slot) : 0];
}

/* For a signal on that stack. A thread in a call has the callee's stack, but needs the handler of
 * its own process. */
static uintptr_t find_handler_behind(uintptr_t stack)
{
    if (!atomic_load(&space_is_mapped)) /* the root's */
        return atomic_load_explicit(&handlers_behind[0], memory_order_acquire);
    unsigned index = layout_slot_of(stack);
    uintptr_t own = index < LAYOUT_SLOTS
                        ? atomic_load_explicit(&handlers_behind[index], memory_order_acquire)
                        : 0;
    if (own && (!process_in_space() || slot_is_thread(&space_registry()->slots[index])))
        return own;
    return atomic_load_explicit(thread_mode_handler_behind(), memory_order_acquire);
}

/* Whether the reaper sent the signal to a thread of a task that has exited. */
static int is_end_of_thread(const siginfo_t *info)
{
    const struct space_slot *slot = info->si_value.sival_ptr;
    struct space *space = space_registry();
    return info->si_code == SI_QUEUE && slot > space->slots && slot < space->slots + LAYOUT_SLOTS &&
           layout_slot_of((uintptr_t)&slot) == slot_index(space, slot) && /* on its stack */
           atomic_load_explicit(&slot->exited, memory_order_acquire);
}

static void on_thread_mode_signal(int number, siginfo_t *info, void *context)
{
    if (is_end_of_thread(info))
        for (;;)
            raw(__NR_exit, 0);
    uintptr_t handler = find_handler_behind((uintptr_t)&info);
    if (handler > (uintptr_t)SIG_IGN)
        ((void (*)(int, siginfo_t *, void *))handler)(number, info, context);
}

void thread_mode_install_handler(const struct space_slot *thread)
{
    struct space_sigaction before, replaced,
        ours = {.handler = (uintptr_t)on_thread_mode_signal,
                .flags = SA_SIGINFO | SA_RESTART | ARCH_SA_RESTORER,
                .restorer = (uintptr_t)arch_signal_restorer};
    atomic_store_explicit(&handlers_behind[slot_index(space_registry(), thread)], 0,
                          memory_order_release);
    raw(__NR_rt_sigaction, THREAD_MODE_SIGNAL, NULL, &before, ARCH_SIGNAL_SET_BYTES);
    if (before.handler == ours.handler)
        return;
    /* Before ours is installed; again if another thread has just installed that of calls. */
    atomic_store_explicit(thread_mode_handler_behind(), before.handler, memory_order_release);
    raw(__NR_rt_sigaction, THREAD_MODE_SIGNAL, &ours, &replaced, ARCH_SIGNAL_SET_BYTES);
    if (replaced.handler != before.handler && replaced.handler != ours.handler)
        atomic_store_explicit(thread_mode_handler_behind(), replaced.handler, memory_order_release);
}

uintptr_t thread_mode_handler(void)
{
    return (uintptr_t)on_thread_mode_signal;
}

int thread_mode_set_handler(struct space_slot *self, const long a[6], long *result)
{
    if (a[0] != THREAD_MODE_SIGNAL || !a[1] || !slot_is_thread(self) || !interpose_is_task(self))
        return 0;
    struct space_sigaction wanted;
    *result = interpose_copy_from_user(&wanted, (const void *)a[1], sizeof(wanted));
    if (*result == 0)
        atomic_store_explicit(&handlers_behind[slot_index(space_registry(), self)], wanted.handler,
                              memory_order_release);
    return 1;
}

_Noreturn void thread_mode_exit(struct space_slot *self, int status)
{
    struct rusage usage;
    uint32_t expected = 0;
    if (!interpose_is_task(self))
        for (;;)
            raw(__NR_exit_group, status);
    thread_mode_install_handler(self); /* another libc of the process, as musl, may have set one */
    if (raw(__NR_getrusage, RUSAGE_THREAD, &usage) == 0)
        slot_set_cpu_times(self, &usage);
    atomic_compare_exchange_strong_explicit(&self->exited, &expected,
                                            SLOT_EXITED | ((uint32_t)status & 0xff),
                                            memory_order_release, memory_order_relaxed);
    futex_bump(&space_registry()->events);
    for (;;)
        raw(__NR_exit, 0);
}

long interpose_exit_group(struct space_slot *self, long nr, const long a[6])
{
    if (slot_is_thread(self))
        thread_mode_exit(self, (int)a[0]);
    return raw(nr, a[0]);
}
