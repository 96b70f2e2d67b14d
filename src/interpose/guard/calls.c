/* src/interpose/guard/calls.c: the interposed calls of a guarded task: those of any task, and after
 * them the key for what they have mapped. */
#include <errno.h>
#include <linux/mman.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "arch/trampoline.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/record.h"
#include "interpose/interpose.h"
#include "interpose/memory/area.h"

/* As the task's other calls: by the trampoline's record, or NULL for the agent's syscall(). */
static long make(struct space_slot *self, const struct arch_patched_syscall *call, long nr,
                 const long a[6])
{
    return call ? interpose_dispatch(call, a) : interpose_plain_call(self, nr, a);
}

static int may_colour(const struct space_slot *self)
{
    return !atomic_load_explicit(&guard_record(self)->is_filtered, memory_order_relaxed);
}

/* What is private to a program; MAP_SHARED is how it asks for memory that others may write to. Of
 * libraries only the writable part: the rest is one mapping, and code (interpose/ldso.c). */
static int is_private(const struct arch_patched_syscall *call, const long a[6])
{
    int is_loader = call && call->is_loader;
    int is_code = (a[2] & PROT_EXEC) && !(a[3] & MAP_ANONYMOUS);
    return (a[3] & MAP_TYPE) == MAP_PRIVATE && !is_code && (!is_loader || (a[2] & PROT_WRITE));
}

static long map(struct space_slot *self, const struct arch_patched_syscall *call, const long a[6])
{
    long result = make(self, call, __NR_mmap, a);
    if (!raw_failed(result) && is_private(call, a) && may_colour(self) &&
        in_range(self, (uintptr_t)result, (size_t)a[1]))
        guard_set_key(self, (uintptr_t)result, (size_t)a[1], (int)a[2]);
    return result;
}

/* What is mapped above the break in large steps, and what the program's changes to its heap made
 * brk map anew. */
static long move_break(struct space_slot *self, const struct arch_patched_syscall *call,
                       const long a[6])
{
    struct space_interpose *interpose = &self->interpose;
    uint64_t mapped = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    uint64_t now = atomic_load_explicit(&interpose->break_now, memory_order_relaxed);
    long result = make(self, call, __NR_brk, a);
    uint64_t end = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    if (!may_colour(self))
        return result;
    if (end > mapped)
        guard_set_key(self, mapped, end - mapped, PROT_READ | PROT_WRITE);
    uint64_t from = page_ceiling(now), to = page_ceiling((uint64_t)result);
    if (to > from &&
        (atomic_load_explicit(&interpose->break_flags, memory_order_relaxed) & SPACE_BREAK_CHANGED))
        guard_set_key(self, from, to - from, PROT_READ | PROT_WRITE);
    return result;
}

/* The copy may write to another task's memory, since the program says so. */
static long write_to_other(struct space_slot *self, const struct arch_patched_syscall *call,
                           const long a[6])
{
    const struct space_guard *guard = &space_registry()->guard;
    uint32_t rights = guard_open(guard);
    long result = make(self, call, __NR_process_vm_writev, a);
    guard_close(guard, rights);
    return result;
}

static long restrict_self(struct space_slot *self, const struct arch_patched_syscall *call, long nr,
                          const long a[6])
{
    int is_filter = nr == __NR_seccomp || a[0] == PR_SET_SECCOMP;
    if (is_filter)
        atomic_store_explicit(&guard_record(self)->is_filtered, 1, memory_order_relaxed);
    return make(self, call, nr, a);
}

static long guarded(struct space_slot *self, const struct arch_patched_syscall *call, long nr,
                    const long a[6])
{
    switch (nr) {
    case __NR_mmap:
        return map(self, call, a);
    case __NR_brk:
        return move_break(self, call, a);
    case __NR_process_vm_writev:
        return write_to_other(self, call, a);
    case __NR_rt_sigaction:
        return a[0] == SIGSEGV || a[0] == SIGBUS ? make(self, call, nr, a)
                                                 : guard_sigaction(self, a);
    case __NR_prctl:
    case __NR_seccomp:
        return restrict_self(self, call, nr, a);
    case __NR_rseq:
        /* The kernel updates that memory whenever the thread has been moved, in a handler before it
         * has the right to, too, and ends a process where it cannot. glibc is told by a tunable. */
        return -ENOSYS;
    default:
        return make(self, call, nr, a);
    }
}

long guard_dispatch(const struct arch_patched_syscall *call, const long arguments[6])
{
    return guarded(call->self, call, call->nr, arguments);
}

long guard_call(struct space_slot *self, long nr, const long arguments[6])
{
    return guarded(self, NULL, nr, arguments);
}
