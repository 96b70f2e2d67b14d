/* src/interpose/memory/records.c: what the kernel keeps once per address space and a task must own:
 * DONTFORK marks, seals and contexts of asynchronous I/O. Each task's are recorded in interval
 * tables (space/intervals.h), and the reaper undoes those of a task that has ended. */
#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "interpose/memory/memory.h"
#include "space/shared_mappings.h"
#include "space/intervals.h"
#include "space/locks.h"

/* Newer than some headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

/* ---- MADV_DONTFORK and MADV_DOFORK, counted per task ----
 *
 * RDMA libraries keep registered memory from forked children, because after a fork one side gets a
 * copied page, which the card does not know. The kernel has one mark for all tasks, and a fork of
 * any task would copy, so the mark must stay as long as one task wants it. MADV_DOFORK reaches the
 * kernel only for memory that no other task has marked. */

static long unmark(struct space_slot *self, uintptr_t start, uintptr_t end)
{
    uint64_t signals = member_lock(self);
    (void)intervals_cut(self, INTERVALS_DONTFORK, start, end, 0);
    long result = intervals_unmark_dontfork(space_registry(), self, start, end);
    member_unlock(self, signals);
    return result;
}

/* If the table is full, the mark is only the kernel's, and any task can remove it. */
static long mark(struct space_slot *self, const long a[6], uintptr_t start, uintptr_t end)
{
    uint64_t signals = member_lock(self);
    (void)intervals_add(self, INTERVALS_DONTFORK, start, end);
    long result = raw(__NR_madvise, a[0], a[1], a[2]);
    member_unlock(self, signals);
    return result;
}

long interpose_madvise(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t start = (uintptr_t)a[0], end = start + page_ceiling((size_t)a[1]);
    int is_plain = (a[2] == MADV_DONTFORK || a[2] == MADV_DOFORK) && process_in_space() &&
                   start % ARCH_PAGE == 0 && end > start;
    if (!is_plain)
        return raw(nr, a[0], a[1], a[2]);
    return a[2] == MADV_DONTFORK ? mark(self, a, start, end) : unmark(self, start, end);
}

static void move_marks(struct space_slot *self, const long a[6], uintptr_t to)
{
    uintptr_t start = (uintptr_t)a[0], end = start + page_ceiling(a[1] ? (size_t)a[1] : 1);
    uintptr_t to_end = to + page_ceiling((size_t)a[2]);
    int was_marked = intervals_overlap(self, INTERVALS_DONTFORK, start, end);
    if (!mremap_keeps_old(a))
        (void)intervals_cut(self, INTERVALS_DONTFORK, start, end, 0);
    (void)intervals_cut(self, INTERVALS_DONTFORK, to, to_end, 0);
    if (was_marked)
        (void)intervals_add(self, INTERVALS_DONTFORK, to, to_end);
}

/* A new mapping has no mark; mremap moves the mark. */
void dontfork_update(struct space_slot *self, long nr, const long a[6], long result)
{
    uintptr_t start = (uintptr_t)a[0], end = start + page_ceiling((size_t)a[1]);
    if (nr != __NR_munmap && nr != __NR_mremap && !(nr == __NR_mmap && (a[3] & MAP_FIXED)))
        return;
    uint64_t signals = member_lock(self);
    if (nr == __NR_mremap)
        move_marks(self, a, (uintptr_t)result);
    else
        (void)intervals_cut(self, INTERVALS_DONTFORK, start, end, 0);
    member_unlock(self, signals);
}

/* ---- mseal: enforced for the task; the reaper can still unmap the memory ----
 *
 * The kernel unmaps a sealed mapping only with the address space. After the end of a task that
 * sealed something, its slot and that memory would never be free again. So the kernel seals
 * nothing. Calls of the task itself that a seal forbids fail with EPERM; calls that are not
 * interposed and those of other tasks pass.
 *
 * A forked child has its parent's seals by its copy of the table. What it seals itself is sealed by
 * the kernel, in its own memory. */

static int is_sealed(const struct space_slot *self, long address, long bytes)
{
    uintptr_t start = (uintptr_t)address, end = start + page_ceiling((size_t)bytes);
    return start % ARCH_PAGE == 0 && end > start &&
           intervals_overlap(self, INTERVALS_SEALED, start, end);
}

int advice_discards(long advice)
{
    return advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_FREE ||
           advice == MADV_REMOVE;
}

/* The advice that the kernel refuses for sealed memory. */
static int discards(long advice)
{
    return advice_discards(advice) || advice == MADV_DONTFORK || advice == MADV_WIPEONFORK;
}

