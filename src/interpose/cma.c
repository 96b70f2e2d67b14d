/* src/interpose/cma.c: process_vm_readv and process_vm_writev between members, by a copy in user
 * space.
 *
 * The kernel remains the reference: in any unusual case (flags, bad vectors, a target that is not a
 * member, an address that faults) the system call makes the whole transfer, from the start, so that
 * partial transfers and errors are the kernel's own. Starting again is harmless, because nothing
 * that is read has been written: the two sides lie in different tasks or, if the caller copies to
 * itself, in ranges that do not overlap.
 *
 * All members have one address space, and the kernel would copy to any address in it. As between
 * processes an address must be the target's: its own memory, that of a member that it holds
 * (space/member.h), or a mapping shared by several tasks of which it is one. The copy ends before
 * the first entry that is not. If the kernel refuses the call as such (a seccomp filter), the
 * result is the one without the filter. */
#include "interpose/calls.h"

#include <errno.h>
#include <limits.h>
#include <sys/uio.h>

#include "arch/constants.h"
#include "arch/copy.h"
#include "base/raw.h"
#include "interpose/interpose.h"
#include "space/child.h"
#include "space/member.h"
#include "space/intervals.h"
#include "space/shared_mappings.h"

static struct space_slot *find_member(struct space *space, struct space_slot *self, int32_t pid)
{
    uint32_t at = atomic_load_explicit(&self->interpose.peer, memory_order_relaxed);
    if (atomic_load_explicit(&space->pids[at], memory_order_acquire) == pid)
        return &space->slots[at];
    struct space_slot *found = slot_of_pid(space, pid);
    if (found)
        atomic_store_explicit(&self->interpose.peer, slot_index(space, found),
                              memory_order_relaxed);
    return found;
}

/* Whether the process still runs the member's program. A static program has no agent to put it on
 * the libc's robust list, and may call execve by an instruction that was not patched: the kernel is
 * asked whether the process has this space's registry. */
static int is_still_member(struct space *space, const struct space_slot *target, int32_t pid)
{
    const struct child *child = (const struct child *)target->child_record;
    uint64_t created = 0;
    struct iovec local = {&created, sizeof(created)};
    struct iovec remote = {(void *)&space->created_ns, sizeof(created)};
    if (!member_is_present(target))
        return 0;
    if (!child || !child->is_static)
        return 1;
    return raw(__NR_process_vm_readv, pid, &local, 1, &remote, 1, 0) == (long)sizeof(created) &&
           created == space->created_ns;
}

/* The other member with that PID, held, or NULL. Its memory stays mapped until
 * hold_release_after_copy, even if it ends meanwhile and the slot gets another task. */
static struct space_slot *hold_member(struct space *space, struct space_slot *self, int32_t pid)
{
    struct space_slot *target = find_member(space, self, pid);
    if (!target || hold_take_for_copy(space, target, self) != 0)
        return NULL;
    /* Tested only now: before the hold both could change. */
    if (atomic_load(&space->pids[slot_index(space, target)]) == pid &&
        is_still_member(space, target, pid))
        return target;
    hold_release_after_copy(space, target, self);
    return NULL;
}

/* ---- Which memory is the target's ---- */

/* Tasks in thread mode belong to one process, and so does their memory. */
static int may_access(struct space *space, const struct space_slot *owner,
                      const struct space_slot *target)
{
    return owner == target || slot_is_thread(owner) || slot_is_thread(target) ||
           hold_exists(space, owner, target);
}

/* Outside all ranges: everything except the out-of-range mappings of members that the target does
 * not hold. The rest is the root's, which may share it, or the kernel's. */
static int is_reachable_outside(struct space *space, const struct space_slot *target,
                                uintptr_t begin, uintptr_t end)
{
    uint32_t highest = atomic_load_explicit(&space->highest, memory_order_relaxed);
    for (uint32_t i = 1; i <= highest; i++)
        if (intervals_overlap(&space->slots[i], INTERVALS_OUT_OF_RANGE, begin, end) &&
            !may_access(space, &space->slots[i], target))
            return 0;
    return 1;
}

/* Whether the target, as a process, would have [begin, end) mapped. The range lies outside the
 * target's own. */
static int is_reachable(struct space *space, const struct space_slot *target, uintptr_t begin,
                        uintptr_t end)
{
    unsigned first = layout_slot_of(begin), last = layout_slot_of(end - 1);
    if (first != last)
        return 0;
    if (first == 0)
        return 1; /* the space's own tables */
    if (first < LAYOUT_SLOTS)
        return may_access(space, &space->slots[first], target);
    if (!shared_windows_contain(begin))
        return is_reachable_outside(space, target, begin, end);
    return shared_windows_contain(end - 1) &&
           shared_window_index(begin) == shared_window_index(end - 1) &&
           shared_mapping_has_user(space, target, shared_window_index(begin));
}

