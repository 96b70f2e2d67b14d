/* src/interpose/cma.c: process_vm_readv and process_vm_writev between members, by a copy in user
 * space.
 *
 * The kernel remains the reference: for anything unusual (flags, bad vectors, a target that is not
 * a member, an address that faults) the whole transfer is done by the system call, from the start,
 * so partial transfers and errors are the kernel's own. To begin again is the same as to begin,
 * because nothing that is read has been written: the two sides lie in different tasks or, when the
 * caller copies to itself, in ranges that do not overlap. */
#include "interpose/calls.h"

#include <limits.h>
#include <sys/uio.h>

#include "arch/constants.h"
#include "arch/copy.h"
#include "base/raw.h"
#include "interpose/signals.h"
#include "registry/child.h"
#include "space/holds.h"
#include "space/robust.h"

static struct space_slot *find_member(struct space *space, struct space_slot *self, int32_t pid)
{
    uint32_t at = atomic_load_explicit(&self->interpose.peer, memory_order_relaxed);
    if (atomic_load_explicit(&space->pids[at], memory_order_acquire) == pid)
        return &space->slots[at];
    uint32_t highest = atomic_load_explicit(&space->highest, memory_order_relaxed);
    for (at = 0; at <= highest; at++) {
        if (atomic_load_explicit(&space->pids[at], memory_order_acquire) != pid)
            continue;
        atomic_store_explicit(&self->interpose.peer, at, memory_order_relaxed);
        return &space->slots[at];
    }
    return NULL;
}

/* Whether the target has executed nothing since. A static program has no agent that puts it on the
 * libc's robust list, and may execute by an instruction that was not found: the kernel is asked
 * whether the process has this space's registry. */
static int is_here(struct space *space, const struct space_slot *target, int32_t pid)
{
    const struct child *child = (const struct child *)target->child_record;
    uint64_t created = 0;
    struct iovec local = {&created, sizeof(created)};
    struct iovec remote = {(void *)&space->created_ns, sizeof(created)};
    if (!robust_is_here(target))
        return 0;
    if (!child || !child->is_static)
        return 1;
    return raw(__NR_process_vm_readv, pid, &local, 1, &remote, 1, 0) == (long)sizeof(created) &&
           created == space->created_ns;
}

/* The other member with that PID, held, or NULL. Its memory stays until holds_give: it may end, and
 * the slot get another task, while the copy is under way. */
static struct space_slot *hold_member(struct space *space, struct space_slot *self, int32_t pid)
{
    struct space_slot *target = find_member(space, self, pid);
    if (!target || holds_take(space, target, self) != 0)
        return NULL;
    /* Asked only now: before the hold, both could change. */
    if (atomic_load(&space->pids[space_slot_index(space, target)]) == pid &&
        is_here(space, target, pid))
        return target;
    (void)holds_give(space, target, self);
    return NULL;
}

/* Walks one side's vector. */
struct walk {
    const struct iovec *next;
    unsigned long left; /* entries not fetched yet */
    char *at;
    size_t size;
};

/* Moves to an entry with bytes left to copy: 1; 0 at the end; -1: fall back to the system call. */
static int fetch(struct walk *walk)
{
    while (walk->size == 0) {
        struct iovec entry;
        if (walk->left == 0)
            return 0;
        if (arch_guarded_copy(&entry, walk->next, sizeof(entry)) != 0 || entry.iov_len > INT_MAX)
            return -1;
        walk->at = entry.iov_base;
        walk->size = entry.iov_len;
        walk->next++;
        walk->left--;
    }
    return 1;
}

/* The lowest and the highest address of a vector. */
struct bounds {
    uintptr_t begin, end;
};

static int overlap(const struct bounds *a, const struct bounds *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/* Whether the whole vector is valid. The kernel validates both vectors before it copies anything,
 * so this must be known before the first byte is copied. */
static int is_plain(const struct walk *walk, struct bounds *bounds)
{
    *bounds = (struct bounds){UINTPTR_MAX, 0};
    for (unsigned long i = 0; i < walk->left; i++) {
        struct iovec entry;
        if (arch_guarded_copy(&entry, walk->next + i, sizeof(entry)) != 0 ||
            entry.iov_len > INT_MAX || (uintptr_t)entry.iov_base + entry.iov_len > ARCH_ADDRESS_END)
            return 0;
        uintptr_t begin = (uintptr_t)entry.iov_base, end = begin + entry.iov_len;
        bounds->begin = begin < bounds->begin ? begin : bounds->begin;
        bounds->end = end > bounds->end ? end : bounds->end;
    }
    return 1;
}

/* Bytes copied; -1: fall back to the system call, from the start. */
static long copy_vectors(struct walk *local, struct walk *remote, int to_remote)
{
    long total = 0;
    for (;;) {
        int have_local = fetch(local), have_remote = have_local == 1 ? fetch(remote) : have_local;
        if (have_local < 0 || have_remote < 0)
            return -1;
        if (!have_local || !have_remote)
            return total;
        size_t size = local->size < remote->size ? local->size : remote->size;
        if (total + (long)size > INT_MAX - ARCH_PAGE) /* the kernel's limit of one transfer */
            return -1;
        char *to = to_remote ? remote->at : local->at;
        const char *from = to_remote ? local->at : remote->at;
        if (arch_guarded_copy_wide(to, from, size) != 0)
            return -1;
        local->at += size;
        local->size -= size;
        remote->at += size;
        remote->size -= size;
        total += (long)size;
    }
}

static void count(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

long interpose_copy(struct space_slot *self, long nr, const long a[6])
{
    struct space *space = space_registry();
    int32_t pid = (int32_t)a[0];
    struct space_slot *target = NULL;
    if (space_marked() && self->interpose.fault_trampoline && a[5] == 0 &&
        (unsigned long)a[2] <= UIO_MAXIOV && (unsigned long)a[4] <= UIO_MAXIOV)
        target = pid == atomic_load(&self->pid) ? self : hold_member(space, self, pid);
    if (target) {
        struct walk local = {(const struct iovec *)a[1], (unsigned long)a[2], NULL, 0};
        struct walk remote = {(const struct iovec *)a[3], (unsigned long)a[4], NULL, 0};
        struct bounds here, there;
        long copied = -1;
        if (interpose_can_recover(self) && is_plain(&local, &here) && is_plain(&remote, &there) &&
            !(target == self && overlap(&here, &there)))
            copied = copy_vectors(&local, &remote, nr == __NR_process_vm_writev);
        if (target != self)
            (void)holds_give(space, target, self);
        else if (copied >= 0) /* no communication: MPI libraries also try the call so */
            return copied;
        if (copied >= 0) {
            count(&self->stats.cma_calls, 1);
            count(&self->stats.cma_bytes, (uint64_t)copied);
            return copied;
        }
        count(&self->stats.cma_faults, 1);
    }
    count(&self->stats.cma_kernel_calls, 1);
    return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
