/* src/reaper/reaper.c: the reaper: it clones for the root, reaps tasks, and undoes what they had.
 *
 * The reaper shares memory and working directory with the root, but no signal handlers, and it has
 * no exit signal: the root's wait(-1) sees neither the reaper nor the tasks. It has a stack of its
 * own. Its thread pointer is the root's, but it uses no thread-local storage. A thread of it, the
 * cloner, shares the root's descriptors and clones; another one unmaps (space/holds.c).
 * The reaper sleeps on `events`, which members increment, and its signal handler when a child ends.
 * It polls only for what the kernel does not report: each millisecond while a task or the root is
 * in execve, ends in thread mode, or is outlived by a vfork child, while the memory is dumpable
 * (dumpable.c), and if a hook asks for it; ten times a second while a task in thread mode lives.
 * Freestanding. */
#include "reaper/reaper.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "arch/syscall.h"
#include "base/delay.h"
#include "base/futex.h"
#include "base/proc.h"
#include "base/raw.h"
#include "onespace.h"
#include "space/member.h"
#include "spawn/spawn.h"

enum { REAPER_STACK = 64 * 1024, EXEC_POLL_NS = 1000000, CLOSE_WAIT_NS = 1000000000 };

/* ---- The end of a member ---- */

/* The spawner of `child` has ended, so no member waits for the child any more. The spawner may have
 * died between collecting the status and freeing the slot. */
static void orphan_child(struct space *space, struct space_slot *child)
{
    atomic_store(&child->spawner_has_ended, 1);
    uint32_t ended = slot_ended(atomic_load(&child->id));
    atomic_compare_exchange_strong(&child->state, &ended, SLOT_COLLECTED);
    if (slot_state(child) == SLOT_ABORTING && atomic_load(&child->memory) == MEMORY_NONE)
        slot_free(space, child);
    else
        slot_free_if_done(child);
}

/* Undoes what the dead member was spawning, and orphans the tasks that it had spawned. A slot that
 * another member has CLAIMED is left alone, although its `spawner` may still be the dead member. */
static void orphan_children(struct space *space, struct space_slot *slot)
{
    if (!atomic_load(&slot->has_spawned))
        return;
    unsigned index = slot_index(space, slot);
    uint32_t highest = atomic_load(&space->highest);
    int32_t id = atomic_load(&slot->id);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *child = &space->slots[i];
        uint32_t state = atomic_load(&child->state), kind = state & SLOT_STATE_MASK;
        int not_started =
            (state == (SLOT_CLAIMED | index << 8)) ||
            (state == SLOT_STARTING && child->spawner == id && !atomic_load(&space->pids[i]));
        if (not_started) {
            group_leave(space, child);
            atomic_store(&child->state, SLOT_ABORTING);
            memory_unmap_unless_held(space, &child, 1);
        } else if (kind >= SLOT_STARTING && kind <= SLOT_ABORTING && child->spawner == id) {
            orphan_child(space, child);
        }
    }
}

/* Kills the member's children that run its function `before`, which is code of its, in its memory
 * and with its thread pointer. Returns whether there are any: then the memory must be held until
 * they are gone (vfork_children.c). */
static int kill_children_in_before(struct space *space, const struct space_slot *slot)
{
    int has_some = 0;
    int32_t id = atomic_load(&slot->id);
    if (!atomic_load(&slot->has_spawned))
        return 0;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *child = &space->slots[i];
        int32_t pid = atomic_load(&space->pids[i]);
        if (pid > 0 && child->spawner == id && is_in_before(space, child)) {
            raw(__NR_kill, pid, SIGKILL);
            has_some = 1;
        }
    }
    return has_some;
}

/* Undoes all of a member's membership except its memory. The exports of an ended task that its
 * spawner holds stay as long as its memory (holds.c). */
static void end_membership(struct space *space, struct space_slot *slot)
{
    debugger_unlink(slot);
    if (!(slot->flags & ONESPACE_SPAWN_HOLD) || slot_state(slot) == SLOT_LEFT)
        exports_remove_all(space, slot);
    for (const struct member_hooks *const *layer = hooks_of_layers; *layer; layer++)
        if ((*layer)->ended)
            (*layer)->ended(space, slot);
    hold_release_all(space, slot);
    if (registrations_end(space, slot))
        atomic_store(&space->holds_changed, HOLDS_CHANGED);
    group_leave(space, slot);
}

