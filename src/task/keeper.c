/* src/task/keeper.c: the keeper.
 *
 * It shares memory, descriptors and working directory with the root but no signal handlers, and has
 * no exit signal: the root's own wait(-1) sees neither it nor the tasks. Freestanding; runs on a
 * stack of its own with the root's thread pointer, which it never uses. It has no timer: it sleeps
 * on `events`, which others bump, and which its own handler bumps when a child ends. While a task
 * is in execve, or ends in thread mode, it looks every millisecond, since the kernel does not say
 * when that is done. */
#include "task/keeper.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "arch.h"
#include "space/futex.h"
#include "space/holds.h"
#include "raw_syscall.h"
#include "task/birth.h"
#include "task/end.h"
#include "task/threads.h"

enum { KEEPER_STACK = 64 * 1024, EXEC_POLL_NS = 1000000 };

/* SIGCHLD or, when a thread of the root ends, SIGTERM. */
static void on_signal(int signal)
{
    (void)signal;
    atomic_fetch_add_explicit(&space_registry()->events, 1, memory_order_release);
}

uint64_t keeper_handled_signals(void)
{
    return UINT64_C(1) << (SIGCHLD - 1) | UINT64_C(1) << (SIGTERM - 1);
}

static void set_signals(void)
{
    struct space_sigaction action = {.handler = (uintptr_t)on_signal,
                                     .flags = ARCH_SA_RESTORER,
                                     .restorer = (uintptr_t)arch_signal_restorer,
                                     .mask = ~UINT64_C(0)};
    raw(__NR_rt_sigaction, SIGCHLD, &action, NULL, 8);
    raw(__NR_rt_sigaction, SIGTERM, &action, NULL, 8);
    uint64_t blocked = ~keeper_handled_signals();
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, 8);
}

/* Tells those who wait for a task's end that nobody will see it, should the keeper be killed. */
static void set_robust_word(struct space *space)
{
    static struct robust_list_head head;
    static struct robust_list node;
    head.list.next = &node;
    node.next = &head.list;
    head.futex_offset = (long)((char *)&space->keeper_word - (char *)&node);
    raw(__NR_set_robust_list, &head, sizeof(head));
    atomic_store(&space->keeper_word, (uint32_t)raw(__NR_gettid));
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

/* Births that the root asks for. Requests form a list, newest first; the order does not matter. */
static void make_births(struct space *space)
{
    int32_t index = atomic_exchange_explicit(&space->requests, -1, memory_order_acquire);
    while (index >= 0) {
        struct space_slot *slot = &space->slots[index];
        index = atomic_load(&slot->next_request);
        struct birth *birth = (struct birth *)slot->birth_record;
        birth->keeper_pid = atomic_load(&space->keeper_pid);
        long pid = birth_clone(birth, 0);
        if (pid > 0 && birth->keeper_announces) {
            atomic_store(&slot->pid, (int32_t)pid);
            birth_announce(slot);
        }
        if (pid < 0) {
            atomic_store(&slot->birth_stage, BIRTH_CLONE);
            atomic_store(&slot->state, SLOT_CLAIMED); /* by the root, which undoes the rest */
            atomic_store_explicit(&slot->birth, (int32_t)pid, memory_order_release);
            futex_wake(&slot->birth, INT32_MAX);
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

/* Those who have ended, as many as are dealt with at once: how many. */
static unsigned collect(struct space *space, struct task_end ends[TASK_ENDS])
{
    struct rusage usage;
    unsigned count = 0;
    while (count < TASK_ENDS) {
        long pid = raw(__NR_wait4, -1, &ends[count].status, WNOHANG | __WALL, &usage);
        if (pid <= 0)
            break;
        ends[count].slot = slot_of_pid(space, (int32_t)pid);
        if (!ends[count].slot)
            continue;
        task_times(ends[count].slot, &usage);
        count++;
    }
    return count;
}

static void reap(struct space *space)
{
    struct task_end ends[TASK_ENDS];
    unsigned count;
    while ((count = collect(space, ends)) != 0)
        task_ended(space, ends, count);
}

/* Whether a task that entered execve still lives in this address space: reading our own mark
 * through its pid needs no permission as long as it does. */
static int is_still_here(int32_t pid)
{
    uint32_t word = 0;
    struct iovec local = {&word, sizeof(word)}, remote = {(void *)LAYOUT_MARK, sizeof(word)};
    long result = raw(__NR_process_vm_readv, pid, &local, 1, &remote, 1, 0);
    return result == (long)sizeof(word) ? word != 0 : result == -ESRCH;
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
        if (is_still_here(pid))
            leaving++;
        else
            task_left(space, slot);
    }
    return leaving;
}

static void keeper_main(void *argument)
{
    struct space *space = argument;
    uint32_t departures = 0;
    unsigned leaving = 0;
    raw(__NR_prctl, PR_SET_NAME, "onespace-reaper");
    raw(__NR_prctl, PR_SET_PDEATHSIG, SIGTERM);
    set_robust_word(space);
    set_signals();
    for (;;) {
        /* Acquire pairs with the release of futex_bump: what was announced is seen below. */
        uint32_t seen = atomic_load_explicit(&space->events, memory_order_acquire);
        if (!root_is_alive(space))
            leave(space);
        make_births(space);
        reap(space);
        leaving = watch_departures(space, &departures, leaving);
        uint64_t look = threads_watch(space);
        holds_reclaim(space);
        if (atomic_load(&space->closing))
            leave(space);
        if (leaving && (!look || look > EXEC_POLL_NS))
            look = EXEC_POLL_NS;
        futex_wait(&space->events, seen, look ? futex_now_ns() + look : UINT64_MAX);
    }
}

long keeper_start(struct space *space)
{
    long stack = raw(__NR_mmap, LAYOUT_KEEPER, KEEPER_STACK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if ((unsigned long)stack >= -4095ul)
        return stack;
    uint64_t all = ~UINT64_C(0), old;
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
    long pid = arch_clone(CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_PARENT_SETTID,
                          arch_push_call((uintptr_t)stack + KEEPER_STACK, keeper_main, space),
                          (int32_t *)&space->keeper_pid);
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
    if (pid < 0)
        raw(__NR_munmap, LAYOUT_KEEPER, KEEPER_STACK);
    return pid < 0 ? pid : 0;
}

long keeper_stop(struct space *space)
{
    for (unsigned i = 1; i < LAYOUT_SLOTS; i++)
        if (atomic_load(&space->pids[i]))
            return -EBUSY;
    atomic_store(&space->closing, 1);
    keeper_poke(space);
    long result;
    do
        result = raw(__NR_wait4, atomic_load(&space->keeper_pid), NULL, __WALL, NULL);
    while (result == -EINTR);
    raw(__NR_munmap, LAYOUT_KEEPER, KEEPER_STACK);
    return 0;
}

void keeper_poke(struct space *space)
{
    futex_bump(&space->events);
}

void keeper_request(struct space *space, struct space_slot *slot)
{
    int32_t index = (int32_t)space_slot_index(space, slot);
    int32_t newest = atomic_load(&space->requests);
    do
        atomic_store(&slot->next_request, newest);
    while (!atomic_compare_exchange_weak_explicit(&space->requests, &newest, index,
                                                  memory_order_release, memory_order_relaxed));
    keeper_poke(space);
}

int keeper_alive(const struct space *space)
{
    return !(atomic_load(&space->keeper_word) & FUTEX_OWNER_DIED);
}
