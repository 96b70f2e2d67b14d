/* src/interpose/guard/guard.c: the keys of a space, what a guarded task starts with, and its calls:
 * those of any task, after which its new memory gets the key. */
#include "interpose/guard/guard.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "arch/keys.h"
#include "base/kernel.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "interpose/memory/memory.h"
#include "space/child.h"

/* ---- Setting up ---- */

long guard_alloc_keys(struct space *space)
{
    struct space_guard *guard = &space->guard;
    uint32_t count = 0;
    if (atomic_load_explicit(&guard->count, memory_order_acquire))
        return 0;
    if (!arch_cpu_has_keys())
        return -ENOTSUP;
    if (!arch_kernel_has_keys())
        return -ENOSYS;
    guard->no_access = guard->no_write = 0;
    for (; count < SPACE_GUARD_KEYS; count++) {
        long key = raw(__NR_pkey_alloc, 0, 0); /* with all rights to it for this thread */
        if (key < 0)
            break;
        guard->keys[count] = (uint8_t)key;
        guard->no_access |= ARCH_NO_ACCESS(key);
        guard->no_write |= ARCH_NO_WRITE(key);
    }
    if (count == 0)
        return -ENOSPC;
    guard->saved_at = arch_saved_rights_at();
    /* Linux 6.12 and later write a signal's frame with the right to all memory. Before, a signal
     * that arrives before the handler of another one has the right to its stack kills the process.
     */
    guard->blocks_signals = kernel_version() < KERNEL_VERSION(6, 12);
    /* Release, pairs with the acquire above: a thread that sees the count sees the rest. */
    atomic_store_explicit(&guard->count, count, memory_order_release);
    return 0;
}

long guard_init_slot(struct space *space, struct space_slot *slot)
{
    const struct space_guard *guard = &space->guard;
    unsigned index = slot_index(space, slot);
    slot->guard_key = guard->keys[(index - 1) % atomic_load(&guard->count)];
    slot->guard_rights = (ARCH_RIGHTS_INITIAL & ~guard->no_access) |
                         (guard->no_write & ~ARCH_NO_WRITE(slot->guard_key));
    long result = raw(__NR_mmap, layout_range(index) + LAYOUT_GUARD,
                      page_ceiling(sizeof(struct guard_record)), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return raw_failed(result) ? result : 0;
}

void guard_set_key(const struct space_slot *slot, uintptr_t start, size_t size, int prot)
{
    raw(__NR_pkey_mprotect, start, page_ceiling(size), prot, slot->guard_key);
}

void guard_set_record_keys(const struct space_slot *slot)
{
    enum { BOTH = PROT_READ | PROT_WRITE };
    uintptr_t range = layout_range(slot_index(space_registry(), slot));
    guard_set_key(slot, slot->interpose.trampoline_data, ARCH_PAGE, BOTH);
    guard_set_key(slot, slot->child_record, CHILD_PAGES * ARCH_PAGE, BOTH);
    guard_set_key(slot, range + LAYOUT_GUARD, sizeof(struct guard_record), BOTH);
    guard_set_key(slot, range + LAYOUT_AREA_MAP, area_map_size(), BOTH);
}

void guard_apply_rights(const struct space_slot *self)
{
    const struct space_guard *guard = &space_registry()->guard;
    if (self->guard_key)
        arch_set_rights(self->guard_rights);
    else
        guard_open(guard); /* the spawner may be guarded */
}

/* ---- The calls ---- */

static int may_set_key(const struct space_slot *self)
{
    return !atomic_load_explicit(&guard_record(self)->is_filtered, memory_order_relaxed);
}

/* Whether the mapping is private to the program. Others may write to what it maps MAP_SHARED. Only
 * the writable part of a library gets a key: the rest is one mapping with the code
 * (interpose/ldso.c). */
static int is_private(int is_loader, const long a[6])
{
    int is_code = (a[2] & PROT_EXEC) && !(a[3] & MAP_ANONYMOUS);
    return (a[3] & MAP_TYPE) == MAP_PRIVATE && !is_code && (!is_loader || (a[2] & PROT_WRITE));
}

long guard_mmap(struct space_slot *self, int is_loader, long nr, const long a[6])
{
    long result = interpose_run_call(self, is_loader, nr, a);
    if (!raw_failed(result) && is_private(is_loader, a) && may_set_key(self) &&
        in_range(self, (uintptr_t)result, (size_t)a[1]))
        guard_set_key(self, (uintptr_t)result, (size_t)a[1], (int)a[2]);
    return result;
}

/* Sets the key on what brk maps above the break in large steps, and on what it maps anew after the
 * program has changed its heap's mappings. */
long guard_brk(struct space_slot *self, int is_loader, long nr, const long a[6])
{
    struct space_interpose *interpose = &self->interpose;
    uint64_t mapped = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    uint64_t now = atomic_load_explicit(&interpose->break_now, memory_order_relaxed);
    long result = interpose_run_call(self, is_loader, nr, a);
    uint64_t end = atomic_load_explicit(&interpose->break_mapped, memory_order_relaxed);
    if (!may_set_key(self))
        return result;
    if (end > mapped)
        guard_set_key(self, mapped, end - mapped, PROT_READ | PROT_WRITE);
    uint64_t from = page_ceiling(now), to = page_ceiling((uint64_t)result);
    if (to > from &&
        (atomic_load_explicit(&interpose->break_flags, memory_order_relaxed) & SPACE_BREAK_CHANGED))
        guard_set_key(self, from, to - from, PROT_READ | PROT_WRITE);
    return result;
}

/* The program asks for a copy that may write to another task's memory. */
long guard_process_vm_writev(struct space_slot *self, int is_loader, long nr, const long a[6])
{
    const struct space_guard *guard = &space_registry()->guard;
    uint32_t rights = guard_open(guard);
    long result = interpose_run_call(self, is_loader, nr, a);
    guard_close(guard, rights);
    return result;
}

static void record_filter(const struct space_slot *self)
{
    atomic_store_explicit(&guard_record(self)->is_filtered, 1, memory_order_relaxed);
}

long guard_prctl(struct space_slot *self, int is_loader, long nr, const long a[6])
{
    if (a[0] == PR_SET_SECCOMP)
        record_filter(self);
    return interpose_run_call(self, is_loader, nr, a);
}

long guard_seccomp(struct space_slot *self, int is_loader, long nr, const long a[6])
{
    record_filter(self);
    return interpose_run_call(self, is_loader, nr, a);
}

/* The kernel updates the rseq area whenever the thread has been moved, even in a handler before it
 * has the right to that memory, and kills the process if it cannot. glibc is told by a tunable. */
long guard_rseq(struct space_slot *self, int is_loader, long nr, const long a[6])
{
    (void)self, (void)is_loader, (void)nr, (void)a;
    return -ENOSYS;
}
