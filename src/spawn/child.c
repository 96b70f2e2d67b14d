/* src/spawn/child.c: the first steps of a task: clone, what the child sets up before its program,
 * and what it does when its libraries are loaded.
 *
 * Until it enters its program, the child runs the root's or the spawner's code without a thread
 * pointer of its own, and all signals are blocked, so that no other program's handler runs here.
 * Freestanding. */
#include "spawn/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "arch/remote_call.h"
#include "arch/syscall.h"
#include "arch/keys.h"
#include "base/delay.h"
#include "base/raw.h"
#include "base/futex.h"
#include "base/proc.h"
#include "elf/elf.h"
#include "interpose/guard/guard.h"
#include "interpose/interpose.h"
#include "onespace.h"
#include "space/member.h"

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif

static _Noreturn void fail(struct child *child, enum child_stage stage, long error)
{
    atomic_store(&child->slot->child_stage, stage);
    atomic_store_explicit(&child->slot->child_result, (int32_t)error, memory_order_release);
    futex_wake(&child->slot->child_result, INT32_MAX);
    if (child->flags & ONESPACE_SPAWN_THREAD)
        thread_mode_exit(child->slot, 127);
    for (;;)
        raw(__NR_exit_group, 127);
}

static void default_handlers(void)
{
    for (int signal = 1; signal <= SIGNAL_MAX; signal++) {
        struct space_sigaction action, none = {.handler = (uintptr_t)SIG_DFL};
        if (raw(__NR_rt_sigaction, signal, NULL, &action, ARCH_SIGNAL_SET_BYTES) == 0 &&
            action.handler > (uintptr_t)SIG_IGN)
            raw(__NR_rt_sigaction, signal, &none, NULL, ARCH_SIGNAL_SET_BYTES);
    }
}

static void set_ignored_signals(const struct child *child)
{
    for (int signal = 1; signal <= SIGNAL_MAX; signal++) {
        uint64_t bit = signal_bit(signal);
        struct space_sigaction action = {.handler =
                                             (uintptr_t)(child->ignore & bit ? SIG_IGN : SIG_DFL)};
        if ((child->ignore | child->unignore) & bit)
            raw(__NR_rt_sigaction, signal, &action, NULL, ARCH_SIGNAL_SET_BYTES);
    }
}

/* Closes the descriptor if it is close-on-exec, as execve would. */
static void close_if_marked(void *context, int fd, int directory)
{
    (void)context;
    if (fd != directory && raw(__NR_fcntl, fd, F_GETFD) == FD_CLOEXEC)
        raw(__NR_close, fd);
}

/* Trying the numbers is cheaper than reading the directory, unless they are sparse. The size of the
 * directory is the number of open descriptors since Linux 6.2, and 0 before. */
static void close_on_exec(void)
{
    enum { MAX_TRIES = 256 };
    struct stat status;
    long remaining =
        raw(__NR_newfstatat, AT_FDCWD, "/proc/self/fd", &status, 0) == 0 ? status.st_size : 0;
    for (int fd = 0; remaining > 0 && fd < MAX_TRIES; fd++) {
        long flags = raw(__NR_fcntl, fd, F_GETFD);
        remaining -= flags >= 0;
        if (flags == FD_CLOEXEC)
            raw(__NR_close, fd);
        if (remaining == 0)
            return;
    }
    if (proc_each_number("/proc/self/fd", close_if_marked, NULL) == 0)
        return;
    for (int fd = 0, end = (int)descriptors_limit(); fd < end; fd++)
        close_if_marked(NULL, fd, -1);
}

static int is_target(const struct child *child, int fd)
{
    for (uint32_t i = 0; i < child->fd_count; i++)
        if (child->fds[i].target == fd)
            return 1;
    return 0;
}

/* Duplicates a source to the lowest free number from *next on that is not a target. */
static int duplicate_to_free_number(struct child *child, int source, int *next)
{
    for (;;) {
        long copy = raw(__NR_fcntl, source, F_DUPFD_CLOEXEC, *next);
        if (copy < 0)
            fail(child, CHILD_DESCRIPTORS, copy);
        *next = (int)copy + 1;
        if (!is_target(child, (int)copy))
            return (int)copy;
        raw(__NR_close, copy);
    }
}

/* First duplicates the sources that a target would overwrite. It needs no free number above all
 * targets, because a program may have a descriptor right below its limit. */