/* The member whose memory the remote side must be. `target` NULL: the caller's own side, which may
 * be any memory. */
struct remote {
    struct space *space;
    const struct space_slot *target;
    uintptr_t low; /* of the target's range */
};

static int is_targets(const struct remote *remote, const struct iovec *entry)
{
    uintptr_t begin = (uintptr_t)entry->iov_base, offset = begin - remote->low;
    if (!remote->target || entry->iov_len == 0 ||
        (offset < LAYOUT_RANGE && entry->iov_len <= LAYOUT_RANGE - offset))
        return 1;
    /* The kernel refuses its own addresses. */
    return begin > ARCH_ADDRESS_END - entry->iov_len || entry->iov_len > ARCH_ADDRESS_END ||
           is_reachable(remote->space, remote->target, begin, begin + entry->iov_len);
}

/* The sum of the lengths in a vector, at most LONG_MAX. The kernel reports a bad vector. */
static size_t total_of(const struct iovec *vector, unsigned long count)
{
    size_t total = 0;
    for (unsigned long i = 0; i < count; i++) {
        struct iovec entry;
        if (interpose_copy_from_user(&entry, vector + i, sizeof(entry)) != 0)
            break;
        if (entry.iov_len > LONG_MAX - total)
            return LONG_MAX;
        total += entry.iov_len;
    }
    return total;
}

/* The number of entries of the remote vector before the first that is not the target's. Only the
 * first `left` bytes count: the size of the local side. */
static unsigned long count_targets(const struct remote *remote, const struct iovec *vector,
                                   unsigned long count, size_t left)
{
    for (unsigned long i = 0; i < count && left > 0; i++) {
        struct iovec entry;
        if (interpose_copy_from_user(&entry, vector + i, sizeof(entry)) != 0)
            break;
        entry.iov_len = entry.iov_len < left ? entry.iov_len : left;
        if (!is_targets(remote, &entry))
            return i;
        left -= entry.iov_len;
    }
    return count;
}

/* ---- The copy ---- */

/* The position in one side's vector. */
struct cursor {
    const struct iovec *next;
    unsigned long entries_left; /* not read yet */
    char *at;                   /* the rest of the current entry: `size` bytes */
    size_t size;
};

/* Moves to an entry with bytes left to copy: 1; 0 at the end; -1: fall back to the system call. */
static int next_entry(struct cursor *cursor)
{
    while (cursor->size == 0) {
        struct iovec entry;
        if (cursor->entries_left == 0)
            return 0;
        if (arch_guarded_copy(&entry, cursor->next, sizeof(entry)) != 0 || entry.iov_len > INT_MAX)
            return -1;
        cursor->at = entry.iov_base;
        cursor->size = entry.iov_len;
        cursor->next++;
        cursor->entries_left--;
    }
    return 1;
}

/* The lowest address of a vector, and the end of the highest entry. */
struct bounds {
    uintptr_t begin, end;
};

/* Whether the whole vector is valid, and all of it the target's. The kernel validates both vectors
 * before it copies anything, so this is tested before the first byte is copied. */
static int is_valid(const struct cursor *cursor, const struct remote *remote, struct bounds *bounds)
{
    *bounds = (struct bounds){UINTPTR_MAX, 0};
    for (unsigned long i = 0; i < cursor->entries_left; i++) {
        struct iovec entry;
        if (arch_guarded_copy(&entry, cursor->next + i, sizeof(entry)) != 0 ||
            entry.iov_len > INT_MAX || (uintptr_t)entry.iov_base > ARCH_ADDRESS_END ||
            (uintptr_t)entry.iov_base + entry.iov_len > ARCH_ADDRESS_END ||
            !is_targets(remote, &entry))
            return 0;
        uintptr_t begin = (uintptr_t)entry.iov_base, end = begin + entry.iov_len;
        bounds->begin = begin < bounds->begin ? begin : bounds->begin;
        bounds->end = end > bounds->end ? end : bounds->end;
    }
    return 1;
}

/* Bytes up to the end of the page. */
static size_t rest_of_page(const char *at)
{
    return ARCH_PAGE_MIN - (uintptr_t)at % ARCH_PAGE_MIN;
}

/* Returns the bytes copied, or -1: fall back to the system call, from the start. With `by_pages` it
 * stops before the first page that cannot be read or written, as the kernel does, and returns the
 * bytes before. */
