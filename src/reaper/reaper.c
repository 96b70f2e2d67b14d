/* src/reaper/reaper.c: the reaper.
 *
 * It shares memory, descriptors and working directory with the root but no signal handlers, and has
 * no exit signal: the root's own wait(-1) sees neither it nor the tasks. Freestanding; runs on a
 * stack of its own with the root's thread pointer, which it never uses. It sleeps on `events`,
 * which others increment, and which its own signal handler increments when a child ends. Only while
 * a task is in execve, ends in thread mode, or is outlived by a vfork child, does it poll, every
 * millisecond, and while the space is opened (dumpable.h): the kernel does not report when these
 * are done. */
#include "reaper/reaper.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "arch/syscall.h"
#include "base/futex.h"
#include "base/raw.h"
#include "space/member.h"
#include "spawn/spawn.h"

enum { REAPER_STACK = 64 * 1024, EXEC_POLL_NS = 1000000, CLOSE_WAIT_NS = 1000000000 };

/* SIGCHLD, when a thread of the root ends SIGTERM, or that of dumpable.h. */
static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (signal == DUMPABLE_SIGNAL)
        dumpable_allow(info->si_pid);
    atomic_fetch_add_explicit(&space_registry()->events, 1, memory_order_release);
}

uint64_t reaper_handled_signals(void)
{
    return signal_bit(SIGCHLD) | signal_bit(SIGTERM) | signal_bit(DUMPABLE_SIGNAL);
}

static void set_signals(void)
{
    struct space_sigaction action = {.handler = (uintptr_t)on_signal,
                                     .flags = SA_SIGINFO | ARCH_SA_RESTORER,
                                     .restorer = (uintptr_t)arch_signal_restorer,
                                     .mask = SIGNAL_MASK_ALL};
    for (int signal = 1; signal <= SIGNAL_MAX; signal++)
        if (reaper_handled_signals() & signal_bit(signal))
            raw(__NR_rt_sigaction, signal, &action, NULL, ARCH_SIGNAL_SET_BYTES);
    signals_set_mask(~reaper_handled_signals());
}

/* Should the reaper be killed, the kernel sets FUTEX_OWNER_DIED in this word. Those who wait for a
 * task's end then learn that it will not be reported. */
static void set_robust_word(struct space *space)
{
    static struct robust_list_head head;
    static struct robust_list node;
    head.list.next = &node;
    node.next = &head.list;
    head.futex_offset = (long)((char *)&space->reaper_word - (char *)&node);
    raw(__NR_set_robust_list, &head, sizeof(head));
    atomic_store(&space->reaper_word, (uint32_t)raw(__NR_gettid));
}

static int root_is_alive(const struct space *space)
{
    return raw(__NR_getppid) == space->root_pid;
}

static _Noreturn void leave(struct space *space)
{
    for (unsigned i = 1; i < LAYOUT_SLOTS; i++) {
        int32_t pid = atomic_load(&space->pids[i]);
        if (pid > 0)
            raw(__NR_kill, pid, SIGKILL);
    }
    for (;;)
        raw(__NR_exit_group, 0);
}

/* Makes the children that the root has requested. Requests form a list, newest first; the order
 * does not matter. Acquire, pairs with the release of reaper_request_clone: the child records are
 * complete. */
static void make_children(struct space *space)
{
    int32_t index = atomic_exchange_explicit(&space->requests, -1, memory_order_acquire);
    if (index >= 0)
        guard_open(&space->guard); /* and stays so: it changes what guarded tasks have */
    while (index >= 0) {
        struct space_slot *slot = &space->slots[index];
        index = atomic_load(&slot->next_request);
        struct child *child = (struct child *)slot->child_record;
        child->reaper_pid = atomic_load(&space->reaper_pid);
        long pid = child_clone(child, 0);
        if (pid > 0 && child->reaper_announces) {
            atomic_store(&slot->pid, (int32_t)pid);
            child_report_started(slot);
        }
        if (pid < 0) {
            atomic_store(&slot->child_stage, CHILD_CLONE);
            atomic_store(&slot->state,
                         SLOT_CLAIMED); /* claimer 0: the root, which undoes the rest */
            atomic_store_explicit(&slot->child_result, (int32_t)pid, memory_order_release);
            futex_wake(&slot->child_result, INT32_MAX);
        }
    }
}

static struct space_slot *slot_of_pid(struct space *space, int32_t pid)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++)
        if (atomic_load_explicit(&space->pids[i], memory_order_relaxed) == pid)
            return &space->slots[i];
    return NULL;
}