static void map_descriptors(struct child *child)
{
    int next = 0;
    for (uint32_t i = 0; i < child->fd_count; i++)
        if (is_target(child, child->fds[i].source))
            child->fds[i].source = duplicate_to_free_number(child, child->fds[i].source, &next);
    if (child->directory >= 0) {
        long result = raw(__NR_fchdir, child->directory);
        if (result < 0)
            fail(child, CHILD_DIRECTORY, result);
    }
    for (uint32_t i = 0; i < child->fd_count; i++) {
        long result = raw(__NR_dup3, child->fds[i].source, child->fds[i].target, 0);
        if (result < 0)
            fail(child, CHILD_DESCRIPTORS, result);
    }
}

/* The lowest target from `fd` on, or ~0u. */
static unsigned next_target(const struct child *child, unsigned fd)
{
    unsigned next = ~0u;
    for (uint32_t i = 0; i < child->fd_count; i++)
        if ((unsigned)child->fds[i].target >= fd && (unsigned)child->fds[i].target < next)
            next = (unsigned)child->fds[i].target;
    return next;
}

static void close_unlisted(const struct child *child)
{
    for (unsigned fd = 0, target;; fd = target + 1) {
        target = next_target(child, fd);
        if (target > fd)
            descriptors_close_range(fd, target == ~0u ? target : target - 1);
        if (target == ~0u)
            return;
    }
}

static void set_descriptors(struct child *child)
{
    if (child->fd_count || child->directory >= 0)
        map_descriptors(child);
    if (child->flags & ONESPACE_SPAWN_CLOSE_FDS)
        close_unlisted(child);
    else if (!child->before) /* `before` may use them: see run_before */
        close_on_exec();
}

static void set_limits(struct child *child)
{
    for (unsigned i = 0; i < CHILD_LIMITS; i++) {
        if (!(child->limit_mask & 1u << i))
            continue;
        long result = raw(__NR_prlimit64, 0, i, &child->limits[i], NULL);
        if (result < 0)
            fail(child, CHILD_LIMIT, result);
    }
}

static void set_scheduling(struct child *child)
{
    if (child->nice != INT32_MIN)
        raw(__NR_setpriority, PRIO_PROCESS, 0, child->nice); /* as nice(1): best effort */
    if (child->cpu_bytes) {
        long result = raw(__NR_sched_setaffinity, 0, child->cpu_bytes, child->cpus);
        if (result < 0 && child->must_set_affinity)
            fail(child, CHILD_AFFINITY, result);
    }
    if (child->policy_mode >= 0)
        raw(__NR_set_mempolicy, child->policy_mode, child->policy_nodes, 1024);
}

static void set_group(struct child *child)
{
    long result = 0;
    if (child->flags & ONESPACE_SPAWN_SESSION)
        result = raw(__NR_setsid);
    else if (child->flags & ONESPACE_SPAWN_GROUP)
        result = raw(__NR_setpgid, 0, 0);
    if (result < 0)
        fail(child, CHILD_GROUP, result);
}

/* Calls the spawner's function with the thread pointer of the spawning thread, which waits for us
 * with all signals blocked. Its changes to signals and descriptors last as far as they would across
 * execve. */
static void run_before(struct child *child)
{
    signals_set_mask(child->signal_mask);
    arch_set_thread_pointer(child->thread_pointer, 1);
    long error = child->before(child->before_argument);
    arch_set_thread_pointer(0, 1);
    child->signal_mask = signals_set_mask(SIGNAL_MASK_ALL);
    if (error) /* of either sign; -ECANCELED for what is not an error number */
        fail(child, CHILD_BEFORE,
             raw_failed(error)    ? error
             : raw_failed(-error) ? -error
                                  : -ECANCELED);
    if (child->flags & ONESPACE_SPAWN_THREAD)
        return; /* handlers and descriptors are the process's */
    default_handlers();
    close_on_exec();
}

