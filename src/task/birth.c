/* src/task/birth.c: the first steps of a task, before its program.
 *
 * Freestanding. Until the jump the newborn runs the root's or the spawner's code without a thread
 * pointer of its own; all signals are blocked, so nobody else's handler runs here. */
#include "task/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "onespace.h"
#include "space/debugger.h"
#include "space/futex.h"
#include "steer/steer.h"
#include "task/numbers.h"
#include "task/threads.h"

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif

static _Noreturn void fail(struct birth *birth, enum birth_stage stage, long error)
{
    atomic_store(&birth->slot->birth_stage, stage);
    atomic_store_explicit(&birth->slot->birth, (int32_t)error, memory_order_release);
    futex_wake(&birth->slot->birth, INT32_MAX);
    if (birth->flags & ONESPACE_SPAWN_THREAD)
        threads_exit(birth->slot, 127);
    for (;;)
        raw(__NR_exit_group, 127);
}

static void default_handlers(void)
{
    for (int signal = 1; signal <= 64; signal++) {
        struct space_sigaction action, none = {.handler = (uintptr_t)SIG_DFL};
        if (raw(__NR_rt_sigaction, signal, NULL, &action, 8) == 0 &&
            action.handler > (uintptr_t)SIG_IGN)
            raw(__NR_rt_sigaction, signal, &none, NULL, 8);
    }
}

static void set_ignored(const struct birth *birth)
{
    for (int signal = 1; signal <= 64; signal++) {
        uint64_t bit = UINT64_C(1) << (signal - 1);
        struct space_sigaction action = {.handler =
                                             (uintptr_t)(birth->ignore & bit ? SIG_IGN : SIG_DFL)};
        if ((birth->ignore | birth->unignore) & bit)
            raw(__NR_rt_sigaction, signal, &action, NULL, 8);
    }
}

