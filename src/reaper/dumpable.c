/* src/reaper/dumpable.c: before Linux 5.16, keeps the crash of one task from ending all.
 *
 * When a signal whose default action is a core dump ends a process, such a kernel kills all
 * processes that share its memory, even if it writes no core file. It does neither if that memory
 * is not dumpable (PR_SET_DUMPABLE): then only the process that got the signal ends. This holds for
 * each crash, also of threads that block the signal or have no stack left.
 *
 * The price is that only privileged processes may trace members, and read those files of /proc that
 * are private to their user. Commands such as `onespace ps` ask the reaper to make the memory
 * dumpable for a while.
 *
 * Freestanding: the reaper runs it, also in a signal handler. */
#include "reaper/reaper.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "base/futex.h"
#include "base/kernel.h"
#include "base/proc.h"
#include "base/raw.h"

enum { READERS_MAX = 64, CHECK_NS = 100000000 };

#define UNKNOWN_PID_NS UINT64_C(60000000000) /* for a reader whose PID is unknown */

/* The root writes both before it makes the reaper, which shares its memory, and after the reaper
 * has ended; in between only the reaper writes `is_dumpable`. */
static int was_cleared, is_dumpable;

/* Relaxed, all by the reaper: its handler stores a PID where there is 0, and dumpable_poll, which
 * the handler may interrupt, removes it. When the table is full, further readers do not extend the
 * time. */
static _Atomic int32_t readers[READERS_MAX];
static _Atomic uint64_t unknown_pid_until;

int must_clear_dumpable(const char *choice)
{
    uint32_t version = kernel_version();
    int is_choice = choice && (*choice == '0' || *choice == '1') && !choice[1];
    return is_choice ? *choice == '0' : version && version < KERNEL_VERSION(5, 16);
}

void dumpable_clear(void)
{
    is_dumpable = 0;
    for (unsigned i = 0; i < READERS_MAX; i++)
        atomic_store_explicit(&readers[i], 0, memory_order_relaxed);
    atomic_store_explicit(&unknown_pid_until, 0, memory_order_relaxed);
    was_cleared = raw(__NR_prctl, PR_GET_DUMPABLE) == 1 && raw(__NR_prctl, PR_SET_DUMPABLE, 0) == 0;
}

int dumpable_was_cleared(void)
{
    return was_cleared;
}

void dumpable_restore(void)
{
    if (was_cleared)
        raw(__NR_prctl, PR_SET_DUMPABLE, 1);
    was_cleared = 0;
}

void dumpable_allow(int pid)
{
    if (!was_cleared)
        return;
    if (pid <= 0)
        atomic_store_explicit(&unknown_pid_until, futex_now_ns() + UNKNOWN_PID_NS,
                              memory_order_relaxed);
    for (unsigned i = 0; pid > 0 && i < READERS_MAX; i++) {
        int32_t none = 0;
        if (atomic_compare_exchange_strong_explicit(&readers[i], &none, pid, memory_order_relaxed,
                                                    memory_order_relaxed) ||
            none == pid)
            return;
    }
}

/* A zombie has ended, too: its parent may never wait for it. */
static int has_ended(int pid)
{
    struct proc_stat stat;
    if (raw(__NR_kill, pid, 0) == -ESRCH)
        return 1;
    return proc_read_stat(pid, &stat) == 0 && (stat.state == 'Z' || stat.state == 'X');
}

static int has_reader(void)
{
    uint64_t until = atomic_load_explicit(&unknown_pid_until, memory_order_relaxed);
    int found = until && futex_now_ns() < until;
    for (unsigned i = 0; i < READERS_MAX; i++) {
        int32_t pid = atomic_load_explicit(&readers[i], memory_order_relaxed);
        if (pid && has_ended(pid))
            atomic_store_explicit(&readers[i], 0, memory_order_relaxed);
        else
            found |= pid != 0;
    }
    return found;
}

uint64_t dumpable_poll(void)
{
    int must_be_dumpable = was_cleared && has_reader();
    if (must_be_dumpable != is_dumpable)
        raw(__NR_prctl, PR_SET_DUMPABLE, must_be_dumpable);
    is_dumpable = must_be_dumpable;
    return must_be_dumpable ? CHECK_NS : 0;
}