/* Reaps up to MEMBER_ENDS_MAX tasks. Returns their number. */
static unsigned collect(struct space *space, struct member_end ends[MEMBER_ENDS_MAX])
{
    struct rusage usage;
    unsigned count = 0;
    while (count < MEMBER_ENDS_MAX) {
        long pid = raw(__NR_wait4, -1, &ends[count].status, WNOHANG | __WALL, &usage);
        if (pid <= 0)
            break;
        ends[count].slot = slot_of_pid(space, (int32_t)pid);
        if (!ends[count].slot)
            continue;
        slot_set_cpu_times(ends[count].slot, &usage);
        count++;
    }
    return count;
}

static void reap(struct space *space)
{
    struct member_end ends[MEMBER_ENDS_MAX];
    unsigned count;
    while ((count = collect(space, ends)) != 0)
        members_ended(space, ends, count);
}

/* The number of tasks that are in execve now. */
static unsigned watch_departures(struct space *space, uint32_t *seen, unsigned leaving)
{
    uint32_t departures = atomic_load_explicit(&space->departures, memory_order_acquire);
    if (departures == *seen && leaving == 0)
        return 0;
    *seen = departures;
    leaving = 0;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *slot = &space->slots[i];
        int32_t pid = atomic_load(&space->pids[i]);
        if (pid == 0 || space_state(slot) != SLOT_RUNNING || !atomic_load(&slot->leaving))
            continue;
        if (still_here_in_exec(space, pid))
            leaving++;
        else
            member_left(space, slot);
    }
    return leaving;
}

/* Of two times to wait, of which 0 means none. */
static uint64_t sooner(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

static void reaper_main(void *argument)
{
    struct space *space = argument;
    uint32_t departures = 0;
    unsigned leaving = 0;
    raw(__NR_prctl, PR_SET_NAME, "onespace-reaper");
    raw(__NR_prctl, PR_SET_PDEATHSIG, SIGTERM);
    set_robust_word(space);
    set_signals();
    vfork_children_init();
    unmapper_init();
    for (;;) {
        /* Acquire pairs with the release of futex_bump: what was announced is seen below. */
        uint32_t seen = atomic_load_explicit(&space->events, memory_order_acquire);
        if (!root_is_alive(space))
            leave(space);
        make_children(space);
        reap(space);
        leaving = watch_departures(space, &departures, leaving);
        uint64_t look = sooner(thread_tasks_poll(space), vfork_children_poll(space));
        for (const struct member_hooks *const *layer = member_hooks; *layer; layer++)
            if ((*layer)->watch)
                look = sooner(look, (*layer)->watch(space));
        look = sooner(look, dumpable_poll());
        memory_reclaim(space);
        if (atomic_load(&space->closing)) {
            unmapper_wait(CLOSE_WAIT_NS);
            leave(space);
        }
        look = sooner(look, leaving ? EXEC_POLL_NS : 0);
        futex_wait(&space->events, seen, look ? futex_now_ns() + look : UINT64_MAX);
    }
}

/* Without these calls, which a seccomp filter may deny, the reaper would not notice the end of the
 * root or of a task. 0 or -errno. */
static long try_calls(void)
{
    int signal;
    struct space_sigaction action;
    long result = raw(__NR_prctl, PR_GET_PDEATHSIG, &signal);
    if (result == 0)
        result = raw(__NR_prctl, PR_SET_PDEATHSIG, signal);
    if (result == 0)
        result = raw(__NR_rt_sigaction, SIGCHLD, NULL, &action, ARCH_SIGNAL_SET_BYTES);
    if (result < 0)
        return result;
    result = raw(__NR_wait4, raw(__NR_getpid), NULL, WNOHANG, NULL); /* no child of oneself */
    return result == -ECHILD ? 0 : result;
}

long reaper_start(struct space *space)
{
    long denied = try_calls();
    if (denied < 0)
        return denied;
    long stack = raw(__NR_mmap, LAYOUT_REAPER, REAPER_STACK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(stack))
        return stack;

    uint64_t old = signals_set_mask(SIGNAL_MASK_ALL);
    long pid = arch_clone(CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_PARENT_SETTID,
                          arch_push_call((uintptr_t)stack + REAPER_STACK, reaper_main, space),
                          (int32_t *)&space->reaper_pid);
    signals_set_mask(old);
    if (pid < 0)
        raw(__NR_munmap, LAYOUT_REAPER, REAPER_STACK);
    return pid < 0 ? pid : 0;
}

long reaper_stop(struct space *space)
{
    for (unsigned i = 1; i < LAYOUT_SLOTS; i++)
        if (atomic_load(&space->pids[i]))
            return -EBUSY;
    atomic_store(&space->closing, 1);
    reaper_wake(space);
    long result;
    do
        result = raw(__NR_wait4, atomic_load(&space->reaper_pid), NULL, __WALL, NULL);
    while (result == -EINTR);
    raw(__NR_munmap, LAYOUT_REAPER, 2 * LAYOUT_MIB); /* with the unmapper's */
    return 0;
}