/* Before the slot's end is published, so that the slot is still the task's. */
static void log_task(const struct space *space, const struct space_slot *slot, const char *event,
                     const struct audit_field *more)
{
    struct audit_task task = {atomic_load(&slot->id), atomic_load(&slot->pid), slot->program};
    member_log(space, event, &task, more);
}

static void log_task_end(const struct space *space, const struct space_slot *slot, int status)
{
    int is_killed = WIFSIGNALED(status);
    struct audit_field field = {is_killed ? "SIGNAL" : "EXIT", NULL,
                                (uint64_t)(is_killed ? WTERMSIG(status) : WEXITSTATUS(status))};
    log_task(space, slot, "task-end", &field);
}

/* The task has executed another program: its process lives, but is no longer a member. */
static void member_left(struct space *space, struct space_slot *slot)
{
    guard_open(&space->guard); /* never closed: the reaper changes memory of guarded tasks */
    log_task(space, slot, "task-left", NULL);
    thread_tasks_end_with_process(space, slot, SIGKILL);
    atomic_store(&slot->state, SLOT_LEFT);
    int is_used = kill_children_in_before(space, slot);
    end_membership(space, slot);
    vfork_children_hold(space, &slot, is_used);
    memory_unmap_unless_held(space, &slot, 1);
    orphan_children(space, slot);
    futex_bump(&space->names);
}

/* From ENDED on the slot is the waiter's and may be reused at any time. Everything else is
 * therefore done before; only waking, which is harmless in a reused slot, comes after. */
static void publish_status(struct space *space, struct space_slot *slot)
{
    int32_t unknown = 0; /* it died before it reported whether it entered its program */
    if (atomic_compare_exchange_strong(&slot->child_result, &unknown, -ECHILD))
        futex_wake(&slot->child_result, INT32_MAX);
    /* The spawner collects a child that never entered its program, whatever the flags. */
    int entered = atomic_load(&slot->child_result) == 1;
    int has_no_waiter = atomic_load(&slot->spawner_has_ended) ||
                        (entered && (slot->flags & ONESPACE_SPAWN_DETACHED));
    atomic_store(&slot->ended, 1);
    if (++space->end_count == 0)
        space->end_count = 1;
    atomic_store_explicit(&space->end_order[slot_index(space, slot)], space->end_count,
                          memory_order_release);
    atomic_store(&slot->state, has_no_waiter ? SLOT_COLLECTED : slot_ended(atomic_load(&slot->id)));
    if (has_no_waiter)
        slot_free_if_done(slot);
    futex_wake(&slot->ended, INT32_MAX);
    futex_wake_shared(&slot->ended, INT32_MAX); /* onespace_watch: either kind of FUTEX_WAIT */
}

void members_ended(struct space *space, const struct member_end *ends, unsigned count)
{
    struct space_slot *members[MEMBER_ENDS_MAX] = {NULL}, *killed[MEMBER_ENDS_MAX] = {NULL};
    unsigned member_count = 0, killed_count = 0;
    guard_open(&space->guard); /* as in member_left */
    /* A slot that is STARTING without a PID, or with one that is free again, would look to the end
     * of its spawner, which may be among these, as if it had not been cloned, or still ran. */
    for (unsigned i = 0; i < count; i++)
        child_set_running(ends[i].slot);
    for (unsigned i = 0; i < count; i++) {
        struct space_slot *slot = ends[i].slot;
        slot->status = ends[i].status;
        thread_tasks_end_with_process(space, slot, ends[i].status);
        atomic_store(&space->pids[slot_index(space, slot)], 0);
        if (slot_state(slot) == SLOT_LEFT)
            continue;
        end_membership(space, slot);
        log_task_end(space, slot, slot->status);
        members[member_count++] = slot;
        int is_used = kill_children_in_before(space, slot);
        if (is_used || WIFSIGNALED(ends[i].status))
            killed[killed_count++] = slot;
    }
    vfork_children_hold(space, killed, killed_count);
    memory_unmap_unless_held(space, members, member_count);
    for (unsigned i = 0; i < count; i++) {
        orphan_children(space, ends[i].slot);
        publish_status(space, ends[i].slot);
    }
    futex_bump(&space->ends);
    futex_bump(&space->names); /* importers that wait for their names find them ended */
}

/* ---- The cloner: a thread of the reaper that clones what the root has requested ----
 *
 * A task gets a copy of the descriptors of the thread that clones it, so the cloner shares the
 * root's table. The reaper, which opens files of /proc, has a table of its own. In the root's, such
 * a file would have, for moments, the number that the program's next open is to return; and if the
 * program replaced it, the reaper would read from the program's file, and close it.
 *
 * The cloner sleeps on `requests`. Where it cannot be started, the reaper clones, too, and keeps
 * the root's table. */

