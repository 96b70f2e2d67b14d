/* src/interpose/exec.c: the task as a program: its /proc/self/exe, and executing another one. */
#include "interpose/interpose.h"

#include <errno.h>

#include "arch/constants.h"
#include "base/futex.h"
#include "base/numbers.h"
#include "base/text.h"
#include "interpose/calls.h"
#include "interpose/pointers.h"
#include "registry/child.h"

const char *interpose_program(const struct space_slot *self)
{
    return ((const struct child *)self->child_record)->program;
}

/* Longest path prefix examined: /proc/thread-self/exe and the like are shorter. */
enum { PATH_PREFIX_MAX = 40 };

/* Copies the beginning of a path of the program's: PATH_PREFIX_MAX - 1 bytes, or what there is up
 * to the end of its page if the path ends there. 0, or -1 if it cannot be read. */
static int fetch_path(const char *path, char text[PATH_PREFIX_MAX])
{
    size_t most = PATH_PREFIX_MAX - 1, size = ARCH_PAGE - (uintptr_t)path % ARCH_PAGE;
    size = size < most ? size : most;
    if (interpose_read(text, path, size) != 0)
        return -1;
    text[size] = text[most] = 0;
    if (text_length(text) < size)
        return 0;
    return size == most || interpose_read(text + size, path + size, most - size) == 0 ? 0 : -1;
}

/* Whether path names this process's executable: /proc/self/exe, /proc/thread-self/exe or
 * /proc/PID/exe, which for the kernel is the root's. */
static int names_own_exe(const char *path)
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
    rest = text_after(after, "/exe");
    return rest && !*rest;
}

long interpose_readlink(struct space_slot *self, long nr, const long a[6])
{
    const long *link = nr == __NR_readlink ? a : a + 1; /* path, buffer, size */
    long result = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (result < 0 || !names_own_exe((const char *)link[0]))
        return result;
    const char *program = interpose_program(self);
    size_t length = text_length(program), size = (size_t)(int)link[2];
    length = length < size ? length : size;
    return interpose_write((char *)link[1], program, length) == 0 ? (long)length : -EFAULT;
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
    if (leaves) {
        /* Release, pairs with the reaper's acquire load of `departures`: it sees `leaving`, too. */
        atomic_store_explicit(&self->leaving, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&space->departures, 1, memory_order_release);
        futex_bump(&space->events);
    }
    long result = raw_syscall6(nr, b[0], b[1], b[2], b[3], b[4], b[5]);
    if (leaves)
        atomic_store_explicit(&self->leaving, 0, memory_order_release);
    return result;
}