/* Writable memory may be discarded even if it is sealed. Populating its pages for writing tells
 * whether it is writable. */
static int forbids_discarding(const struct space_slot *self, uintptr_t start, uintptr_t end)
{
    uintptr_t low, high;
    for (; intervals_find(self, INTERVALS_SEALED, start, end, &low, &high); start = high)
        if (!shared_windows_contain(low) &&
            raw(__NR_madvise, low, high - low, MADV_POPULATE_WRITE) != 0)
            return 1;
    return 0;
}

int seal_forbids(const struct space_slot *self, long nr, const long a[6])
{
    if (intervals_used(self, INTERVALS_SEALED) == 0)
        return 0;
    switch (nr) {
    case __NR_munmap:
    case __NR_mprotect:
    case __NR_pkey_mprotect:
        return is_sealed(self, a[0], a[1]);
    case __NR_mmap:
        return (a[3] & MAP_FIXED) && is_sealed(self, a[0], a[1]);
    case __NR_mremap:
        return is_sealed(self, a[0], a[1] ? a[1] : 1) ||
               ((a[3] & MREMAP_FIXED) && is_sealed(self, a[4], a[2]));
    case __NR_madvise:
        return discards(a[2]) && is_sealed(self, a[0], a[1]) &&
               forbids_discarding(self, (uintptr_t)a[0],
                                  (uintptr_t)a[0] + page_ceiling((size_t)a[1]));
    case __NR_shmdt:
        return is_sealed(self, a[0], 1);
    default:
        return 0;
    }
}

long interpose_mseal(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t start = (uintptr_t)a[0];
    size_t size = page_ceiling((size_t)a[1]);
    if (!process_in_space())
        return raw(nr, a[0], a[1], a[2]);
    long result = raw(__NR_mseal, 0, 0, ~0ul);
    if (result != -EINVAL) /* the kernel, which checks the flags first, lacks the call */
        return result;
    if (a[2] || start % ARCH_PAGE || size < (size_t)a[1] || start + size < start)
        return -EINVAL;
    if (size == 0)
        return 0;
    /* Changes nothing, and fails if a part is not mapped. */
    if (raw(__NR_msync, start, size, MS_ASYNC) != 0)
        return -ENOMEM;
    uint64_t signals = member_lock(self);
    result = intervals_add(self, INTERVALS_SEALED, start, start + size) == 0 ? 0 : -ENOMEM;
    member_unlock(self, signals);
    return result;
}

/* ---- Contexts of asynchronous I/O (io_setup) ----
 *
 * The kernel destroys a context only with the address space: a task that is killed, or ends without
 * io_destroy, would leave its contexts, which count against fs.aio-max-nr, and their rings.
 *
 * A context's name is the address of its ring, which is page aligned: an interval of one page. An
 * entry may outlive its context, if the program destroys it by a call that is not interposed, and
 * the kernel may then give the same name to another task. So a task that gets a name removes it
 * from all other tables, and nothing is destroyed twice under one name. */

static void forget_context(uintptr_t context)
{
    struct space *space = space_registry();
    uint32_t highest = atomic_load_explicit(&space->highest, memory_order_relaxed);
    for (uint32_t i = 0; i <= highest; i++)
        if (intervals_used(&space->slots[i], INTERVALS_AIO))
            (void)intervals_cut(&space->slots[i], INTERVALS_AIO, context, context + ARCH_PAGE, 0);
}

/* Locked around the call, with signals blocked: a thread that is killed between the call and the
 * entry leaks the context. A forked child's contexts belong to its own address space. */
long interpose_io_setup(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t context;
    if (!process_in_space())
        return raw(nr, a[0], a[1]);
    uint64_t signals = member_lock(self);
    long result = raw(nr, a[0], a[1]);
    if (result == 0 &&
        interpose_copy_from_user(&context, (const void *)a[1], sizeof(context)) == 0 &&
        page_floor(context) == context) {
        forget_context(context);
        (void)intervals_add(self, INTERVALS_AIO, context, context + ARCH_PAGE);
    }
    member_unlock(self, signals);
    return result;
}

/* The entry is removed first: a destroyed context's name may be another task's next. The call waits
 * for requests in flight, so it is made without the lock. */
long interpose_io_destroy(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t context = (uintptr_t)a[0];
    if (process_in_space() && context && page_floor(context) == context) {
        uint64_t signals = member_lock(self);
        forget_context(context);
        member_unlock(self, signals);
    }
    return raw(nr, a[0]);
}
