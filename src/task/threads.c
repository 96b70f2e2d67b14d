/* src/task/threads.c: see threads.h. Freestanding. */
#include "task/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "arch.h"
#include "raw_syscall.h"
#include "space/futex.h"
#include "steer/steer.h"
#include "task/end.h"
#include "task/numbers.h"

/* The signal that ends a task's left threads. glibc keeps it for setuid in programs with threads
 * and lets no program block it or handle it otherwise; such uses are passed on. */
enum { END_SIGNAL = 33, SOON_NS = 1000000, SOMETIMES_NS = 100000000, UNSURE_SWEEPS = 1000 };

/* What the process had for END_SIGNAL. Root's copy of the library: written by newborns, by tasks
 * that set a handler and by exiting ones; read by the handler. Any of the values does. */
static _Atomic(uintptr_t) next_handler;

static int is_own_signal(const siginfo_t *info)
{
    const struct space_slot *slot = info->si_value.sival_ptr;
    struct space *space = space_registry();
    return info->si_code == SI_QUEUE && slot > space->slots && slot < space->slots + LAYOUT_SLOTS &&
           layout_slot_of((uintptr_t)&slot) == space_slot_index(space, slot) && /* on its stack */
           atomic_load_explicit(&slot->exited, memory_order_acquire);
}

static void on_end_signal(int number, siginfo_t *info, void *context)
{
    if (is_own_signal(info))
        for (;;)
            raw(__NR_exit, 0);
    uintptr_t next = atomic_load_explicit(&next_handler, memory_order_acquire);
    if (next > (uintptr_t)SIG_IGN)
        ((void (*)(int, siginfo_t *, void *))next)(number, info, context);
}

void threads_prepare(void)
{
    struct space_sigaction before, ours = {.handler = (uintptr_t)on_end_signal,
                                           .flags = SA_SIGINFO | SA_RESTART | ARCH_SA_RESTORER,
                                           .restorer = (uintptr_t)arch_signal_restorer};
    raw(__NR_rt_sigaction, END_SIGNAL, NULL, &before, ARCH_SIGNAL_SET_BYTES);
    if (before.handler == ours.handler)
        return;
    atomic_store_explicit(&next_handler, before.handler, memory_order_release);
    raw(__NR_rt_sigaction, END_SIGNAL, &ours, NULL, ARCH_SIGNAL_SET_BYTES);
}

int threads_took_handler(struct space_slot *self, const long a[6], long *result)
{
    if (a[0] != END_SIGNAL || !a[1] || !space_is_thread(self) || !steer_is_task(self))
        return 0;
    atomic_store_explicit(&next_handler, ((const struct space_sigaction *)a[1])->handler,
                          memory_order_release);
    *result = 0;
    return 1;
}

_Noreturn void threads_exit(struct space_slot *self, int status)
{
    struct rusage usage;
    uint32_t none = 0;
    if (!steer_is_task(self))
        for (;;)
            raw(__NR_exit_group, status);
    threads_prepare(); /* another libc of the process may have taken the signal since, as musl does
                        */
    if (raw(__NR_getrusage, RUSAGE_THREAD, &usage) == 0)
        task_times(self, &usage);
    atomic_compare_exchange_strong_explicit(&self->exited, &none,
                                            SLOT_EXITED | ((uint32_t)status & 0xff),
                                            memory_order_release, memory_order_relaxed);
    futex_bump(&space_registry()->events);
    for (;;)
        raw(__NR_exit, 0);
}

/* The threads of one process, told apart by the task whose they are. */
struct census {
    struct space *space;
    int32_t process;  /* 0: none counted */
    unsigned seen;    /* threads */
    unsigned unclear; /* those too young to tell */
    int is_complete;  /* none was overlooked */
    uint16_t counts[LAYOUT_SLOTS];
};

static void end_thread(const struct census *census, struct space_slot *slot, int thread)
{
    siginfo_t info = {.si_signo = END_SIGNAL, .si_code = SI_QUEUE};
    info.si_value.sival_ptr = slot;
    raw(__NR_rt_tgsigqueueinfo, census->process, thread, END_SIGNAL, &info);
}