/* Close-on-exec descriptors are closed as execve would; the kernel has no call for that alone. */
static void close_on_exec_by_number(void)
{
    struct rlimit limit = {1024, 1024};
    raw(__NR_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
    int end = limit.rlim_cur > 65536 ? 65536 : (int)limit.rlim_cur;
    for (int fd = 0; fd < end; fd++)
        if (raw(__NR_fcntl, fd, F_GETFD) == FD_CLOEXEC)
            raw(__NR_close, fd);
}

static void close_if_marked(void *context, int fd, int folder)
{
    (void)context;
    if (fd != folder && raw(__NR_fcntl, fd, F_GETFD) == FD_CLOEXEC)
        raw(__NR_close, fd);
}

/* How many descriptors are open, or 0 where the kernel does not say (before Linux 6.2). */
static long count_descriptors(void)
{
    struct stat folder;
    return raw(__NR_newfstatat, AT_FDCWD, "/proc/self/fd", &folder, 0) == 0 ? folder.st_size : 0;
}

/* Trying the numbers is cheaper than reading the folder, unless they lie far apart. */
static void close_on_exec(void)
{
    enum { TRIES = 256 };
    long left = count_descriptors();
    for (int fd = 0; left > 0 && fd < TRIES; fd++) {
        long flags = raw(__NR_fcntl, fd, F_GETFD);
        left -= flags >= 0;
        if (flags == FD_CLOEXEC)
            raw(__NR_close, fd);
        if (left == 0)
            return;
    }
    if (numbers_each("/proc/self/fd", close_if_marked, NULL) != 0)
        close_on_exec_by_number();
}

/* Copies every source above all targets first, so that no copy overwrites a source. */
static void map_descriptors(struct birth *birth)
{
    int above = 0;
    for (uint32_t i = 0; i < birth->fd_count; i++)
        if (birth->fds[i].target >= above)
            above = birth->fds[i].target + 1;
    for (uint32_t i = 0; i < birth->fd_count; i++) {
        long copy = raw(__NR_fcntl, birth->fds[i].source, F_DUPFD_CLOEXEC, above);
        if (copy < 0)
            fail(birth, BIRTH_DESCRIPTORS, copy);
        birth->fds[i].source = (int)copy;
    }
    if (birth->directory >= 0) {
        long result = raw(__NR_fchdir, birth->directory);
        if (result < 0)
            fail(birth, BIRTH_DIRECTORY, result);
    }
    for (uint32_t i = 0; i < birth->fd_count; i++) {
        long result = raw(__NR_dup3, birth->fds[i].source, birth->fds[i].target, 0);
        if (result < 0)
            fail(birth, BIRTH_DESCRIPTORS, result);
    }
}

static int is_target(const struct birth *birth, int fd)
{
    for (uint32_t i = 0; i < birth->fd_count; i++)
        if (birth->fds[i].target == fd)
            return 1;
    return 0;
}

static void close_unlisted(const struct birth *birth)
{
    int above = 0;
    for (uint32_t i = 0; i < birth->fd_count; i++)
        if (birth->fds[i].target >= above)
            above = birth->fds[i].target + 1;
    if (raw(__NR_close_range, above, ~0u, 0) != 0) { /* before Linux 5.9 */
        struct rlimit limit = {1024, 1024};
        raw(__NR_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
        for (int fd = above; fd < (int)limit.rlim_cur && fd < 65536; fd++)
            raw(__NR_close, fd);
    }
    for (int fd = 0; fd < above; fd++)
        if (!is_target(birth, fd))
            raw(__NR_close, fd);
}

static void set_descriptors(struct birth *birth)
{
    if (birth->fd_count || birth->directory >= 0)
        map_descriptors(birth);
    if (birth->flags & ONESPACE_SPAWN_CLOSE_FDS)
        close_unlisted(birth);
    else if (!birth->before) /* which may still use them */
        close_on_exec();
}

static void set_limits(struct birth *birth)
{
    for (unsigned i = 0; i < BIRTH_LIMITS; i++) {
        if (!(birth->limit_mask & 1u << i))
            continue;
        long result = raw(__NR_prlimit64, 0, i, &birth->limits[i], NULL);
        if (result < 0)
            fail(birth, BIRTH_LIMIT, result);
    }
}

static void set_scheduling(struct birth *birth)
{
    if (birth->nice != INT32_MIN)
        raw(__NR_setpriority, 0 /* PRIO_PROCESS */, 0, birth->nice); /* as nice(1): best effort */
    if (birth->cpu_bytes) {
        long result = raw(__NR_sched_setaffinity, 0, birth->cpu_bytes, birth->cpus);
        if (result < 0)
            fail(birth, BIRTH_AFFINITY, result);
    }
    if (birth->policy_mode >= 0)
        raw(__NR_set_mempolicy, birth->policy_mode, birth->policy_nodes, 1024);
}

static void set_group(struct birth *birth)
{
    long result = 0;
    if (birth->flags & ONESPACE_SPAWN_SESSION)
        result = raw(__NR_setsid);
    else if (birth->flags & ONESPACE_SPAWN_GROUP)
        result = raw(__NR_setpgid, 0, 0);
    if (result < 0)
        fail(birth, BIRTH_GROUP, result);
}

static void set_thread_pointer(uintptr_t pointer)
{
    raw(__NR_arch_prctl, 0x1002 /* ARCH_SET_FS */, pointer);
}

/* The spawner's function, with the thread pointer of the spawning thread, which waits for us with
 * all signals blocked. What it does to signals and descriptors is kept as execve would keep it. */
static void run_before(struct birth *birth)
{
    uint64_t all = ~UINT64_C(0);
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &birth->signal_mask, NULL, 8);
    set_thread_pointer(birth->thread_pointer);
    int error = birth->before(birth->before_argument);
    set_thread_pointer(0);
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &all, &birth->signal_mask, 8);
    if (error) /* either sign; what is no error number becomes one */
        fail(birth, BIRTH_BEFORE,
             error > 0 && error < 4096    ? -error
             : error < 0 && error > -4096 ? error
                                          : -ECANCELED);
    if (birth->flags & ONESPACE_SPAWN_THREAD)
        return; /* handlers and descriptors are the process's */
    default_handlers();
    close_on_exec();
}