static long copy_vectors(struct cursor *local, struct cursor *remote, int to_remote, int by_pages)
{
    long total = 0;
    for (;;) {
        int have_local = next_entry(local),
            have_remote = have_local == 1 ? next_entry(remote) : have_local;
        if (have_local < 0 || have_remote < 0)
            return by_pages ? total : -1;
        if (!have_local || !have_remote)
            return total;
        size_t size = local->size < remote->size ? local->size : remote->size;
        if (by_pages) {
            size_t local_rest = rest_of_page(local->at), remote_rest = rest_of_page(remote->at);
            size = size < local_rest ? size : local_rest;
            size = size < remote_rest ? size : remote_rest;
        }
        if (total + (long)size > INT_MAX - ARCH_PAGE) /* the kernel's limit of one transfer */
            return by_pages ? total : -1;
        char *to = to_remote ? remote->at : local->at;
        const char *from = to_remote ? local->at : remote->at;
        if (arch_guarded_copy_wide(to, from, size) != 0)
            return by_pages ? total : -1;
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

static struct cursor cursor_at(long vector, unsigned long entries)
{
    return (struct cursor){(const struct iovec *)vector, entries, NULL, 0};
}

/* The kernel refuses the call as such: copies as far as the memory can be read and written. If a
 * fault would kill the process, returns the refusal. */
static long copy_despite_filter(struct space_slot *self, long nr, const long a[6],
                                unsigned long entries, long refused)
{
    const struct remote anywhere = {0};
    struct cursor local = cursor_at(a[1], (unsigned long)a[2]), remote = cursor_at(a[3], entries);
    struct bounds local_bounds, remote_bounds;
    if (!interpose_can_recover(self))
        return refused;
    if (!is_valid(&local, &anywhere, &local_bounds) ||
        !is_valid(&remote, &anywhere, &remote_bounds))
        return -EFAULT;
    long copied = copy_vectors(&local, &remote, nr == __NR_process_vm_writev, 1);
    int is_empty =
        local_bounds.begin >= local_bounds.end || remote_bounds.begin >= remote_bounds.end;
    return copied || is_empty ? copied : -EFAULT;
}

/* Makes the system call, as far as the addresses are the target's. */
static long copy_by_kernel(struct space_slot *self, const struct remote *remote, long nr,
                           const long a[6])
{
    unsigned long wanted = (unsigned long)a[4];
    size_t size = total_of((const struct iovec *)a[1], (unsigned long)a[2]);
    unsigned long entries = count_targets(remote, (const struct iovec *)a[3], wanted, size);
    count(&self->stats.cma_kernel_calls, 1);
    long result = raw_syscall6(nr, a[0], a[1], a[2], a[3], (long)entries, a[5]);
    if (result == -EPERM || result == -ENOSYS)
        result = copy_despite_filter(self, nr, a, entries, result);
    return result == 0 && entries < wanted ? -EFAULT : result;
}

long interpose_process_vm(struct space_slot *self, long nr, const long a[6])
{
    struct space *space = space_registry();
    int32_t pid = (int32_t)a[0];
    struct space_slot *target = NULL;
    if (process_in_space() && self->interpose.fault_trampoline && a[5] == 0 &&
        (unsigned long)a[2] <= UIO_MAXIOV && (unsigned long)a[4] <= UIO_MAXIOV)
        target = pid == atomic_load(&self->pid) ? self : hold_member(space, self, pid);
    if (!target) {
        count(&self->stats.cma_kernel_calls, 1);
        return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    struct remote target_side = {space, target == self ? NULL : target,
                                 layout_range(slot_index(space, target))};
    struct remote caller_side = {0};
    struct cursor local = cursor_at(a[1], (unsigned long)a[2]);
    struct cursor remote = cursor_at(a[3], (unsigned long)a[4]);
    struct bounds local_bounds, remote_bounds;
    long copied = -1, result;
    if (interpose_can_recover(self) && is_valid(&local, &caller_side, &local_bounds) &&
        is_valid(&remote, &target_side, &remote_bounds) &&
        !(target == self && local_bounds.begin < remote_bounds.end &&
          remote_bounds.begin < local_bounds.end))
        copied = copy_vectors(&local, &remote, nr == __NR_process_vm_writev, 0);
    result = copied;
    if (copied < 0) {
        result = copy_by_kernel(self, &target_side, nr, a);
    } else if (target !=
               self) { /* a copy to itself, a test of MPI libraries, is not communication */
        count(&self->stats.cma_calls, 1);
        count(&self->stats.cma_bytes, (uint64_t)copied);
    }
    if (target != self)
        hold_release_after_copy(space, target, self);
    return result;
}
