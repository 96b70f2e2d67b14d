/* src/reaper/dumpable.c: see dumpable.h. Freestanding: the reaper runs it, also in a signal
 * handler.
 */
#include "reaper/reaper.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "base/futex.h"
#include "base/kernel.h"
#include "base/proc.h"
#include "base/raw.h"

enum { OPENERS = 64, LOOK_NS = 100000000 };

#define UNSEEN_NS UINT64_C(60000000000) /* for openers without a PID here */

/* The root writes these before it makes the reaper, which shares its memory, and after the reaper
 * has ended; in between the reaper alone writes the second. */
static int is_closed, is_open;

/* Relaxed, all by the reaper: its handler adds a PID where there is 0, and dumpable_poll, which
 * the handler may interrupt, removes it. When all are taken the memory is dumpable, but it does not
 * wait for the end of any more. */
static _Atomic int32_t openers[OPENERS];
static _Atomic uint64_t unseen_until;

/* Whether the kernel ends all that share the memory that it dumps. */
static int dump_ends_all(void)
{
    uint32_t version = kernel_version();
    return version && version < KERNEL_VERSION(5, 16);
}

int must_clear_dumpable(const char *choice)
{
    int is_choice = choice && (*choice == '0' || *choice == '1') && !choice[1];
    return is_choice ? *choice == '0' : dump_ends_all();
}

void dumpable_clear(void)
{
    is_open = 0;
    for (unsigned i = 0; i < OPENERS; i++)
        atomic_store_explicit(&openers[i], 0, memory_order_relaxed);
    atomic_store_explicit(&unseen_until, 0, memory_order_relaxed);
    is_closed = raw(__NR_prctl, PR_GET_DUMPABLE) == 1 && raw(__NR_prctl, PR_SET_DUMPABLE, 0) == 0;
}

void dumpable_restore(void)
{
    if (is_closed)
        raw(__NR_prctl, PR_SET_DUMPABLE, 1);
    is_closed = 0;
}

void dumpable_allow(int pid)
{
    if (!is_closed)
        return;
    if (pid <= 0)
        atomic_store_explicit(&unseen_until, futex_now_ns() + UNSEEN_NS, memory_order_relaxed);
    for (unsigned i = 0; pid > 0 && i < OPENERS; i++) {
        int32_t none = 0;
        if (atomic_compare_exchange_strong_explicit(&openers[i], &none, pid, memory_order_relaxed,
                                                    memory_order_relaxed) ||
            none == pid)
            return;
    }
}

/* Zombies too: nobody may ever wait for them. */
static int has_ended(int pid)
{
    struct proc_stat stat;
    if (raw(__NR_kill, pid, 0) == -ESRCH)
        return 1;
    return proc_read_stat(pid, &stat) == 0 && (stat.state == 'Z' || stat.state == 'X');
}

static int is_wanted(void)
{
    uint64_t until = atomic_load_explicit(&unseen_until, memory_order_relaxed);
    int wanted = until && futex_now_ns() < until;
    for (unsigned i = 0; i < OPENERS; i++) {
        int32_t pid = atomic_load_explicit(&openers[i], memory_order_relaxed);
        if (pid && has_ended(pid))
            atomic_store_explicit(&openers[i], 0, memory_order_relaxed);
        else
            wanted |= pid != 0;
    }
    return wanted;
}

uint64_t dumpable_poll(void)
{
    int wanted = is_closed && is_wanted();
    if (wanted != is_open)
        raw(__NR_prctl, PR_SET_DUMPABLE, wanted);
    is_open = wanted;
    return wanted ? LOOK_NS : 0;
}
