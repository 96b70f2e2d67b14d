/* src/space/unmapper.c: see unmapper.h. Freestanding. */
#include "space/member.h"

#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "arch/syscall.h"
#include "base/delay.h"
#include "base/futex.h"
#include "base/raw.h"

enum { STACK_SIZE = 32 * 1024 };

/* A ring of runs. A slot or channel is in it once at most, so it is never full. The reaper writes a
 * run before it increments `posted`; the thread increments `done` when it has unmapped one. Both
 * counters are sequentially consistent and futexes, of the thread and of a reaper that awaits it.
 */
static struct unmapper_run runs[UNMAPPER_RUNS];
static _Atomic uint32_t posted, done;
static uint32_t finished;        /* by unmapper_finish */
static uint32_t late;            /* reaper: a wait at this value of `done` has timed out */
static _Atomic uint32_t awaited; /* the reaper waits for `done`: it needs no other wake-up */
static int has_thread;

static void unmapper_main(void *argument)
{
    struct space *space = argument;
    raw(__NR_prctl, PR_SET_NAME, "onespace-unmap");
    for (;;) {
        uint32_t seen = atomic_load(&posted);
        uint32_t now = atomic_load(&done);
        if (seen == now) {
            futex_wait(&posted, seen, UINT64_MAX);
            continue;
        }
        struct unmapper_run run = runs[now % UNMAPPER_RUNS];
        atomic_store(&space->unmapping_since_ns, futex_now_ns());
        atomic_store(&space->unmapping, run.first);
        DELAY("unmapper.unmap");
        run.unmap(space, run);
        atomic_store(&space->unmapping, 0);
        atomic_fetch_add(&done, 1);
        futex_wake(&done, 1);
        if (!atomic_load(&awaited)) /* after `done`: the reaper resets it, and then reads `done` */
            futex_bump(&space->events);
    }
}

void unmapper_init(void)
{
    atomic_store(&posted, 0);
    atomic_store(&done, 0);
    atomic_store(&awaited, 0);
    finished = 0;
    late = UINT32_MAX;
    has_thread = 0;
}

/* Signals are the reaper's main thread's: they end its sleep. */
static int start_thread(struct space *space)
{
    const uintptr_t at = LAYOUT_REAPER + LAYOUT_MIB;
    long stack = raw(__NR_mmap, at, STACK_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(stack))
        return 0;
    uint64_t old = signals_set_mask(SIGNAL_MASK_ALL);
    long thread = arch_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                 CLONE_SYSVSEM | CLONE_PARENT_SETTID,
                             arch_push_call((uintptr_t)stack + STACK_SIZE, unmapper_main, space),
                             (int32_t *)&space->unmapper_tid);
    signals_set_mask(old);
    if (thread < 0)
        raw(__NR_munmap, at, STACK_SIZE);
    return thread >= 0;
}

void unmapper_post(struct space *space, struct unmapper_run run)
{
    uint32_t at = atomic_load(&posted);
    runs[at % UNMAPPER_RUNS] = run;
    has_thread = has_thread || start_thread(space);
    if (has_thread) {
        futex_bump(&posted);
        return;
    }
    run.unmap(space, run);
    atomic_store(&posted, at + 1);
    atomic_store(&done, at + 1);
}

void unmapper_wait(uint64_t ns)
{
    uint32_t all = atomic_load(&posted), now = atomic_load(&done);
    uint64_t deadline = 0;
    if (now == all || now == late)
        return;
    atomic_store(&awaited, 1);
    while ((now = atomic_load(&done)) != all) {
        deadline = deadline ? deadline : futex_now_ns() + ns;
        if (futex_wait(&done, now, deadline) == -ETIMEDOUT)
            break;
    }
    atomic_store(&awaited, 0);
    late = atomic_load(&done) == all ? UINT32_MAX : now;
}

void unmapper_finish(struct space *space)
{
    while (finished != atomic_load(&done)) {
        struct unmapper_run run = runs[finished++ % UNMAPPER_RUNS];
        run.finish(space, run);
    }
}
