/* src/steer/program.c: the task as a program: its /proc/self/exe, and executing another one. */
#include "steer/steer.h"

#include <fcntl.h>
#include <signal.h>

#include "space/futex.h"
#include "task/birth.h"

const char *steer_program(const struct space_slot *self)
{
    return ((const struct birth *)self->birth_record)->program;
}

/* Whether path names this process's executable: /proc/self/exe, /proc/thread-self/exe or
 * /proc/PID/exe, which for the kernel is the root's. */
static int names_own_exe(const char *path)
{
    static const char prefix[] = "/proc/", self[] = "self", thread[] = "thread-self", exe[] = "/exe";
    unsigned at = 0, i;
    for (; at < sizeof(prefix) - 1; at++)
        if (path[at] != prefix[at])
            return 0;
    const char *rest = path + at;
    if (*rest >= '0' && *rest <= '9') {
        long pid = 0;
        while (*rest >= '0' && *rest <= '9' && pid < 1 << 24)
            pid = pid * 10 + (*rest++ - '0');
        if (pid != raw(__NR_getpid))
            return 0;
    } else {
        const char *word = *rest == 't' ? thread : self;
        for (; *word; word++, rest++)
            if (*rest != *word)
                return 0;
    }
    for (i = 0; i < sizeof(exe); i++)
        if (rest[i] != exe[i])
            return 0;
    return 1;
}

long steer_readlink(struct space_slot *self, long nr, const long a[6])
{
    const long *link = nr == __NR_readlink ? a : a + 1; /* path, buffer, size */
    if (link[0] && names_own_exe((const char *)link[0]) && link[2] > 0) {
        const char *program = steer_program(self);
        char *buffer = (char *)link[1];
        long length = 0;
        for (; length < link[2] && program[length]; length++)
            buffer[length] = program[length];
        return length;
    }
    return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* What is ignored stays ignored across an exec, so the kernel must know it. */
static void hand_over_ignored(struct space_slot *self)
{
    static const int signals[] = {SIGSEGV, SIGBUS};
    for (unsigned i = 0; i < 2; i++)
        if (self->steer.fault_stub && self->steer.actions[i].handler == (uintptr_t)SIG_IGN)
            raw(__NR_rt_sigaction, signals[i], &self->steer.actions[i], NULL, 8);
}

long steer_execve(struct space_slot *self, long nr, const long a[6])
{
    long b[6] = {a[0], a[1], a[2], a[3], a[4], a[5]};
    long *path = nr == __NR_execve ? &b[0] : &b[1];
    if (*path && names_own_exe((const char *)*path))
        *path = (long)steer_program(self);
    if (!steer_is_task(self)) /* a child, by fork or vfork, leaves nothing */
        return raw_syscall6(nr, b[0], b[1], b[2], b[3], b[4], b[5]);
    struct space *space = space_registry();
    /* Whoever sees `departures` grow (the keeper, with acquire) sees `leaving` too. */
    atomic_store_explicit(&self->leaving, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&space->departures, 1, memory_order_release);
    futex_bump(&space->events);
    hand_over_ignored(self);
    long result = raw_syscall6(nr, b[0], b[1], b[2], b[3], b[4], b[5]);
    atomic_store_explicit(&self->leaving, 0, memory_order_release);
    return result;
}