/* The slot whose task the cloner is making, or 0. By the cloner; a futex on which the reaper sleeps
 * if that task has ended already. Sequentially consistent. */
static _Atomic uint32_t cloning;

/* Requests form a list, newest first; the order does not matter. The exchange pairs with that of
 * reaper_request_clone: the child records are complete. Both are sequentially consistent, because
 * one side stores has_cloner before, and the other reads it afterwards. */
static void clone_children(struct space *space)
{
    int32_t index = atomic_exchange(&space->requests, -1);
    if (index >= 0)
        guard_open(&space->guard); /* to the child's stack; never closed */
    while (index >= 0) {
        struct space_slot *slot = &space->slots[index];
        struct child *child = (struct child *)slot->child_record;
        int announces = (int)child->reaper_announces; /* its memory may be gone after clone */
        atomic_store(&cloning, (uint32_t)index);
        index = atomic_load(&slot->next_request);
        child->reaper_pid = atomic_load(&space->reaper_pid);
        long pid = child_clone(child, 0);
        DELAY("reaper.cloned");
        if (pid > 0 && announces) {
            atomic_store(&slot->pid, (int32_t)pid);
            child_report_started(slot);
        }
        if (pid < 0) {
            atomic_store(&slot->child_stage, CHILD_CLONE);
            /* CLAIMED again by the spawner, which undoes the rest. */
            atomic_store(&slot->state, SLOT_CLAIMED | slot_index_of_id(slot->spawner) << 8);
            atomic_store_explicit(&slot->child_result, (int32_t)pid, memory_order_release);
            futex_wake(&slot->child_result, INT32_MAX);
        }
        atomic_store(&cloning, 0);
        futex_wake(&cloning, 1);
    }
}

static void cloner_main(void *argument)
{
    struct space *space = argument;
    raw(__NR_prctl, PR_SET_NAME, "onespace-clone");
    for (;;) {
        clone_children(space);
        futex_wait(&space->requests, (uint32_t)-1, UINT64_MAX);
    }
}

static void close_descriptor(void *context, int fd, int directory)
{
    (void)context;
    if (fd != directory)
        raw(__NR_close, fd);
}

/* Leaves the root's table of descriptors for an empty one. Where a filter denies that, it stays.
 * The threads that it has started by now stay, too: one clones, the other one may print. */
static void leave_descriptors(void)
{
#ifdef __NR_close_range
    if (raw(__NR_close_range, 0, ~0u, 2 /* CLOSE_RANGE_UNSHARE */) == 0)
        return;
#endif
    if (raw(__NR_unshare, CLONE_FILES) == 0 && /* before Linux 5.9 */
        proc_each_number("/proc/self/fd", close_descriptor, NULL) < 0)
        descriptors_close_range(0, ~0u);
}

static void start_cloner(struct space *space)
{
    atomic_store(&cloning, 0);
    /* Before it sleeps for the first time. A request that comes when there is none after all wakes
     * the reaper, or is found in its first round. */
    atomic_store(&space->has_cloner, 1);
    if (reaper_start_thread(space, LAYOUT_CLONER, cloner_main))
        leave_descriptors();
    else
        atomic_store(&space->has_cloner, 0);
}

/* ---- One round: reap, find departures ---- */

/* Waits until the cloner has finished with that slot. */
static void await_cloner(const struct space *space, const struct space_slot *slot)
{
    uint32_t index = slot_index(space, slot);
    while (atomic_load(&cloning) == index)
        futex_wait(&cloning, index, UINT64_MAX);
}

/* The slot of the task that is a process with that PID, or NULL. A thread that was a task's main
 * thread may have ended, and the PID be its former id. */
static struct space_slot *find_process(struct space *space, int32_t pid)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++)
        if (atomic_load_explicit(&space->pids[i], memory_order_acquire) == pid &&
            !slot_is_thread(&space->slots[i]))
            return &space->slots[i];
    return NULL;
}

