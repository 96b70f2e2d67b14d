/* src/interpose/exec.c: the task as a program: its /proc/self/exe, and executing another one. */
#include "interpose/interpose.h"

#include <errno.h>
#include <signal.h>

#include "arch/copy.h"
#include "base/futex.h"
#include "base/numbers.h"
#include "base/text.h"
#include "interpose/calls.h"
#include "interpose/signals.h"
#include "registry/child.h"

const char *interpose_program(const struct space_slot *self)
{
    return ((const struct child *)self->child_record)->program;
}

/* Longest path prefix examined: /proc/thread-self/exe and the like are shorter. */
enum { PATH_PREFIX_MAX = 40 };

/* Copies a path of the program's, or the part of it that names_own_exe needs: PATH_PREFIX_MAX bytes
 * at most, and less if it does not begin with /proc/. 0, or -1 if it cannot be read. */
static int fetch_path(const char *path, char text[PATH_PREFIX_MAX])
{
    for (unsigned at = 0; at < PATH_PREFIX_MAX; at++) {
        if (arch_guarded_copy(text + at, path + at, 1) != 0)
            return -1;
        if (text[at] == 0 || (at < 6 && text[at] != "/proc/"[at])) {
            text[at] = 0;
            return 0;
        }
    }
    text[PATH_PREFIX_MAX - 1] = 0;
    return 0;
}

int interpose_names_own(const char *path, const char *file)
{
    char text[PATH_PREFIX_MAX];
    if (!path || fetch_path(path, text) != 0)
        return 0;
    const char *rest = text_after(text, "/proc/");
    if (!rest)
        return 0;
    uint64_t pid;
    const char *after = numbers_read(rest, &pid);
    if (after != rest && pid != (uint64_t)raw(__NR_getpid))
        return 0;
    if (after == rest && !(after = text_after(rest, "self")) &&
        !(after = text_after(rest, "thread-self")))
        return 0;
    return *after == '/' && text_equal(after + 1, file);
}

/* Whether the path is that of this process's executable, which for the kernel is the root's. */
static int names_own_exe(const char *path)
{
    return interpose_names_own(path, "exe");
}

long interpose_readlink(struct space_slot *self, long nr, const long a[6])
{
    const long *link = nr == __NR_readlink ? a : a + 1; /* path, buffer, size */
    if (link[2] <= 0 || !names_own_exe((const char *)link[0]))
        return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    const char *program = interpose_program(self);
    size_t length = text_length(program), size = (size_t)link[2];
    length = length < size ? length : size;
    return arch_guarded_copy((char *)link[1], program, length) == 0 ? (long)length : -EFAULT;
}

/* An ignored signal stays ignored across execve. So if the program ignores SIGSEGV or SIGBUS, for
 * which the kernel has our handler, tells the kernel to ignore it. */
static void tell_ignored(struct space_slot *self)
{
    for (unsigned i = 0; i < 2; i++) {
        struct space_sigaction now, ignore = {.handler = (uintptr_t)SIG_IGN};
        if (self->interpose.fault_trampoline &&
            self->interpose.actions[i].handler == (uintptr_t)SIG_IGN &&
            raw(__NR_rt_sigaction, interpose_fault_signals[i], NULL, &now, ARCH_SIGNAL_SET_BYTES) ==
                0 &&
            now.handler == self->interpose.fault_trampoline)
            raw(__NR_rt_sigaction, interpose_fault_signals[i], &ignore, NULL,
                ARCH_SIGNAL_SET_BYTES);
    }
}

/* Undoes that, when execve has failed. */
static void install_again(struct space_slot *self)
{
    for (unsigned i = 0; i < 2; i++)
        if (self->interpose.fault_trampoline &&
            self->interpose.actions[i].handler == (uintptr_t)SIG_IGN)
            interpose_install_handler(self, interpose_fault_signals[i]);
}

/* Notes that the task leaves, and for which program, unless another has left before: whether it
 * did. A path that cannot be read is left to execve. */
static int note_departure(struct space *space, const struct space_slot *self, const char *path)
{
    struct space_departure *departure = &space->departure;
    uint32_t expected = FILE_EMPTY;
    size_t at = 0;
    if (!atomic_compare_exchange_strong(&departure->state, &expected, FILE_FILLING))
        return 0;
    while (at < SPACE_PROGRAM_MAX - 1 &&
           arch_guarded_copy(departure->path + at, path + at, 1) == 0 && departure->path[at])
        at++;
    departure->path[at] = 0;
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
    if (leaves && space_is_thread(self))
        return -EPERM; /* it would end all other threads of the process */
    if (names_own_exe((const char *)*path))
        *path = (long)interpose_program(self);
    int noted = leaves && note_departure(space, self, (const char *)*path);
    if (leaves) {
        /* Release, pairs with the reaper's acquire load of `departures`: it sees `leaving`, too. */
        atomic_store_explicit(&self->leaving, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&space->departures, 1, memory_order_release);
        futex_bump(&space->events);
    }
    tell_ignored(self);
    long result = raw_syscall6(nr, b[0], b[1], b[2], b[3], b[4], b[5]);
    install_again(self);
    if (noted)
        atomic_store_explicit(&space->departure.state, FILE_EMPTY, memory_order_release);
    if (leaves)
        atomic_store_explicit(&self->leaving, 0, memory_order_release);
    return result;
}