/* Sets the attributes that a process does not share with its parent. */
static void become_process(struct child *child)
{
    raw(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (raw(__NR_getppid) != child->reaper_pid) /* the reaper died before prctl */
        fail(child, CHILD_CLONE, -EOWNERDEAD);
    if (child->default_handlers)
        default_handlers();
    set_ignored_signals(child);
    set_group(child);
    set_descriptors(child);
    if (child->umask >= 0)
        raw(__NR_umask, child->umask);
    set_limits(child);
}

void child_set_running(struct space_slot *slot)
{
    uint32_t starting = SLOT_STARTING;
    atomic_compare_exchange_strong(&slot->state, &starting, SLOT_RUNNING);
}

void child_main(void *argument)
{
    struct child *child = argument;
    struct space_slot *slot = child->slot;
    atomic_store(&slot->pid, (int32_t)raw(__NR_getpid));
    arch_set_thread_pointer(0, 1); /* the spawner's until now */
    raw(__NR_prctl, PR_SET_NAME, child->name);
    if (child->flags & ONESPACE_SPAWN_THREAD)
        thread_mode_install_handler(slot);
    else
        become_process(child);
    set_scheduling(child);
    if (child->before)
        run_before(child);
    if (!(child->flags & (ONESPACE_SPAWN_NO_INTERPOSE | ONESPACE_SPAWN_THREAD)))
        interpose_install_fault_handlers(slot);
    if (ARCH_HAS_KEYS && slot->guard_key)
        guard_install_handlers(slot);
    if (child->is_static) /* otherwise task_loaded does it */
        debugger_link(child->space, slot, child->program, slot->interpreter_bias,
                      slot->interpreter_dynamic, 0);
    if (child->reaper_announces)
        child_set_running(slot); /* the program may be faster than the reaper */
    else
        child_report_started(slot);
    if (ARCH_HAS_KEYS)
        guard_apply_rights(slot);
    signals_set_mask(child->signal_mask);
    arch_enter_program(child->stack_pointer, child->entry);
}

void child_report_started(struct space_slot *slot)
{
    DELAY("child.report");
    child_set_running(slot);
    atomic_store_explicit(&slot->child_result, 1, memory_order_release);
    futex_wake(&slot->child_result, INT32_MAX);
}

/* A thread of the caller's process. */
static long clone_thread(const struct child *child, void *stack, int32_t *pid_word)
{
    atomic_store(&child->space->had_threads, 1);
    futex_bump(&child->space->events); /* the reaper polls from now on */
    return arch_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                          CLONE_SYSVSEM | CLONE_PARENT_SETTID,
                      stack, pid_word);
}

long child_clone(struct child *child, int as_sibling)
{
    struct space_slot *slot = child->slot;
    uint64_t flags = CLONE_VM | CLONE_PARENT_SETTID | (as_sibling ? CLONE_PARENT : 0);
    uint64_t exit_signal = as_sibling ? 0 : SIGCHLD; /* a sibling inherits the spawner's */
    void *stack = arch_push_call(child->stack_pointer, child_main, child);
    uintptr_t stack_low = (uintptr_t)stack - CHILD_FREE;
    /* The kernel stores the pid before the child can run or die, so the reaper always finds the
     * slot of a process that it reaps. STARTING without a pid means that the spawner died before
     * clone. The page must be present: the kernel omits a store that has to wait for the page when
     * the spawner is killed (map_pids in api/init.c). */
    _Atomic int32_t *pid_word = &child->space->pids[slot_index(child->space, slot)];
    atomic_store(pid_word, 0);
    struct clone_args arguments = {
        .flags = flags | CLONE_CLEAR_SIGHAND,
        .parent_tid = (uint64_t)(uintptr_t)pid_word,
        .exit_signal = exit_signal,
        .stack = stack_low,
        .stack_size = CHILD_FREE,
    };
    child->default_handlers = 0;
    if (child->flags &
        ONESPACE_SPAWN_THREAD) /* its process may be killed at its first instruction */
        atomic_store(&slot->pid, (int32_t)raw(__NR_getpid));
    atomic_store_explicit(&slot->state, SLOT_STARTING, memory_order_release);
    if (child->flags & ONESPACE_SPAWN_THREAD)
        return clone_thread(child, stack, (int32_t *)pid_word);
    long pid = arch_clone3(&arguments, sizeof(arguments));
    if (pid == -ENOSYS || pid == -EINVAL || pid == -EPERM || pid == -E2BIG) {
        child->default_handlers = 1; /* before Linux 5.5, or forbidden in a container */
        pid = arch_clone(flags | exit_signal, stack, (int32_t *)pid_word);
    }
    return pid;
}

/* ---- When the task's libraries are loaded ---- */

static uintptr_t dynamic_of(const struct link_map *program)
{
    const ElfW(Dyn) *dynamic = program->l_ld;
    return dynamic[0].d_tag == DT_NEEDED && dynamic[1].d_tag == ELF_FILE_DYNAMIC
               ? dynamic[1].d_un.d_ptr
               : (uintptr_t)dynamic;
}

void task_loaded(struct space_slot *self, uintptr_t link_map)
{
    const struct link_map *program = (const struct link_map *)link_map;
    membership_mark_attach(self);
    if (program) { /* musl's link map of the program has a name, glibc's has none */
        const char *path = *program->l_name ? NULL : interpose_program(self);
        debugger_link(space_registry(), self, path, program->l_addr, dynamic_of(program), link_map);
    }
    atomic_store_explicit(&self->loaded, 1, memory_order_release);
    futex_wake(&self->loaded, INT32_MAX);
    if ((self->flags & ONESPACE_SPAWN_TOGETHER) && self->ntasks > 1)
        group_wait_loaded(space_registry(), self);
}