/* Reaps up to MEMBER_ENDS_MAX tasks. Returns their number. */
static unsigned reap_some(struct space *space, struct member_end ends[MEMBER_ENDS_MAX])
{
    struct rusage usage;
    unsigned count = 0;
    while (count < MEMBER_ENDS_MAX) {
        long pid = raw(__NR_wait4, -1, &ends[count].status, WNOHANG | __WALL, &usage);
        if (pid <= 0)
            break;
        ends[count].slot = find_process(space, (int32_t)pid);
        if (!ends[count].slot)
            continue;
        await_cloner(space, ends[count].slot);
        slot_set_cpu_times(ends[count].slot, &usage);
        count++;
    }
    return count;
}

static void reap(struct space *space)
{
    struct member_end ends[MEMBER_ENDS_MAX];
    unsigned count;
    while ((count = reap_some(space, ends)) != 0)
        members_ended(space, ends, count);
}

/* Finds tasks that have executed another program. Returns the number of tasks in execve now. */
static unsigned find_departures(struct space *space, uint32_t *seen, unsigned in_exec)
{
    uint32_t departures = atomic_load_explicit(&space->departures, memory_order_acquire);
    if (departures == *seen && in_exec == 0)
        return 0;
    *seen = departures;
    in_exec = 0;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *slot = &space->slots[i];
        int32_t pid = atomic_load(&space->pids[i]);
        if (pid == 0 || slot_state(slot) != SLOT_RUNNING || !atomic_load(&slot->leaving))
            continue;
        if (still_here_in_exec(space, pid))
            in_exec++;
        else
            member_left(space, slot);
    }
    return in_exec;
}

static _Noreturn void kill_all_and_exit(struct space *space)
{
    for (unsigned i = 1; i < LAYOUT_SLOTS; i++) {
        int32_t pid = atomic_load(&space->pids[i]);
        if (pid > 0 && !slot_is_thread(&space->slots[i])) /* else it ends with its process */
            raw(__NR_kill, pid, SIGKILL);
    }
    for (unsigned i = 1; i < LAYOUT_SLOTS; i++)
        if (atomic_load(&space->pids[i]) > 0 && slot_state(&space->slots[i]) != SLOT_LEFT)
            log_task_end(space, &space->slots[i], SIGKILL);
    member_log(space, "space-end", NULL, NULL);
    for (;;)
        raw(__NR_exit_group, 0);
}

/* The shorter timeout; 0 means none. */
static uint64_t shorter_timeout(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* ---- A root that executes another program ----
 *
 * Its PID stays, so it is no end to the reaper's parent, but the old memory and descriptors would
 * stay with the reaper and the tasks. The kernel marks the root's robust futex (space/member.h)
 * when its main thread executes a program, before it changes its memory, and when that thread ends.
 * Roots without the mark, of another libc or made by another thread than the main one, are not
 * found. */

enum { ROOT_CHECK_NS = 1000000000 };

/* The word that the kernel changes, or NULL. */
static const _Atomic uint32_t *root_mark(const struct space *space)
{
    const struct space_robust *robust = &space->slots[0].robust;
    uint32_t at = atomic_load_explicit(&robust->at, memory_order_acquire);
    return at ? &robust->words[at - 1] : NULL;
}

/* Kills all if the root has executed another program. Returns when to look again, 0: at the next
 * event. */
static uint64_t check_root(struct space *space)
{
    const _Atomic uint32_t *mark = root_mark(space);
    if (!mark || !(atomic_load(mark) & FUTEX_OWNER_DIED))
        return 0;
    enum presence presence = process_presence(space, space->root_pid);
    if (presence == PRESENCE_ELSEWHERE ||
        (presence == PRESENCE_DENIED &&
         process_presence(space, (int32_t)raw(__NR_getpid)) == PRESENCE_HERE))
        kill_all_and_exit(space);
    return presence == PRESENCE_HERE ? EXEC_POLL_NS : 0; /* else its main thread has ended */
}

/* Sleeps until an event, the root's mark, or the timeout (0: none). Looks at the mark at least once
 * a second if it cannot sleep on it: because a thread cannot wait for two words (before
 * Linux 5.16), or the kernel has set it just now, or long ago, when the root's main thread ended.
 */
static void sleep_until_event(struct space *space, uint32_t seen, uint64_t timeout)
{
    const _Atomic uint32_t *mark = root_mark(space);
    uint32_t value = mark ? atomic_load(mark) : 0;
    uint64_t deadline = timeout ? futex_now_ns() + timeout : UINT64_MAX;
    if (mark && !(value & FUTEX_OWNER_DIED) &&
        futex_wait_two(&space->events, seen, mark, value, deadline))
        return;
    if (mark)
        deadline = futex_now_ns() + shorter_timeout(timeout, ROOT_CHECK_NS);
    futex_wait(&space->events, seen, deadline);
}

/* ---- The reaper's main function ---- */

/* SIGCHLD, DUMPABLE_SIGNAL, or SIGTERM: the parent-death signal, which the kernel sends when the
 * root's thread that is the reaper's parent ends. */
static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (signal == DUMPABLE_SIGNAL)
        dumpable_allow(info->si_pid);
    atomic_fetch_add_explicit(&space_registry()->events, 1, memory_order_release);
}