/* What a process has to itself. */
static void become_process(struct birth *birth)
{
    raw(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (raw(__NR_getppid) != birth->keeper_pid) /* it died before the line above */
        fail(birth, BIRTH_CLONE, -EOWNERDEAD);
    if (birth->default_handlers)
        default_handlers();
    set_ignored(birth);
    set_group(birth);
    set_descriptors(birth);
    if (birth->umask >= 0)
        raw(__NR_umask, birth->umask);
    set_limits(birth);
}

void birth_main(void *argument)
{
    struct birth *birth = argument;
    struct space_slot *slot = birth->slot;
    atomic_store(&slot->pid, (int32_t)raw(__NR_getpid));
    set_thread_pointer(0); /* the spawner's until now */
    raw(__NR_prctl, PR_SET_NAME, birth->name);
    if (birth->flags & ONESPACE_SPAWN_THREAD)
        threads_prepare();
    else
        become_process(birth);
    set_scheduling(birth);
    if (birth->before)
        run_before(birth);
    if (!(birth->flags & (ONESPACE_SPAWN_UNSTEERED | ONESPACE_SPAWN_THREAD)))
        steer_install_handlers(slot);
    if (birth->is_static) /* else the agent does it, when ld.so has loaded the program */
        debugger_show(birth->space, slot, birth->program, slot->interpreter_bias,
                      slot->interpreter_dynamic, 0);
    if (!birth->keeper_announces)
        birth_announce(slot);
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &birth->signal_mask, NULL, 8);
    arch_enter_program(birth->stack_pointer, birth->entry);
}

void birth_announce(struct space_slot *slot)
{
    uint32_t born = SLOT_BORN;
    atomic_compare_exchange_strong(&slot->state, &born, SLOT_RUNNING);
    atomic_store_explicit(&slot->birth, 1, memory_order_release);
    futex_wake(&slot->birth, INT32_MAX);
}

/* A thread of the caller's process. */
static long clone_thread(const struct birth *birth, void *stack, int32_t *pid_word)
{
    atomic_store(&birth->space->had_threads, 1);
    futex_bump(&birth->space->events); /* the keeper watches from now on */
    return arch_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                          CLONE_SYSVSEM | CLONE_PARENT_SETTID,
                      stack, pid_word);
}

long birth_clone(struct birth *birth, int as_sibling)
{
    struct space_slot *slot = birth->slot;
    uint64_t flags = CLONE_VM | CLONE_PARENT_SETTID | (as_sibling ? CLONE_PARENT : 0);
    uint64_t exit_signal = as_sibling ? 0 : SIGCHLD; /* a sibling has the spawner's */
    void *stack = arch_push_call(birth->stack_pointer, birth_main, birth);
    uintptr_t stack_low = (uintptr_t)stack - BIRTH_FREE;
    /* The kernel stores the pid before the newborn can run or die, so the keeper always finds the
     * slot of what it reaps. BORN without a pid means that the spawner died right here. */
    int32_t *pid_word = (int32_t *)&birth->space->pids[space_slot_index(birth->space, slot)];
    struct clone_args arguments = {
        .flags = flags | CLONE_CLEAR_SIGHAND,
        .parent_tid = (uint64_t)(uintptr_t)pid_word,
        .exit_signal = exit_signal,
        .stack = stack_low,
        .stack_size = BIRTH_FREE,
    };
    birth->default_handlers = 0;
    atomic_store_explicit(&slot->state, SLOT_BORN, memory_order_release);
    if (birth->flags & ONESPACE_SPAWN_THREAD)
        return clone_thread(birth, stack, pid_word);
    long pid = arch_clone3(&arguments, sizeof(arguments));
    if (pid == -ENOSYS || pid == -EINVAL || pid == -EPERM || pid == -E2BIG) {
        birth->default_handlers = 1; /* before Linux 5.5, or forbidden in a container */
        pid = arch_clone(flags | exit_signal, stack, pid_word);
    }
    return pid;
}