/* A thread of glibc sets its robust list before anything else. */
static void count_thread(void *context, int thread, int folder)
{
    struct census *census = context;
    uintptr_t head = 0;
    size_t size;
    (void)folder;
    if (raw(__NR_get_robust_list, thread, &head, &size) != 0)
        return; /* it has just ended */
    unsigned index = layout_slot_of(head);
    census->seen++;
    census->unclear += head == 0;
    if (index == 0 || index >= LAYOUT_SLOTS)
        return;
    struct space_slot *slot = &census->space->slots[index];
    census->counts[index]++;
    if (atomic_load_explicit(&slot->exited, memory_order_acquire))
        end_thread(census, slot, thread);
}

/* The number of a process's threads, by the links of its folder. */
static long threads_in(const char *path)
{
    struct stat status;
    return raw(__NR_stat, path, &status) == 0 ? (long)status.st_nlink - 2 : -1;
}

static void count_threads(struct census *census, int32_t process)
{
    char path[32] = "/proc/", *end = numbers_write(path + 6, process);
    for (const char *tail = "/task"; (*end = *tail); tail++)
        end++;
    census->process = process;
    census->seen = census->unclear = 0;
    for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
        census->counts[i] = 0;
    /* The kernel's list ends early when the thread that it stands at ends. */
    long before = threads_in(path);
    long result = numbers_each(path, count_thread, census);
    census->is_complete = result == 0 && before == census->seen && threads_in(path) == before;
}

static int is_watched(const struct space_slot *slot)
{
    uint32_t state = space_state(slot);
    return (state == SLOT_BORN || state == SLOT_RUNNING) && space_is_thread(slot);
}

/* Whether the task's main thread is gone, and so makes no threads any more. */
static int is_headless(struct space *space, const struct space_slot *slot)
{
    int32_t process = atomic_load(&slot->pid);
    int32_t thread = atomic_load(&space->pids[space_slot_index(space, slot)]);
    return process && thread && raw(__NR_tgkill, process, thread, 0) == -ESRCH;
}

/* Whether none of the task's threads is left, by a census that was begun when its main thread was
 * gone. A thread that was just being made shows itself within moments; without /proc it never does.
 */
static int is_gone(const struct census *census, struct space_slot *slot)
{
    int is_sure = census->is_complete && !census->unclear;
    return !census->counts[space_slot_index(census->space, slot)] &&
           (is_sure || slot->sweeps++ >= UNSURE_SWEEPS);
}

uint64_t threads_watch(struct space *space)
{
    static struct census census; /* the keeper is one */
    static uint8_t headless[LAYOUT_SLOTS];
    uint64_t again = 0;
    if (!atomic_load(&space->had_threads))
        return 0;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++)
        headless[i] = is_watched(&space->slots[i]) && is_headless(space, &space->slots[i]);
    census.space = space;
    census.process = 0;
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *slot = &space->slots[i];
        if (!is_watched(slot))
            continue;
        uint32_t exited = atomic_load_explicit(&slot->exited, memory_order_acquire);
        if ((headless[i] || exited) && census.process != atomic_load(&slot->pid))
            count_threads(&census, atomic_load(&slot->pid));
        if (headless[i] && is_gone(&census, slot)) /* without a word, by the system call alone: 0 */
            task_ended(space, &(struct task_end){slot, (int)(exited & 0xff) << 8}, 1);
        else if (exited)
            again = SOON_NS;
        else if (!again)
            again = SOMETIMES_NS;
    }
    return again;
}

void threads_gone_with(struct space *space, const struct space_slot *owner, int status)
{
    if (!atomic_load(&space->had_threads) || space_is_thread(owner))
        return;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *slot = &space->slots[i];
        uint32_t state = space_state(slot);
        if ((state == SLOT_RUNNING || state == SLOT_BORN) && space_is_thread(slot) &&
            atomic_load(&slot->pid) == atomic_load(&owner->pid))
            task_ended(space, &(struct task_end){slot, status}, 1);
    }
}