uint64_t reaper_handled_signals(void)
{
    return signal_bit(SIGCHLD) | signal_bit(SIGTERM) |
           (dumpable_was_cleared() ? signal_bit(DUMPABLE_SIGNAL) : 0);
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

/* If the reaper is killed, the kernel sets FUTEX_OWNER_DIED in this word. Members that wait for a
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

static void reaper_main(void *argument)
{
    struct space *space = argument;
    uint32_t departures = 0;
    unsigned in_exec = 0;
    raw(__NR_prctl, PR_SET_NAME, "onespace-reaper");
    raw(__NR_prctl, PR_SET_PDEATHSIG, SIGTERM);
    set_robust_word(space);
    set_signals();
    vfork_children_init();
    unmapper_init(space);
    start_cloner(space);
    for (;;) {
        /* Acquire pairs with the release of futex_bump: what was written before it is seen below.
         */
        uint32_t seen = atomic_load_explicit(&space->events, memory_order_acquire);
        if (raw(__NR_getppid) != space->root_pid)
            kill_all_and_exit(space);
        if (!atomic_load(&space->has_cloner))
            clone_children(space);
        reap(space);
        in_exec = find_departures(space, &departures, in_exec);
        uint64_t timeout = in_exec ? EXEC_POLL_NS : 0;
        timeout = shorter_timeout(timeout, thread_tasks_poll(space));
        timeout = shorter_timeout(timeout, vfork_children_poll(space));
        for (const struct member_hooks *const *layer = hooks_of_layers; *layer; layer++)
            if ((*layer)->poll)
                timeout = shorter_timeout(timeout, (*layer)->poll(space));
        timeout = shorter_timeout(timeout, dumpable_poll());
        timeout = shorter_timeout(timeout, check_root(space));
        memory_reclaim(space);
        if (atomic_load(&space->requests) >= 0) /* one that waited for that */
            futex_wake(&space->requests, 1);
        if (atomic_load(&space->closing)) {
            unmapper_wait(CLOSE_WAIT_NS);
            kill_all_and_exit(space);
        }
        sleep_until_event(space, seen, timeout);
    }
}

/* ---- By the root ---- */

/* Tries the calls without which the reaper would not notice the end of the root or of a task,
 * because a seccomp filter may deny them. 0 or -errno. */
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
    result = raw(__NR_wait4, raw(__NR_getpid), NULL, WNOHANG, NULL); /* never a child of itself */
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

    uint64_t signals = signals_set_mask(SIGNAL_MASK_ALL);
    long pid = arch_clone(CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_PARENT_SETTID,
                          arch_push_call((uintptr_t)stack + REAPER_STACK, reaper_main, space),
                          (int32_t *)&space->reaper_pid);
    signals_set_mask(signals);
    if (pid < 0) {
        raw(__NR_munmap, LAYOUT_REAPER, REAPER_STACK);
        return pid;
    }
    /* Where it stays in the root's table, there may later be more descriptors than the present
     * limit allows. */
    struct rlimit *limit = &space->reaper_limits[RLIMIT_NOFILE];
    struct rlimit raised = {limit->rlim_max, limit->rlim_max};
    if (raw(__NR_prlimit64, pid, RLIMIT_NOFILE, &raised, NULL) == 0)
        *limit = raised;
    return 0;
}

long reaper_stop(struct space *space)
{
    int is_alive = reaper_is_alive(space);
    if (!is_alive && kill_survivors(space))
        return -EBUSY; /* they have not ended yet */
    for (unsigned i = 1; i < LAYOUT_SLOTS && is_alive; i++)
        if (atomic_load(&space->pids[i]))
            return -EBUSY;
    atomic_store(&space->closing, 1);
    reaper_wake(space);
    long result;
    do
        result = raw(__NR_wait4, atomic_load(&space->reaper_pid), NULL, __WALL, NULL);
    while (result == -EINTR);
    raw(__NR_munmap, LAYOUT_REAPER, 3 * LAYOUT_MIB); /* its stack and its threads' */
    return 0;
}
